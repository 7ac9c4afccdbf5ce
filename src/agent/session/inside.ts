// Serves a session's own URLs inside it: programs and extensions in a session connect to the `cdp_ws_url` of its caller. Inside, the host's addresses belong to
// the instance (instances/local/network.ts). So the agent listens on them at the API's port, and serves only the WebSockets of its session.
import type { IncomingMessage, Server } from 'node:http'
import type { Log } from '../../base/log.ts'
import { createServer } from '../../base/node-http.ts'
import { Fault } from '../../http/fault.ts'
import { pathTo } from '../../http/route.ts'
import { mountUpgrades, type UpgradeHandler } from '../../http/upgrade.ts'
import { PUBLIC_SOCKETS, SOCKETS } from './contract.ts'
import type { SocketHandlers } from './sockets.ts'

/** Most connections at the same time, so that programs of the session cannot use up the agent's descriptors. */
const MAX_CONNECTIONS = 256

const ELSEWHERE = 'inside a session nothing of the API can be reached but the WebSockets of its own cdp_ws_url and webdriver_ws_url'

/**
 * Listens on `ports` on every address of the instance. The token in the URL is not checked: only programs inside can connect, and they control the
 * browser anyway. Pages are refused; headers that browsers send tell them from programs.
 */
export function listenInside(
  id: string,
  ports: readonly number[],
  handlers: Pick<SocketHandlers, typeof SOCKETS.cdp | typeof SOCKETS.bidi>,
  log: Log,
): Server[] {
  return ports.map((port) => {
    const server = createServer((request, response) => {
      // To a page the port looks closed.
      if (isPage(request)) return void request.socket.destroy()
      const refused = new Fault('not_found', ELSEWHERE)
      response.writeHead(refused.status, { 'content-type': 'application/json; charset=utf-8', connection: 'close' }).end(JSON.stringify(refused.body()))
    })
    server.maxConnections = MAX_CONNECTIONS
    mountUpgrades(server, log, {
      [pathTo(PUBLIC_SOCKETS.cdp, { id })]: forPrograms(handlers[SOCKETS.cdp]),
      [pathTo(PUBLIC_SOCKETS.bidi, { id })]: forPrograms(handlers[SOCKETS.bidi]),
    })
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

/** Programs send no Origin; extensions send their own, which no page can fake. */
const isOwn = (origin: string | undefined): boolean => origin === undefined || origin.startsWith('chrome-extension://')

const isPage = ({ headers }: IncomingMessage): boolean =>
  !isOwn(headers.origin) || headers['sec-fetch-site'] !== undefined || (headers['user-agent'] ?? '').startsWith('Mozilla/')
