// One connection of a browser to its proxy. Each request goes to the upstream proxy that the routing names for its host, or directly to the site. Never to both.
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { join } from '../base/join.ts'
import { request, STATUS_CODES } from '../base/node-http.ts'
import { pipe } from '../base/pipe.ts'
import { PROBE_HOST, PROXY_ERROR_HEADER } from '../base/proxy-probe.ts'
import { listed } from '../http/endpoint.ts'
import { limitPieces } from '../base/pieces.ts'
import { authority, basicAuth, connectTo, dial, dialDirect, type DialOptions, type Target } from './upstream.ts'
import { UpstreamError } from './upstream-error.ts'
import { routeTo, type Route, type Routing } from './routing.ts'

/** Limit on the head of a request and of a site's answer. Chromium accepts answers of up to 256 KiB. */
export const MAX_HEAD_BYTES = 256 * 1024

/** Most pieces that are kept of what a browser sends before its tunnel is open. */
const MAX_EARLY_PIECES = 16

/** Answers a CONNECT request: a tunnel to a target, or 502; 403 when the session may not reach it. */
export async function forwardTunnel({ url = '' }: IncomingMessage, client: Duplex, head: Buffer, routing: Routing, options: DialOptions): Promise<void> {
  const target = targetOf(url)
  // No browser sends a target without a valid address.
  if (!target) return void client.destroy()
  // Reading shows when the browser leaves. It may send its first bytes before the answer.
  const gone = new AbortController()
  const leave = () => gone.abort(new Error('the browser has left'))
  const early = [head]
  const onData = (chunk: Buffer) => {
    if (early.push(chunk) > MAX_EARLY_PIECES) client.pause()
  }
  client.on('data', onData).once('end', leave).once('close', leave)
  try {
    const tunnel = await open(routeTo(target.host, routing), target, { ...options, signal: AbortSignal.any([options.signal, gone.signal]) })
    client.off('data', onData)
    if (gone.signal.aborted) return void tunnel.destroy()
    client.write('HTTP/1.1 200 OK\r\n\r\n')
    for (const chunk of early) if (chunk.length > 0) tunnel.write(chunk)
    join(client, tunnel)
  } catch (error) {
    if (gone.signal.aborted || options.signal.aborted) return void client.destroy()
    const { status, headers, text } = failure(error)
    client.end(
      [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`), '', text].join('\r\n'),
    )
  }
}

/** Answers a request in absolute form, as browsers send it for `http` URLs. */
export async function forwardRequest(incoming: IncomingMessage, reply: ServerResponse, routing: Routing, options: DialOptions): Promise<void> {
  const url = URL.parse(incoming.url ?? '')
  // A page looks for open ports by requests in origin form. The port must look closed to it.
  if (url?.protocol !== 'http:') return void incoming.socket.destroy()
  try {
    await exchange(incoming, reply, url, routing, options)
  } catch (error) {
    if (reply.headersSent || options.signal.aborted) return void incoming.socket.destroy()
    const { status, headers, text } = failure(error)
    reply.writeHead(status, headers).end(text)
  }
}

async function exchange(incoming: IncomingMessage, reply: ServerResponse, url: URL, routing: Routing, options: DialOptions): Promise<void> {
  const target = targetOfUrl(url)
  const route = routeTo(target.host, routing)
  // A proxy that forwards requests, and not only opens tunnels.
  const proxy = typeof route === 'object' && route.protocol !== 'socks5' && target.host !== PROBE_HOST ? route : undefined
  const gone = new AbortController()
  reply.once('close', () => gone.abort(new Error('the browser has left')))
  const signal = AbortSignal.any([options.signal, gone.signal])
  const socket = await (proxy ? connectTo(proxy, { ...options, signal }) : open(route, target, { ...options, signal }))
  const authorization = proxy && basicAuth(proxy)
  const headers = [
    'Host',
    url.host,
    ...endToEnd(incoming),
    ...(authorization === undefined ? [] : ['Proxy-Authorization', authorization]),
    'Connection',
    'close',
  ]
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const outgoing = request({
    method: incoming.method ?? 'GET',
    path: proxy ? url.href.slice(0, url.href.length - url.hash.length) : url.pathname + url.search,
    // As a list, so that names keep their case and their order.
    headers: headers as unknown as OutgoingHttpHeaders,
    createConnection: () => socket,
    maxHeaderSize: MAX_HEAD_BYTES,
  })
  reply.once('close', () => outgoing.destroy())
  outgoing.on('response', resolve)
  // An answer that switches protocols was not requested: the header Upgrade is not passed on.
  outgoing.on('upgrade', (_answer, upgraded) => {
    upgraded.destroy()
    reject(new UpstreamError('refused', 'the answer switches protocols'))
  })
  outgoing.on('error', (error: NodeJS.ErrnoException) =>
    reject(new UpstreamError('refused', 'the connection ended without an answer', { cause: new Error(error.code) })),
  )
  limitPieces(incoming)
  pipe(incoming, outgoing)
  const answer = await promise
  // With this answer the browser would ask its user for a password.
  if (answer.statusCode === 407) throw new UpstreamError('credentials', 'the proxy does not accept the user name and the password')
  reply.writeHead(answer.statusCode!, answer.statusMessage, endToEnd(answer) as unknown as OutgoingHttpHeaders)
  answer.on('error', () => reply.destroy())
  answer.on('close', () => answer.complete || reply.destroy())
  limitPieces(answer)
  pipe(answer, reply)
}

/** A connection to a target. @throws UpstreamError */
async function open(route: Route, target: Target, options: DialOptions): Promise<Duplex> {
  if (target.host === PROBE_HOST) throw new UpstreamError('refused', 'this address is closed to sessions')
  if (route === 'denied') throw new UpstreamError('network_policy_denied', 'this session may not reach this host: it is not one of its allowed_hosts')
  if (route !== 'direct') return dial(route, target, options)
  return dialDirect(target, options).catch((cause: unknown) => {
    throw new UpstreamError('unreachable', 'the host cannot be reached', { cause })
  })
}

/** The host of a browser's request; undefined when no browser would make such a request. */
export function hostOf({ method, url = '' }: IncomingMessage): string | undefined {
  if (method === 'CONNECT') return targetOf(url)?.host
  const absolute = URL.parse(url)
  return absolute ? targetOfUrl(absolute).host : undefined
}

const targetOfUrl = (url: URL): Target => ({ host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 80) })

const HOP_BY_HOP = [
  'connection',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  // A site cannot pass itself off as the proxy.
  PROXY_ERROR_HEADER.toLowerCase(),
]

/** The headers that frame a message's body. The header Connection must not remove these: the body would be read as a request of its own. */
const FRAMING = ['content-length', 'transfer-encoding']

/** The headers of a message that are not about its connection, as a list of names and values. */
function endToEnd({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = listed(String(headers.connection ?? ''))
  const kept: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase()
    if (!HOP_BY_HOP.includes(name) && (FRAMING.includes(name) || !named.includes(name))) kept.push(rawHeaders[at]!, rawHeaders[at + 1]!)
  }
  return kept
}

function targetOf(text: string): Target | undefined {
  const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([^\s:[\]/@]+)):(\d{1,5})$/i.exec(text) ?? []
  const target = { host: (bracketed ?? plain)!, port: Number(port) }
  return port !== undefined && target.port > 0 && target.port < 65_536 && authority(target).toLowerCase() === text.toLowerCase() ? target : undefined
}

function failure(error: unknown): { status: number; headers: OutgoingHttpHeaders; text: string } {
  const { kind, message } = error instanceof UpstreamError ? error : new UpstreamError('refused', 'the proxy does not work')
  const text = `${message}\n`
  return {
    status: kind === 'network_policy_denied' ? 403 : 502,
    headers: { [PROXY_ERROR_HEADER]: kind, 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': Buffer.byteLength(text), Connection: 'close' },
    text,
  }
}
