// Talking to a server whose address is an endpoint: requests whose bodies stream both ways, and WebSocket upgrades.
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, RequestOptions } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { Agent, request as httpRequest } from '../base/node-http.ts'
import { within } from '../base/wait.ts'

/** Where a server is reached: a Unix socket, or TCP with a token. */
export type Endpoint = { socketPath: string } | { host: string; port: number; token?: string }

/** Time for a server on this machine, or one hop away, to accept a connection and begin its answer to an upgrade. */
const UPGRADE_MS = 10_000

/** Answers to our own small requests; what runs in a sandbox may answer anything. */
const MAX_JSON_BYTES = 1024 * 1024

const keepAlive = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: 256, timeout: 60_000 })

interface Outgoing {
  method: string
  path: string
  headers?: OutgoingHttpHeaders
  body?: Readable | Buffer | string
}

const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade']

/** Headers that may cross to the other side: without those of one hop, and without those named. */
export function crossing(headers: IncomingHttpHeaders, ...without: string[]): OutgoingHttpHeaders {
  const named = String(headers.connection ?? '')
    .toLowerCase()
    .split(/\s*,\s*/)
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && !named.includes(name) && !without.includes(name)))
}

const options = (endpoint: Endpoint, { method, path, headers }: Outgoing): RequestOptions => ({
  ...('socketPath' in endpoint ? { socketPath: endpoint.socketPath } : { host: endpoint.host, port: endpoint.port }),
  method,
  path,
  headers: { host: 'cob', ...headers, ...('token' in endpoint && endpoint.token && { authorization: `Bearer ${endpoint.token}` }) },
})

/** Sends a request and resolves with the answer's head; its body is the message itself. Aborting ends both directions. */
export function fetchFrom(endpoint: Endpoint, outgoing: Outgoing, signal: AbortSignal): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  signal.throwIfAborted()
  const request = httpRequest({ ...options(endpoint, outgoing), agent: keepAlive })
  const onAbort = () => request.destroy(signal.reason instanceof Error ? signal.reason : undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  request.on('close', () => signal.removeEventListener('abort', onAbort))
  request.on('response', resolve)
  // After the answer has begun an error here is one of the upload (the server may answer before it has read everything).
  request.on('error', reject)
  send(request, outgoing.body)
  return promise
}

function send(request: ClientRequest, body: Outgoing['body']): void {
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    request.end(body)
    return
  }
  body.on('error', (error) => request.destroy(error))
  body.pipe(request)
}

/** A small JSON request of our own; resolves with the parsed answer. @throws when the status is not 2xx. */
export async function callJson<T>(endpoint: Endpoint, method: string, path: string, body: unknown, signal: AbortSignal): Promise<T> {
  const response = await fetchFrom(
    endpoint,
    { method, path, ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }) },
    signal,
  )
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MAX_JSON_BYTES) throw new Error(`${method} ${path} answered more than ${MAX_JSON_BYTES} bytes`)
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  if (response.statusCode! >= 300) throw new Error(`${method} ${path} answered ${response.statusCode}: ${text.slice(0, 500)}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** An upgraded connection: what the server said to it, its socket, and the first bytes behind the handshake. */
export interface Upgraded {
  headers: IncomingHttpHeaders
  socket: Duplex
  head: Buffer
}

/** Asks for a WebSocket with the client's own handshake headers, so that the server's answer fits the client's key. */
export function upgradeTo(endpoint: Endpoint, path: string, headers: OutgoingHttpHeaders, signal: AbortSignal): Promise<Upgraded> {
  const { promise, resolve, reject } = Promise.withResolvers<Upgraded>()
  const request = httpRequest({
    ...options(endpoint, { method: 'GET', path, headers: { ...headers, connection: 'Upgrade', upgrade: 'websocket' } }),
    agent: false,
  })
  request.on('upgrade', (response, socket, head) => resolve({ headers: response.headers, socket, head }))
  request.on('response', (response) => {
    response.resume()
    reject(new UpgradeRefused(response.statusCode ?? 0))
  })
  request.on('error', reject)
  request.end()
  return within('a WebSocket handshake', UPGRADE_MS, promise, signal).catch((error: unknown) => {
    request.destroy()
    throw error
  })
}

/** The server answered an upgrade with an ordinary response. */
export class UpgradeRefused extends Error {
  readonly status: number
  constructor(status: number) {
    super(`the upgrade was answered with ${status}`)
    this.status = status
  }
}
