// A request to a server of this process, by its own routes: over a pipe in memory, so it is parsed, authenticated, limited, logged and ended exactly like a
// request over the network.
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders, type Server } from 'node:http'
import { duplexPair, type Duplex } from 'node:stream'

export interface InProcessRequest {
  method: string
  /** The path, with the query. */
  path: string
  headers: OutgoingHttpHeaders
  body?: string | undefined
  /** The address for limits and the audit log: that of the caller for whom the request is made. */
  remoteAddress: string
}

/** Methods of a socket that the server uses and a pipe lacks. The server's own timers end stalled requests. */
const socketParts = (remoteAddress: string) => ({
  remoteAddress,
  setTimeout(this: Duplex) {
    return this
  },
})

/** Sends a request and resolves with the head of its answer. Aborting ends both, also for the server. */
export async function requestInProcess(
  server: Server,
  { method, path, headers, body, remoteAddress }: InProcessRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const [near, far] = duplexPair()
  // Neither end of a pipe notices when the other end is destroyed.
  near.on('error', () => {}).on('close', () => far.destroy())
  far.on('error', () => {}).on('close', () => near.destroy())
  server.emit('connection', Object.assign(far, socketParts(remoteAddress)))
  // As bytes: Node would send a text together with the head, and both as UTF-8.
  const bytes = body === undefined ? undefined : Buffer.from(body)
  const request = httpRequest({
    method,
    path,
    // Node sends no length with a DELETE by default.
    headers: { ...headers, connection: 'close', ...(bytes && { 'content-length': bytes.length }) },
    // Without an agent, which would keep the pipe for another request.
    createConnection: () => Object.assign(near, socketParts('')),
  })
  const onAbort = () => request.destroy(signal.reason instanceof Error ? signal.reason : undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  request.on('close', () => signal.removeEventListener('abort', onAbort))
  request.on('response', resolve)
  request.on('error', reject)
  request.end(bytes)
  return promise
}
