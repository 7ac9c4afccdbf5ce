// The agent's WebSockets: CDP is forwarded to Chromium's port, BiDi is handled by the mapper.
import type { OutgoingHttpHeaders } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import type { Log } from '../../base/log.ts'
import { resultWithin } from '../../base/wait.ts'
import { upgradeTo, type Upgraded } from '../../http/endpoint.ts'
import { fault } from '../../http/fault.ts'
import { FrameBoundary, splice } from '../../http/splice.ts'
import { completeHandshake, handshakeHeaders, type UpgradeCall, type UpgradeHandler } from '../../http/upgrade.ts'
import { EXIT_MS, whyEnded } from '../chromium/crashed.ts'
import type { SessionBrowser } from '../chromium/keeper.ts'
import type { Running } from '../chromium/process.ts'
import { reachBrowser } from '../chromium/reach.ts'
import type { BrowserProxy } from '../egress/proxy.ts'
import { cdpClient, type Ending } from '../telemetry/clients/cdp-client.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { SOCKETS } from './contract.ts'

/** Connects to the browser; when it is just ending, to the one that starts after it. */
async function toBrowser(
  keeper: SessionBrowser,
  headers: OutgoingHttpHeaders,
  signal: AbortSignal,
  path?: string,
): Promise<{ upstream: Upgraded; run: Running }> {
  try {
    return await reachBrowser(
      { run: () => keeper.runForClient() },
      async (run) => {
        const { port, browserPath } = run
        const upstream = await upgradeTo({ host: '127.0.0.1', port }, path ?? browserPath, { host: `127.0.0.1:${port}`, ...headers }, signal)
        return { upstream, run }
      },
      signal,
    )
  } catch (error) {
    throw fault.unavailable('the browser did not take the connection', error)
  }
}

/** Whether the other side has ended a socket; otherwise it was destroyed here. */
function endsByItself(socket: Duplex): () => boolean {
  let has = false
  const onEnd = () => (has = true)
  socket.on('end', onEnd).on('error', onEnd)
  return () => has
}

/** The reason why the browser has ended a connection. */
async function whyUpstream(keeper: SessionBrowser, run: Running): Promise<Ending> {
  if (keeper.isFinished) return 'context_cancelled'
  if (!keeper.isCurrent(run)) return 'upstream_changed'
  const exit = await resultWithin(EXIT_MS, run.exited)
  return exit === undefined ? 'upstream_error' : 'upstream_changed'
}

export type SocketHandlers = Record<(typeof SOCKETS)[keyof typeof SOCKETS], UpgradeHandler>

/** The paths of the agent's WebSockets and their handlers. */
export function sockets(keeper: SessionBrowser, links: Pick<BrowserProxy, 'link'>, telemetry: Telemetry, log: Log): SocketHandlers {
  const bidi = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024 * 1024 })
  const spliced = async ({ request, socket, head, signal }: UpgradeCall, path?: string): Promise<void> => {
    const { upstream, run } = await toBrowser(keeper, handshakeHeaders(request), signal, path)
    completeHandshake(socket, upstream)
    const hasLeft = endsByItself(socket)
    const boundary = new FrameBoundary()
    const client = cdpClient(telemetry, boundary)
    if (head.length > 0) {
      client.sent(head)
      upstream.socket.write(head)
    }
    let first: Awaited<ReturnType<typeof splice>> | undefined
    try {
      first = await splice(socket, upstream.socket, upstream.head, () => whyEnded(run.exited, () => keeper.isFinished), undefined, client, boundary)
    } finally {
      await client.end(async () => {
        if (client.hasClosed) return 'client_close'
        return first === 'upstream' ? whyUpstream(keeper, run) : hasLeft() ? 'client_close' : 'context_cancelled'
      })
    }
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
      const run = await keeper.runForClient()
      // Load it on demand: most sessions never use BiDi.
      const { connectBidi } = await import('../chromium/bidi.ts')
      bidi.handleUpgrade(request, socket, head, (client) => connectBidi(client, run, () => keeper.isFinished, log))
    },
  }
}
