// HTTP client for endpoints (agents, runners): requests whose bodies stream both ways, and WebSocket upgrades.
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Agent as HttpsAgent } from 'node:https'
import type { Duplex, Readable } from 'node:stream'
import { CREDENTIAL_HEADER } from '../base/access.ts'
import { Agent, request as httpRequest } from '../base/node-http.ts'
import { pipe } from '../base/pipe.ts'
import { within } from '../base/wait.ts'
import { fault } from './fault.ts'
import { limitPieces } from '../base/pieces.ts'

/**
 * The address of a server: a Unix socket, or TCP. An agent or a runner that is reached by TCP has a certificate of its own, in PEM; no other certificate is
 * accepted. It accepts only requests with its credential. Without a certificate, TCP is for a server next to this process: an agent's browser.
 */
export type Endpoint = ({ socketPath: string } | { host: string; port: number; certificate?: string; credential?: string }) & {
  /** For a server of another version than ours: its version, and the names of required features that it lacks. */
  older?: { version: string; lacks: readonly string[] }
}

/** Refuses features that a server of another version lacks. @throws fault.conflict, which names the feature */
export function assertOffered({ older }: Endpoint, capability: string): void {
  if (!older?.lacks.includes(capability)) return
  throw fault.conflict(`this session was started by version ${older.version} of Cob, whose agent does not have ${capability}; use a new session for it`)
}

/** Timeout for connecting to a server on this machine or one hop away, and for the start of its answer to an upgrade. */
const UPGRADE_MS = 10_000

const keepAlive = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: 256, timeout: 60_000 })

export interface Outgoing {
  method: string
  path: string
  headers?: OutgoingHttpHeaders
  body?: Readable | Buffer | string
}

const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade']

/** The names in a header that contains a list of names, in lower case. */
export const listed = (header: string): string[] =>
  header
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())

/** Headers to pass on: without hop-by-hop headers, and without the named ones. */
export function crossing(headers: IncomingHttpHeaders, ...without: string[]): OutgoingHttpHeaders {
  const named = listed(String(headers.connection ?? ''))
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && !named.includes(name) && !without.includes(name)))
}

/** A request to an endpoint, not yet sent; `keep` says whether its connection may serve further requests. */
function open(endpoint: Endpoint, { method, path, headers }: Outgoing, keep: boolean): ClientRequest {
  const common = { method, path, headers: { host: 'cob', ...headers }, maxHeaderSize: MAX_HEAD_BYTES }
  if ('socketPath' in endpoint) return httpRequest({ ...common, socketPath: endpoint.socketPath, agent: keep && keepAlive })
  const { host, port, certificate, credential } = endpoint
  if (certificate === undefined) return httpRequest({ ...common, host, port, agent: keep && keepAlive })
  const { https, agent } = (tls ??= loadTls())
  return https.request({
    ...common,
    host,
    port,
    headers: { ...common.headers, ...(credential !== undefined && { [CREDENTIAL_HEADER]: credential }) },
    ...(keep ? { agent } : { agent: false, checkServerIdentity: anyName }),
    // The only authority is the pinned certificate, so only the owner of its key can answer.
    ca: certificate,
    servername: '',
    minVersion: 'TLSv1.3',
    // Also when NODE_TLS_REJECT_UNAUTHORIZED=0 is set, as some users do for other servers.
    rejectUnauthorized: true,
  })
}

/** Loaded when the first such endpoint is used: with agents on the same machine, the service needs no TLS here. */
let tls: { https: typeof import('node:https'); agent: HttpsAgent } | undefined
function loadTls(): { https: typeof import('node:https'); agent: HttpsAgent } {
  const https = process.getBuiltinModule('node:https')
  // Not an option of each request: Node keeps no connection that has a check of its own.
  return { https, agent: new https.Agent({ checkServerIdentity: anyName, keepAlive: true, maxSockets: Infinity, maxFreeSockets: 256, timeout: 60_000 }) }
}

/** The certificate of an agent names no host: its key identifies it. */
const anyName = () => undefined

/**
 * An answer that breaks HTTP or the protocol that we expect. Programs in a sandbox may answer anything; a bad answer must only fail its own
 * request.
 */
export class BadAnswer extends Error {
  override name = 'BadAnswer'
}

/** Limit on the bytes of an answer's head. Node closes a connection that sends more. */
const MAX_HEAD_BYTES = 16 * 1024

/**
 * Sends a request and resolves with the answer's head; the body is the message itself. Aborting ends both directions.
 * @throws BadAnswer for interim answers (1xx), a switch of protocols, a status outside HTTP's range, or an answer that the parser refuses
 */
export function fetchFrom(endpoint: Endpoint, outgoing: Outgoing, signal: AbortSignal): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  signal.throwIfAborted()
  const request = open(endpoint, outgoing, true)
  let answer: IncomingMessage | undefined
  // The request is not destroyed once the answer has begun. If an answer is complete and unread, Node would first return the connection to the pool, and then
  // destroy it with an unhandled error, which ends the process.
  let stopSending = () => {}
  const end = (error?: Error) => {
    // Before the call returns: afterwards the body belongs to its sender again.
    stopSending()
    ;(answer ?? request).destroy(error)
  }
  const onAbort = () => end(signal.reason instanceof Error ? signal.reason : undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  request.on('close', () => signal.removeEventListener('abort', onAbort))
  request.on('response', (response) => {
    answer = response
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode <= 999) {
      limitPieces(response)
      return resolve(response)
    }
    response.destroy()
    reject(new BadAnswer(`status ${statusCode}`))
  })
  refuseInterim(request)
  // After the answer has begun, an error on the request comes from the upload: a server may answer before it has read the whole body.
  request.on('error', (error) => reject(badIfUnreadable(error)))
  stopSending = send(request, outgoing.body, end)
  return promise
}

/** The parser's errors contain the unparsed bytes. They may contain secrets, so they must not be logged. */
const badIfUnreadable = (error: NodeJS.ErrnoException): Error => (String(error.code).startsWith('HPE_') ? new BadAnswer(error.code) : error)

/** We never ask for interim answers (1xx). A server could send them for ever, and no limit on the answer would apply. */
function refuseInterim(request: ClientRequest, upgrades = false): void {
  request.on('information', ({ statusCode }) => request.destroy(new BadAnswer(`status ${statusCode}`)))
  if (upgrades) return
  request.on('upgrade', (_response, socket) => {
    socket.on('error', () => {}).destroy()
    request.destroy(new BadAnswer('status 101'))
  })
}

/** Sends a body, or none. Returns a function that stops it. */
function send(request: ClientRequest, body: Outgoing['body'], end: (error: Error) => void): () => void {
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    request.end(body)
    return () => {}
  }
  // By default Node frames the body of a GET, HEAD or DELETE in neither way: its bytes would be read as further requests on a kept connection.
  if (!request.hasHeader('content-length')) request.setHeader('transfer-encoding', 'chunked')
  body.on('error', end)
  return pipe(body, request)
}

/** An upgraded connection: the server's answer, the socket, and the first bytes after the handshake. */
export interface Upgraded {
  headers: IncomingHttpHeaders
  socket: Duplex
  head: Buffer
}

/** Requests a WebSocket with the client's own handshake headers, so that the server's answer matches the client's key. */
export function upgradeTo(endpoint: Endpoint, path: string, headers: OutgoingHttpHeaders, signal: AbortSignal): Promise<Upgraded> {
  const { promise, resolve, reject } = Promise.withResolvers<Upgraded>()
  const request = open(endpoint, { method: 'GET', path, headers: { ...headers, connection: 'Upgrade', upgrade: 'websocket' } }, false)
  request.on('upgrade', (response, socket, head) => {
    // The socket may fail before its new owner has added a listener. Without this listener, that error would end the process.
    socket.on('error', () => socket.destroy())
    if (response.statusCode === 101) return resolve({ headers: response.headers, socket, head })
    socket.destroy()
    reject(new UpgradeRefused(response.statusCode ?? 0))
  })
  request.on('response', (response) => {
    // The body of an ordinary answer is not used, so it is not read to its end: it may be endless.
    response.destroy()
    reject(new UpgradeRefused(response.statusCode ?? 0))
  })
  refuseInterim(request, true)
  request.on('error', (error) => reject(badIfUnreadable(error)))
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
