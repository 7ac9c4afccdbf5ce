// A session's own addresses, reached from inside it: programs and extensions in a session connect to the `cdp_ws_url` that its
// caller has. The host's addresses are the instance's own in there (instances/local/network.ts), so the agent answers on them, at
// the API's port: to the WebSockets of its session, and to nothing else of the API.
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Log } from '../../base/log.ts'
import { Fault } from '../../http/fault.ts'
import { mountUpgrades, type UpgradeHandler } from '../../http/upgrade.ts'

/** Connections at once, so that programs of the session cannot use up the agent's descriptors this way. */
const MAX_CONNECTIONS = 256

const ELSEWHERE = 'inside a session nothing of the API can be reached but the WebSockets of its own cdp_ws_url and webdriver_ws_url'

/**
 * Listens on `ports`, on every address of the instance. The token in the URL is not looked at: only the inside gets here, and it has
 * the browser anyway. Pages are not the inside: they are told from programs by what browsers say of themselves.
 */
export function listenInside(id: string, ports: readonly number[], handlers: { cdp: UpgradeHandler; bidi: UpgradeHandler }, log: Log): Server[] {
  return ports.map((port) => {
    const server = createServer((request, response) => {
      // To a page it looks like a port where nobody is.
      if (isPage(request)) return void request.socket.destroy()
      const refused = new Fault('not_found', ELSEWHERE)
      response.writeHead(refused.status, { 'content-type': 'application/json; charset=utf-8', connection: 'close' }).end(JSON.stringify(refused.body()))
    })
    server.maxConnections = MAX_CONNECTIONS
    mountUpgrades(server, log, { [`/browsers/${id}/cdp`]: forPrograms(handlers.cdp), [`/browsers/${id}/bidi`]: forPrograms(handlers.bidi) })
    server.on('error', (err) => log.warn({ err, port }, 'the session cannot reach its own addresses from inside'))
    return server.listen(port)
  })
}

const forPrograms =
  (handler: UpgradeHandler): UpgradeHandler =>
  async (call) => {
    const { origin } = call.request.headers
    if (!isOwn(origin)) throw new Fault('not_found', 'there is nothing here for pages')
    await handler(call)
  }

/** Programs send no Origin; extensions of the session send theirs, which no page can. */
const isOwn = (origin: string | undefined): boolean => origin === undefined || origin.startsWith('chrome-extension://')

const isPage = ({ headers }: IncomingMessage): boolean =>
  !isOwn(headers.origin) || headers['sec-fetch-site'] !== undefined || (headers['user-agent'] ?? '').startsWith('Mozilla/')
