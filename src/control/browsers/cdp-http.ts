// DevTools' HTTP interface of a session, for clients that are given an http:// address and look up the WebSocket's address themselves.
import { session, type DevTools } from '../../agent/session/contract.ts'
import { call } from '../../http/client.ts'
import { fault } from '../../http/fault.ts'
import { known, sessionOf, type Handlers, type Principal } from '../../http/route.ts'
import type { Browsers } from './browsers.ts'
import { cdpHttp } from './contract.ts'

/** Chromium answers in milliseconds, and after a restart within seconds. */
const ASK_MS = 20_000

/** Playwright asks with a slash at the end. Both forms are the same route. */
export const cdpHttpSlashed = Object.fromEntries(Object.entries(cdpHttp).map(([name, route]) => [name, { ...route, path: `${route.path}/` }])) as typeof cdpHttp

export function cdpHttpHandlers(browsers: Browsers): Handlers<typeof cdpHttp> {
  interface Asked {
    params: { id: string }
    principal?: Principal | undefined
    origin: string
    signal: AbortSignal
  }

  /** The browser's own version data, with the session's CDP address. */
  async function ask({ principal, params, origin, signal }: Asked): Promise<DevTools & { address: string }> {
    const by = known(principal)
    const id = sessionOf(by, params.id)
    const { endpoint, release } = await browsers.reach(by.project, id)
    try {
      const { cdp_ws_url: address } = await browsers.get(by, id, false, origin)
      const answer = await call(endpoint, session.devTools, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]) })
      return { ...answer, address }
    } catch (error) {
      throw signal.aborted ? error : fault.unavailable('the browser did not list its pages', error)
    } finally {
      release()
    }
  }

  async function list(asked: Asked) {
    const { targets, address } = await ask(asked)
    return targets.map((target) => {
      const url = new URL(address)
      url.pathname += `/devtools/page/${target.id}`
      return { ...target, description: '', webSocketDebuggerUrl: url.toString() }
    })
  }

  return {
    async cdpVersion(asked) {
      const { version, address } = await ask(asked)
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
  }
}
