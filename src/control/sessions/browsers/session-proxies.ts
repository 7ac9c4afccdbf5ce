// The proxies of sessions: tells the forwarder through which server the traffic of a session goes, and again when this service has taken the session over.
import { isDeepStrictEqual } from 'node:util'
import { fitting, session, SOCKETS, type Fit } from '../../../agent/session/contract.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { Mutexes } from '../../../base/mutex.ts'
import type { Forwarder } from '../../../egress/forwarder.ts'
import type { Routing } from '../../../egress/routing.ts'
import { sleep } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { pathTo } from '../../../http/route.ts'
import type { DirectWays } from '../../../instances/driver.ts'
import type { EndStep } from './end-step.ts'
import type { BrowserRow } from './rows.ts'
import type { Uses } from './standby.ts'
import type { Leases } from '../../../store/leases.ts'

/** As many as an agent takes. */
const MAX_API_HOSTS = 16

/** Dialling a link and turning the browser to it takes milliseconds; a browser that has just started needs seconds. */
const RESTORE_MS = 30_000
/** How often that is tried, and the time between. */
const RESTORE_TRIES = 10
const RESTORE_AGAIN_MS = 5_000

interface SessionProxiesSettings {
  forwarder: Forwarder
  /** Of the driver; undefined when it has none. */
  directWays: DirectWays | undefined
  /** The routing of a session's traffic; undefined when its browser connects directly. @throws when it cannot be used */
  routingOf: (row: BrowserRow) => Promise<Routing | undefined>
  /** The time zone at a session's proxy, if it is known. Absent: it is not looked for. */
  timeZoneOf?: ((row: BrowserRow, signal: AbortSignal) => Promise<string | undefined>) | undefined
  uses: Pick<Uses, 'hold'>
  /** Other replicas may have links into the agents of sessions. */
  leases: Pick<Leases, 'catchUp'>
  /** A live session, or a browser that waits in its pool. */
  find: (id: string) => Promise<BrowserRow | undefined>
  /** Hosts with ports at which clients reach the API. */
  apiHosts: () => readonly string[]
  /** `RESTORE_AGAIN_MS`, unless given. */
  againMs?: number
  log: Log
}

/** What an agent is told of its session's proxy. */
export type SessionProxyFit = Required<Pick<Fit, 'proxy'>> & Pick<Fit, 'time_zone'>

/** Disposing ends the attempts of {@link SessionProxies.restore}. */
export interface SessionProxies extends Disposable {
  /** Runs `fit` with what the agent has to be told for the proxy of the session's row; its links are there by then. One call at a time for each session. @throws 503; what `fit` throws */
  fitted(row: BrowserRow, agent: Endpoint, fit: (wanted: SessionProxyFit) => Promise<void>, signal: AbortSignal): Promise<void>
  /**
   * Has the list of allowed hosts that the session's row has now take effect. It is the forwarder's matter: what the browser does, or a client of it, neither delays this nor
   * makes it fail. With other replicas, the agent is told to take this one's links. @throws 503
   */
  allow(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<void>
  /** Gives a session the proxy of its row again: this service has just taken it over, or a change of the proxy has failed. Does not wait; what fails is logged. */
  restore(id: string, agent: Endpoint): void
  /** The step of an end. */
  forget: EndStep
}

export function makeSessionProxies({ againMs = RESTORE_AGAIN_MS, ...settings }: SessionProxiesSettings): SessionProxies {
  const { forwarder, directWays, routingOf, timeZoneOf, uses, leases, find, apiHosts, log } = settings
  const turns = new Mutexes()
  /** Reading a list and telling the forwarder of it are one: an older list must not come after a newer one. */
  const lists = new Mutexes()
  const stop = new AbortController()

  /** With stealth, the time zone goes with the proxy. An agent of an older version cannot change it, and keeps its own. */
  async function zoneFor(row: BrowserRow, { older }: Endpoint, signal: AbortSignal): Promise<Pick<Fit, 'time_zone'>> {
    if (!timeZoneOf || !row.options.stealth || older?.lacks.includes(fitting('time_zone'))) return {}
    const hasProxy = (await routingOf(row))?.upstream !== undefined
    return { time_zone: (hasProxy ? await timeZoneOf(row, signal) : undefined) ?? '' }
  }

  /** The row, with the list of allowed hosts that its session has by now. One that its pool takes back gets the list of the pool. */
  async function withListOfNow(row: BrowserRow): Promise<BrowserRow> {
    const now = await find(row.id)
    return now?.state === 'running' && now.lease === row.lease ? { ...row, options: { ...row.options, network: now.options.network } } : row
  }

  /** Tells the forwarder the routing of a row. Returns it, and the key of its links, which are there when `linked` resolves. */
  async function send(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<{ routing: Routing; key: string; linked: Promise<void> } | undefined> {
    const routing = await routingOf(await withListOfNow(row))
    if (!routing) {
      // Until the browser has turned away from its proxy, its requests fail. They do not go directly.
      forwarder.forget(row.id)
      return undefined
    }
    const used = forwarder.used(row.id)
    if (used && isDeepStrictEqual(used.agent, agent) && haveSameProxies(used.routing, routing)) {
      await forwarder.allow(row.id, routing.allowedHosts, signal)
      return { routing, key: used.key, linked: Promise.resolve() }
    }
    const key = newId()
    const linked = forwarder.use({ id: row.id, agent, key, path: pathTo(SOCKETS.links, { key }), routing }, signal)
    linked.catch(() => {})
    return { routing, key, linked }
  }

  /** Sends the session's traffic by the routing of its row. */
  async function prepare(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<SessionProxyFit> {
    const zone = await zoneFor(row, agent, signal)
    const sent = await lists.run(row.id, () => send(row, agent, signal), signal)
    if (!sent) return { proxy: { on: false }, ...zone }
    const { routing, key, linked } = sent
    await linked.catch((error: unknown) => {
      throw signal.aborted ? error : fault.unavailable('the browser could not be connected with its proxy', error)
    })
    const authorities = [...new Set([routing.upstream, ...routing.routes.map(({ upstream }) => upstream)].flatMap((server) => server?.ca ?? []))].join('\n')
    const direct = [...apiHosts().slice(0, MAX_API_HOSTS), ...(routing.privateHosts ?? [])]
    return { proxy: { on: true, direct, ...(authorities !== '' && { authorities }), links: key }, ...zone }
  }

  /** Turns the browser, and closes or opens what leads around its proxy. */
  async function turn(id: string, wanted: SessionProxyFit, fit: (wanted: SessionProxyFit) => Promise<void>): Promise<void> {
    const [endDirect] = await Promise.all([wanted.proxy.on ? directWays?.close(id) : directWays?.open(id), fit(wanted)])
    await endDirect?.()
  }

  async function tryToRestore(id: string, agent: Endpoint): Promise<void> {
    const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(RESTORE_MS)])
    const work = async () => {
      const row = await find(id)
      if (!row) return
      const wanted = await prepare(row, agent, signal)
      await turn(id, wanted, (body) => call(agent, session.fitSession, { body }, { signal }))
    }
    await turns.run(id, work, signal)
  }

  async function restore(id: string, agent: Endpoint): Promise<void> {
    if (agent.older?.lacks.includes(fitting('proxy'))) return
    for (let left = RESTORE_TRIES; ;) {
      try {
        return await tryToRestore(id, agent)
      } catch (err) {
        if (stop.signal.aborted) return
        // It may have ended meanwhile. While the database is away nobody knows, and nothing can work.
        const found = await find(id).catch(() => 'unknown' as const)
        if (!found) return
        if (found !== 'unknown') left--
        // Until it works, the session's requests fail. They do not go directly.
        log.error({ err, browser: id, left }, 'the proxy of a session could not be set again')
        if (left === 0) return
        await sleep(againMs, stop.signal).catch(() => {})
      }
    }
  }

  const fitted: SessionProxies['fitted'] = async (row, agent, fit, signal) => {
    const work = async () => turn(row.id, await prepare(row, agent, signal), fit)
    await turns.run(row.id, work, signal)
  }

  const restoreHeld: SessionProxies['restore'] = (id, agent) => {
    const rest = uses.hold(id)
    void restore(id, agent).finally(rest)
  }

  return {
    fitted,
    async allow(row, agent, signal) {
      const give = async () => forwarder.allow(row.id, (await withListOfNow(row)).options.network?.allowed_hosts, signal)
      const isGiven = await lists.run(row.id, give, signal)
      // Another replica may have its links, by an older list.
      const turned = leases.catchUp(() => fitted(row, agent, (body) => call(agent, session.fitSession, { body }, { signal }), signal))
      if (turned) return turned
      // It reaches nothing: this service has taken it over and has not reached its agent yet.
      if (!isGiven) restoreHeld(row.id, agent)
    },
    restore: restoreHeld,
    forget: {
      name: 'proxy',
      limitMs: 1_000,
      mayFail: true,
      run({ id }) {
        forwarder.forget(id)
        return undefined
      },
    },
    [Symbol.dispose]: () => stop.abort(new Error('the service stops')),
  }
}

const haveSameProxies = ({ upstream, routes }: Routing, other: Routing): boolean => isDeepStrictEqual([upstream, routes], [other.upstream, other.routes])
