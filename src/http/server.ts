// One HTTP server in the manner of this house, for the control plane and for the agent alike.
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerOptions, ServerResponse } from 'node:http'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { METHODS } from '../base/node-http.ts'
import { parseQuery } from './body.ts'
import { fault } from './fault.ts'
import { routeId, sendFault, type MountContext } from './mount.ts'
import { limitAnonymous, type AnonymousLimits } from './anonymous.ts'

export interface ServerSettings {
  log: Log
  authenticate: MountContext['authenticate']
  /** Origin for URLs in answers; by default what the caller's Host header says. */
  origin?: string
  /** Paths below these bear a secret as their next part; logs do not get it. */
  secretsBelow?: readonly string[]
  /** Bounds for connections without a credential; none for servers that only we reach. */
  anonymous?: AnonymousLimits
  /** Refuses what would take room on a disk that is full; nothing is refused without it. */
  assertRoom?: MountContext['assertRoom']
  /** Told of every finished request. */
  onDone?: (done: { id: string; method: string; status: number; ms: number }) => void
}

/** Longest time a caller may take to send its headers, and its whole request: a large file over a slow line takes its time. */
const HEADERS_TIMEOUT_MS = 30_000
const REQUEST_TIMEOUT_MS = 3_600_000
/** Longer than any load balancer's idle time, so that it is the other side that hangs up. */
const KEEP_ALIVE_MS = 75_000

/** Makes a server with no routes: {@link MountContext} is what `mount` and `forward` need to add some. */
export function makeServer(settings: ServerSettings): MountContext {
  const { log } = settings
  const app: FastifyInstance = fastify({
    logger: false,
    genReqId: (request: IncomingMessage) => requestId(request.headers['x-request-id']),
    forceCloseConnections: true,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    http: {
      headersTimeout: HEADERS_TIMEOUT_MS,
      // A request without Host is answered by the parser with no body otherwise; ours says what is wrong.
      requireHostHeader: false,
      // Offers of HTTP/2 (Java, curl --http2) are not taken up, and the request is answered as it is.
      shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === 'websocket',
    } as ServerOptions,
    exposeHeadRoutes: true,
    routerOptions: { maxParamLength: 2048, ignoreDuplicateSlashes: true, querystringParser: parseQuery },
    frameworkErrors: (error, request, reply) => {
      void reply.header('x-request-id', request.id)
      sendFault(log, request, reply, error)
    },
    clientErrorHandler: (_error, socket) => {
      const body = JSON.stringify(fault.field('request', 'is not HTTP that can be read').body())
      if (socket.writable)
        socket.end(
          `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\nx-request-id: ${newId()}\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
        )
      else socket.destroy()
    },
  })
  // Bodies are read by the routes themselves: as JSON within a limit, or forwarded as they come.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
  app.setErrorHandler((error, request, reply) => sendFault(log, request, reply, error))
  app.setNotFoundHandler((request, reply) => sendFault(log, request, reply, fault.noRoute(request.method, path(request))))
  // Without a listener Node answers an expectation that it does not know by itself, with no body.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    delete request.headers.expect
    app.server.emit('request', request, response)
  })
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('x-request-id', request.id)
    if (request.raw.httpVersion === '1.1' && request.headers.host === undefined) throw fault.field('host', 'a request of HTTP/1.1 must have one')
    // A router would cut the path there; a request's target has no fragment (RFC 9112, 3.2).
    if (path(request).includes('#')) throw fault.field('path', 'must not hold "#"; write it as %23')
  })
  app.addHook('onResponse', async (request, reply) => {
    const done = { id: routeId(request), method: request.method, status: reply.statusCode, ms: reply.elapsedTime }
    settings.onDone?.(done)
    log.debug({ request: request.id, ...done, path: withoutSecret(path(request), settings.secretsBelow ?? []) }, 'answered')
  })
  const context: MountContext = {
    app,
    log,
    authenticate: settings.authenticate,
    // An app's code reaches us on the loopback of its sandbox, whatever the world calls us.
    origin: (request, caller) => (caller?.deploymentId === undefined && settings.origin ? settings.origin : originOf(request)),
    known: settings.anonymous ? limitAnonymous(app.server, settings.anonymous).known : () => {},
    paths: new Map(),
    assertRoom: settings.assertRoom ?? (() => {}),
  }
  return context
}

/** Call once, after the last route: gives every known path a 405 for the methods it has not. */
export function sealPaths({ app, paths, log }: MountContext): void {
  // Those of WebDAV and others that Node reads and Fastify does not know by itself; a tunnel (CONNECT) is no request here.
  for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name) && name !== 'CONNECT')) app.addHttpMethod(method)
  for (const [url, methods] of paths) {
    const allowed = [...methods, ...(methods.has('GET') ? ['HEAD'] : [])]
    const rest = app.supportedMethods.filter((method) => !allowed.includes(method) && METHODS.includes(method))
    app.route({ method: rest, url, handler: (request, reply) => sendFault(log, request, reply, fault.methodNotAllowed(request.method, allowed)) })
  }
}

// The caller's own id is kept when it is harmless, so that logs of both sides can be joined.
const requestId = (sent: string | string[] | undefined): string => (typeof sent === 'string' && /^[\w.-]{1,100}$/.test(sent) ? sent : newId())

// What the caller called us. A Host that is missing (HTTP/1.0) or no host at all gives the address it came in on.
function originOf(request: FastifyRequest): string {
  const called = `http://${request.host}`
  if (/^[\w.:[\]-]+$/.test(request.host) && URL.canParse(called)) return new URL(called).origin
  const { localAddress = '127.0.0.1', localPort } = request.socket
  return `http://${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`
}

// Never with the query: it may carry a session's token.
const path = (request: FastifyRequest): string => request.url.split('?', 1)[0]!

/** `/browser/live/abc/state` to `/browser/live/…`, however its slashes and letters are written. */
function withoutSecret(written: string, secretsBelow: readonly string[]): string {
  if (secretsBelow.length === 0) return written
  let plain = written
  try {
    plain = decodeURIComponent(written)
  } catch {}
  plain = plain.replace(/^https?:\/\/[^/]*/i, '').replaceAll(/\/+/g, '/')
  const found = secretsBelow.find((prefix) => plain.startsWith(`${prefix}/`))
  return found === undefined ? written : `${found}/…`
}
