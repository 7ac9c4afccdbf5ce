// The agent's WebSockets: CDP is forwarded to Chromium's port, BiDi is handled by the mapper.
import type { OutgoingHttpHeaders } from 'node:http'
import { WebSocketServer } from 'ws'
import type { Log } from '../../base/log.ts'
import { upgradeTo, type Upgraded } from '../../http/endpoint.ts'
import { fault } from '../../http/fault.ts'
import { splice } from '../../http/splice.ts'
import { completeHandshake, handshakeHeaders, type UpgradeCall, type UpgradeHandler } from '../../http/upgrade.ts'
import { CLOSED, CRASHED } from '../chromium/crashed.ts'
import type { Browser } from '../chromium/keeper.ts'
import { reachBrowser } from '../chromium/reach.ts'
import type { BrowserProxy } from '../egress/proxy.ts'
import { SOCKETS } from './contract.ts'

/** Connects to the browser; when it is just ending, to the one that starts after it. */
async function toBrowser(keeper: Browser, headers: OutgoingHttpHeaders, signal: AbortSignal, path?: string): Promise<Upgraded> {
  try {
    return await reachBrowser(
      keeper,
      ({ port, browserPath }) => upgradeTo({ host: '127.0.0.1', port }, path ?? browserPath, { host: `127.0.0.1:${port}`, ...headers }, signal),
      signal,
    )
  } catch (error) {
    throw fault.unavailable('the browser did not take the connection', error)
  }
}

export type SocketHandlers = Record<(typeof SOCKETS)[keyof typeof SOCKETS], UpgradeHandler>

/** The paths of the agent's WebSockets and their handlers. */
export function sockets(keeper: Browser, links: Pick<BrowserProxy, 'link'>, log: Log): SocketHandlers {
  const bidi = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024 * 1024 })
  const spliced = async ({ request, socket, head, signal }: UpgradeCall, path?: string): Promise<void> => {
    const upstream = await toBrowser(keeper, handshakeHeaders(request), signal, path)
    completeHandshake(socket, upstream)
    if (head.length > 0) upstream.socket.write(head)
    await splice(socket, upstream.socket, upstream.head, () => (keeper.isFinished ? CLOSED : CRASHED))
  }
  return {
    [SOCKETS.cdp]: (call) => spliced(call),
    // A connection to one page, as DevTools' list of pages offers it.
    [SOCKETS.cdpPage]: (call) => spliced(call, `/devtools/page/${encodeURIComponent(call.params.target!)}`),
    [SOCKETS.links]: async ({ params, socket, head }) => {
      if (head.length > 0) throw fault.field('links', 'must say nothing before they are used')
      links.link(params.key!, socket, () => completeHandshake(socket, { headers: {} }))
    },
    [SOCKETS.bidi]: async ({ request, socket, head }) => {
      const run = await keeper.run()
      // Load it on demand: most sessions never use BiDi.
      const { connectBidi } = await import('../chromium/bidi.ts')
      bidi.handleUpgrade(request, socket, head, (client) => connectBidi(client, run, () => keeper.isFinished, log))
    },
  }
}
