// DevTools' HTTP interface of a session, for clients that are given an http:// address and look up the WebSocket's address themselves.
import { MAX_CDP_PROTOCOL_BYTES, PUBLIC_SOCKETS, session, type DevTools } from '../../../agent/session/contract.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { known, sessionOf, type Handlers, type Principal } from '../../../http/route.ts'
import type { Browsers } from './browsers.ts'
import { cdpHttp, SESSION_PATH } from './contract.ts'

/** Chromium answers in milliseconds, and after a restart within seconds. */
const ASK_MS = 20_000

const moved = (move: (path: string) => string): typeof cdpHttp =>
  Object.fromEntries(Object.entries(cdpHttp).map(([name, route]) => [name, { ...route, path: move(route.path) }])) as typeof cdpHttp

const toBaseUrl = (path: string): string => path.replace(PUBLIC_SOCKETS.cdp, `${SESSION_PATH}/{id}`)

/**
 * The same calls at every address where clients look for them: below the CDP address and below `base_url`, each with and without a slash at the end (Playwright
 * adds one, Chromium accepts both).
 */
export const cdpHttpEverywhere = [cdpHttp, moved((path) => `${path}/`), moved(toBaseUrl), moved((path) => `${toBaseUrl(path)}/`)]

export function cdpHttpHandlers(browsers: Browsers): Handlers<typeof cdpHttp> {
  interface Asked {
    params: { id: string }
    principal?: Principal | undefined
    origin: string
    signal: AbortSignal
  }

  /** Asks the session's agent. `what` is the error text when the agent does not answer. */
  async function ask<A>({ principal, params, signal }: Asked, what: string, question: (endpoint: Endpoint, signal: AbortSignal) => Promise<A>): Promise<A> {
    const by = known(principal)
    const { endpoint, release } = await browsers.reach(by.project, sessionOf(by, params.id))
    try {
      return await question(endpoint, AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]))
    } catch (error) {
      throw signal.aborted ? error : fault.unavailable(what, error)
    } finally {
      release()
    }
  }

  /** The browser's own version data, with the session's CDP address. */
  async function devTools(asked: Asked): Promise<DevTools & { address: string }> {
    const by = known(asked.principal)
    const answer = await ask(asked, 'the browser did not list its pages', (endpoint, signal) => call(endpoint, session.devTools, {}, { signal }))
    const { cdp_ws_url: address } = await browsers.get(by, sessionOf(by, asked.params.id), false, asked.origin)
    return { ...answer, address }
  }

  async function list(asked: Asked) {
    const { targets, address } = await devTools(asked)
    return targets.map((target) => {
      const url = new URL(address)
      url.pathname += `/devtools/page/${target.id}`
      return { ...target, description: '', webSocketDebuggerUrl: url.toString() }
    })
  }

  return {
    async cdpVersion(asked) {
      const { version, address } = await devTools(asked)
      return {
        Browser: version.product,
        'Protocol-Version': version.protocolVersion,
        'User-Agent': version.userAgent,
        'V8-Version': version.jsVersion,
        'WebKit-Version': `${/AppleWebKit\/([\d.]+)/.exec(version.userAgent)?.[1] ?? ''} (${version.revision})`,
        webSocketDebuggerUrl: address,
      }
    },
    cdpList: list,
    cdpPages: list,
    cdpProtocol: (asked) =>
      ask(asked, 'the browser did not describe its protocol', (endpoint, signal) =>
        call(endpoint, session.cdpDescription, {}, { signal, maxBytes: MAX_CDP_PROTOCOL_BYTES }),
      ),
  }
}
