// The proxies of sessions: tells the forwarder through which server the traffic of a session goes, and again when this service has taken the session over.
import { fitting, session, SOCKETS, type ProxyFit } from '../../agent/session/contract.ts'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { Mutexes } from '../../base/mutex.ts'
import type { Forwarder } from '../../egress/forwarder.ts'
import type { Upstream } from '../../egress/upstream.ts'
import { sleep } from '../../base/wait.ts'
import { call } from '../../http/client.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { fault } from '../../http/fault.ts'
import { pathTo } from '../../http/route.ts'
import type { DirectWays } from '../../instances/driver.ts'
import type { EndStep } from './end-step.ts'
import type { BrowserRow } from './rows.ts'

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
  /** The server that a session's options name; undefined when they name none. @throws when it cannot be used */
  upstreamOf: (row: BrowserRow) => Promise<Upstream | undefined>
  /** A live session. */
  find: (id: string) => Promise<BrowserRow | undefined>
  /** Hosts with ports at which clients reach the API. */
  apiHosts: () => readonly string[]
  log: Log
}

export interface SessionProxies {
  /** Runs `fit` with what the agent has to be told for the proxy of the session's row; its links are there by then. One call at a time for each session. @throws 503; what `fit` throws */
  fitted(row: BrowserRow, agent: Endpoint, wanted: ProxyFit, fit: (proxy: ProxyFit) => Promise<void>, signal: AbortSignal): Promise<void>
  /** Gives a session the proxy of its row again: this service has just taken it over, or a change of the proxy has failed. Does not wait; what fails is logged. */
  restore(id: string, agent: Endpoint): void
  /** The step of an end. */
  forget: EndStep
}

export function makeSessionProxies({ forwarder, directWays, upstreamOf, find, apiHosts, log }: SessionProxiesSettings): SessionProxies {
  const turns = new Mutexes()

  /** Sends the session's traffic through the server of its row. */
  async function prepare(row: BrowserRow, agent: Endpoint, wanted: ProxyFit, signal: AbortSignal): Promise<ProxyFit> {
    const upstream = wanted.on ? await upstreamOf(row) : undefined
    if (!upstream) {
      // Until the browser has turned away from its proxy, its requests fail. They do not go directly.
      forwarder.forget(row.id)
      return { on: false }
    }
    const links = newId()
    try {
      await forwarder.use({ id: row.id, agent, path: pathTo(SOCKETS.links, { key: links }), upstream }, signal)
    } catch (error) {
      throw signal.aborted ? error : fault.unavailable('the browser could not be connected with its proxy', error)
    }
    return { on: true, links, direct: apiHosts().slice(0, MAX_API_HOSTS), ...(upstream.ca !== undefined && { authorities: upstream.ca }) }
  }

  /** Turns the browser, and closes or opens what leads around its proxy. */
  async function turn(id: string, proxy: ProxyFit, fit: (proxy: ProxyFit) => Promise<void>): Promise<void> {
    const [endDirect] = await Promise.all([proxy.on ? directWays?.close(id) : directWays?.open(id), fit(proxy)])
    await endDirect?.()
  }

  async function tryToRestore(id: string, agent: Endpoint): Promise<void> {
    const signal = AbortSignal.timeout(RESTORE_MS)
    const work = async () => {
      const row = await find(id)
      if (!row) return
      const proxy = await prepare(row, agent, { on: true }, signal)
      await turn(id, proxy, (body) => call(agent, session.fitSession, { body: { proxy: body } }, { signal }))
    }
    await turns.run(id, work, signal)
  }

  async function restore(id: string, agent: Endpoint): Promise<void> {
    if (agent.older?.lacks.includes(fitting('proxy'))) return
    for (let left = RESTORE_TRIES; ;) {
      try {
        return await tryToRestore(id, agent)
      } catch (err) {
        // It may have ended meanwhile.
        if (!(await find(id))) return
        // Until it works, the session's requests fail. They do not go directly.
        log.error({ err, browser: id, left: --left }, 'the proxy of a session could not be set again')
        if (left === 0) return
        await sleep(RESTORE_AGAIN_MS)
      }
    }
  }

  return {
    async fitted(row, agent, wanted, fit, signal) {
      const work = async () => turn(row.id, await prepare(row, agent, wanted, signal), fit)
      await turns.run(row.id, work, signal)
    },
    restore: (id, agent) => void restore(id, agent).catch((err: unknown) => log.warn({ err, browser: id }, 'the proxy of a session was not looked up')),
    forget: {
      name: 'proxy',
      limitMs: 1_000,
      mayFail: true,
      run({ id }) {
        forwarder.forget(id)
        return undefined
      },
    },
  }
}
