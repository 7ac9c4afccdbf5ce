// The proxies of sessions: tells the forwarder through which server the traffic of a session goes, and tells it again after this service has taken the session
// over.
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

/** The limit of an agent. */
const MAX_API_HOSTS = 16

/** Dialling the links and switching the browser to them takes milliseconds; a browser that has just started needs seconds. */
const RESTORE_MS = 30_000
/** Number of attempts, and the time between them. */
const RESTORE_TRIES = 10
const RESTORE_AGAIN_MS = 5_000

interface SessionProxiesSettings {
  forwarder: Forwarder
  /** The driver's direct ways; undefined when it has none. */
  directWays: DirectWays | undefined
  /** The routing of a session's traffic; undefined when its browser connects directly. @throws when it cannot be used */
  routingOf: (row: BrowserRow) => Promise<Routing | undefined>
  /** The time zone at a session's proxy, if known. Absent: time zones are not looked up. */
  timeZoneOf?: ((row: BrowserRow, signal: AbortSignal) => Promise<string | undefined>) | undefined
  uses: Pick<Uses, 'hold'>
  /** Other replicas may have links into the agents of sessions. */
  leases: Pick<Leases, 'catchUp'>
  /** Records that this replica has the links of a session, so that another replica knows when this one is dead. */
  holdLinks: (id: string) => Promise<void>
  /** A live session, or a browser that waits in its pool. */
  find: (id: string) => Promise<BrowserRow | undefined>
  /** Hosts with ports at which clients reach the API. */
  apiHosts: () => readonly string[]
  /** Replaces `RESTORE_AGAIN_MS`. */
  againMs?: number
  log: Log
}

/** The proxy settings for an agent. */
export type SessionProxyFit = Required<Pick<Fit, 'proxy'>> & Pick<Fit, 'time_zone'>

/** Disposing ends the attempts of {@link SessionProxies.restore}. */
export interface SessionProxies extends Disposable {
  /**
   * Runs `fit` with the agent's settings for the proxy of the session's row, after its links are there. One call at a time for each session. @throws 503;
   * errors of `fit`
   */
  fitted(row: BrowserRow, agent: Endpoint, fit: (wanted: SessionProxyFit) => Promise<void>, signal: AbortSignal): Promise<void>
  /**
   * Applies the list of allowed hosts that the session's row has now. Only the forwarder is needed: neither the browser nor a client of it can delay this or
   * make it fail. If there are other replicas, the agent is told to use the links of this one. @throws 503
   */
  allow(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<void>
  /**
   * Sets the proxy of a session again from its row: this service has just taken it over, a dead replica had its links, or a change of the proxy has failed.
   * Does not wait; errors are logged.
   */
  restore(id: string, agent: Endpoint): void
  /** The step of a session's end that removes its routing. */
  forget: EndStep
}

export function makeSessionProxies({ againMs = RESTORE_AGAIN_MS, ...settings }: SessionProxiesSettings): SessionProxies {
  const { forwarder, directWays, routingOf, uses, leases, holdLinks, find, apiHosts, log } = settings
  const turns = new Mutexes()
  /** Reading a list and sending it to the forwarder happen under one lock: an older list must not arrive after a newer one. */
  const lists = new Mutexes()
  const stop = new AbortController()

  /** The row with the present list of allowed hosts of its session. While a pool takes the browser back, the list is the pool's. */
  async function withListOfNow(row: BrowserRow): Promise<BrowserRow> {
    const now = await find(row.id)
    return now?.state === 'running' && now.lease === row.lease ? { ...row, options: { ...row.options, network: now.options.network } } : row
  }

  /** Tells the forwarder the routing of a row. Returns the routing, and the key of its links, which are open when `linked` resolves. */
  async function send(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<{ routing: Routing; key: string; linked: Promise<void> } | undefined> {
    const routing = await routingOf(await withListOfNow(row))
    if (!routing) {
      // Until the browser stops using its proxy, its requests fail. They do not go directly.
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

  /** Routes the session's traffic as its row says. */
  async function prepare(row: BrowserRow, agent: Endpoint, signal: AbortSignal): Promise<SessionProxyFit> {
    const zone = await zoneFor(settings, row, agent, signal)
    // Record this before the links are open: if this replica is killed in between, another one dials them again.
    await leases.catchUp(() => holdLinks(row.id))
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

  /** Switches the browser to its proxy or away from it, and closes or opens the direct routes around the proxy. */
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
        // The session may have ended meanwhile. While the database is away, this cannot be known, and nothing can work.
        const found = await find(id).catch(() => 'unknown' as const)
        if (!found) return
        if (found !== 'unknown') left--
        // Until this works, the session's requests fail. They do not go directly.
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
      // Another replica may have the links, with an older list.
      const turned = leases.catchUp(() => fitted(row, agent, (body) => call(agent, session.fitSession, { body }, { signal }), signal))
      if (turned) return turned
      // The session has no network now: this service has taken it over and has not reached its agent yet.
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

type Zones = Pick<SessionProxiesSettings, 'routingOf' | 'timeZoneOf'>

/** With stealth, the time zone follows the proxy. An agent of an older version cannot change it, and keeps its own. */
async function zoneFor({ routingOf, timeZoneOf }: Zones, row: BrowserRow, { older }: Endpoint, signal: AbortSignal): Promise<Pick<Fit, 'time_zone'>> {
  if (!timeZoneOf || !row.options.stealth || older?.lacks.includes(fitting('time_zone'))) return {}
  const hasProxy = (await routingOf(row))?.upstream !== undefined
  return { time_zone: (hasProxy ? await timeZoneOf(row, signal) : undefined) ?? '' }
}
