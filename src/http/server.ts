// The HTTP server of the control plane and of the agent.
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerOptions, ServerResponse } from 'node:http'
import { BlockList, type Socket } from 'node:net'
import { limitAnonymous, type AnonymousLimits } from '../base/anonymous.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { auditHook, type AuditSettings } from './audit.ts'
import { parseQuery } from './body.ts'
import { clientAddress } from './client-address.ts'
import { fault } from './fault.ts'
import { routeId, sendFault, type MountContext } from './mount.ts'
import { limitPieces } from '../base/pieces.ts'
import { isSecret, loggedPath } from './request-path.ts'
import type { Principal } from './route.ts'

export interface ServerSettings {
  log: Log
  authenticate: MountContext['authenticate']
  /** Origin for URLs in answers; by default the one in the caller's Host header. */
  origin?: string
  /** Paths below these have a secret as their next segment, which is cut from logs. */
  secretsBelow?: readonly string[]
  /** Limits for connections without a credential; none for servers that only we can connect to. */
  anonymous?: AnonymousLimits
  /** Refuses requests that would use space on a full disk. Without it, none is refused. */
  assertRoom?: MountContext['assertRoom']
  /** Ends requests whose credential becomes invalid. Without it, a request that has begun continues. */
  guard?: MountContext['guard']
  /** The limit of requests per key; no limit when absent. */
  rateLimit?: MountContext['rateLimit']
  /** Time without progress after which an answer is given up, in milliseconds; 2 minutes unless a test sets another. */
  stalledMs?: number
  /** For a server that is reached over TLS: its private key and certificate, in PEM. */
  tls?: { key: string; certificate: string }
  /** Limit on a TLS handshake, in milliseconds; 10 seconds unless a test sets another. */
  handshakeMs?: number
  /** The log of authenticated requests. */
  audit?: AuditSettings
  /** Called after every finished request. */
  onDone?: (done: { id: string; method: string; status: number; ms: number }) => void
}

/** Longest time for a caller to send its headers, and its whole request: a large file over a slow line takes long. */
const HEADERS_TIMEOUT_MS = 30_000
const REQUEST_TIMEOUT_MS = 3_600_000
/**
 * Longer than the idle timeout of common load balancers, so that the load balancer closes the connection, and not this server: otherwise it could send a
 * request on a closed connection.
 */
const KEEP_ALIVE_MS = 75_000

/** A handshake takes a few milliseconds and one or two round trips. */
const HANDSHAKE_MS = 10_000
/** The kernel probes a connection after this time of silence. */
const PROBE_AFTER_MS = 30_000
/** An answer is ended when its receiver reads nothing for this time: it would stay in memory until the receiver leaves. */
const STALLED_MS = 120_000

const NO_PROXIES = new BlockList()

const noSchemas = (): never => {
  throw new Error('routes have no schemas for Fastify')
}

/** Makes a server without routes: `mount` and `forward` add them, and need a {@link MountContext}. */
export function makeServer(settings: ServerSettings): MountContext {
  const { log, tls } = settings
  const options: ServerOptions = {
    // A caller that vanishes silently (a closed laptop, a NAT that forgot it) would keep its session in use for ever.
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    // By default the parser answers a request without Host with an empty body; our answer says what is wrong.
    requireHostHeader: false,
    // Offers of HTTP/2 (Java, curl --http2) are ignored, and the request is answered over HTTP/1.1.
    shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === 'websocket',
  } as ServerOptions
  const app: FastifyInstance = fastify({
    logger: false,
    genReqId: (request: IncomingMessage) => requestId(request.headers['x-request-id']),
    forceCloseConnections: true,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    ...(tls
      ? { https: { ...options, key: tls.key, cert: tls.certificate, minVersion: 'TLSv1.3', handshakeTimeout: settings.handshakeMs ?? HANDSHAKE_MS } }
      : { http: options }),
    exposeHeadRoutes: true,
    // mount.ts checks and writes bodies. Fastify's own compilers would be loaded all the same: 12 ms of an agent's start.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    routerOptions: { maxParamLength: 2048, ignoreDuplicateSlashes: true, querystringParser: parseQuery },
    frameworkErrors: (error, request, reply) => {
      void reply.header('x-request-id', request.id)
      sendFault(log, request, reply, error)
    },
    clientErrorHandler: (_error, socket) => {
      const body = JSON.stringify(fault.field('request', 'is not valid HTTP').body())
      if (socket.writable)
        socket.end(
          `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\nx-request-id: ${newId()}\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
        )
      else socket.destroy()
    },
  })
  // By default Node answers a client that does not complete its handshake, and waits for it for ever.
  if (tls) app.server.prependListener('tlsClientError', (_error: Error, socket: Socket) => socket.destroy())
  // Routes read bodies themselves: as JSON within a limit, or as a stream that is forwarded.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
  app.setErrorHandler((error, request, reply) => sendFault(log, request, reply, error))
  const paths: MountContext['paths'] = new Map()
  app.setNotFoundHandler((request, reply) => {
    const allowed = allowedMethods(paths, path(request))
    const refusal =
      context.refuse?.(request.method, path(request)) ??
      (allowed.length > 0 ? fault.methodNotAllowed(request.method, allowed) : fault.noRoute(request.method, path(request)))
    return sendFault(log, request, reply, refusal)
  })
  // Without a listener Node answers an unknown `Expect` header by itself, with an empty body.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    delete request.headers.expect
    app.server.emit('request', request, response)
  })
  app.addHook('onRequest', async (request, reply) => {
    const { socket } = request.raw
    limitPieces(request.raw)
    reply.raw.setTimeout(settings.stalledMs ?? STALLED_MS, () => {
      if (socket.writableLength > 0) socket.destroy()
    })
    void reply.header('x-request-id', request.id)
    if (request.raw.httpVersion === '1.1' && request.headers.host === undefined) throw fault.field('host', 'is required in HTTP/1.1')
    // A router would cut the path at a `#`. A request's target has no fragment (RFC 9112, 3.2).
    if (path(request).includes('#')) throw fault.field('path', 'must not hold "#"; write it as %23')
  })
  // The connection was reset before it was accepted, so the source of its requests is unknown.
  if (settings.audit) app.server.prependListener('connection', (socket: Socket) => socket.remoteAddress === undefined && socket.destroy())
  app.decorateRequest('caller')
  app.decorateRequest('entry')
  if (settings.audit) app.addHook('onSend', auditHook(settings.audit))
  app.addHook('onResponse', async (request, reply) => {
    const done = { id: routeId(request), method: request.method, status: reply.statusCode, ms: reply.elapsedTime }
    settings.onDone?.(done)
    log.debug({ request: request.id, ...done, path: loggedPath(request.raw, settings.secretsBelow ?? []) }, 'answered')
  })
  const context: MountContext = {
    app,
    log,
    authenticate: settings.authenticate,
    // An app's code reaches the API on the loopback of its sandbox, whatever the public address is.
    origin: (request, principal) => (settings.origin !== undefined && !isAppCode(principal) ? settings.origin : originOf(request)),
    known: settings.anonymous ? limitAnonymous(app.server, settings.anonymous).known : () => {},
    address: ({ raw }) => clientAddress(raw, settings.audit?.trustedProxies ?? NO_PROXIES),
    paths,
    assertRoom: settings.assertRoom ?? (() => {}),
    guard: settings.guard,
    audit: settings.audit,
    rateLimit: settings.rateLimit,
  }
  return context
}

const isAppCode = (principal: Principal | undefined): boolean => principal?.by.kind === 'key' && principal.by.deployment !== undefined

/**
 * The methods of every mounted path that a request's target matches; empty when none does. Patterns are compared only when a request has found no route. They
 * are not in the router as well: forty methods for each path took 60 ms of every start.
 */
function allowedMethods(paths: MountContext['paths'], target: string): string[] {
  const plain = decodedPath(target).replaceAll(/\/{2,}/g, '/')
  const methods = new Set([...paths].flatMap(([pattern, known]) => (patternOf(pattern).test(plain) ? [...known] : [])))
  return [...methods, ...(methods.has('GET') ? ['HEAD'] : [])]
}

/** Decodes a path like the router: all characters except those that separate its parts. */
function decodedPath(target: string): string {
  // Also in the absolute form, with an origin before it.
  const own = target.replace(/^https?:\/\/[^/]*/i, '')
  try {
    return decodeURI(own)
  } catch {
    return own // the router has refused it already
  }
}

const patterns = new Map<string, RegExp>()

function patternOf(path: string): RegExp {
  const known = patterns.get(path)
  if (known) return known
  const literal = path.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  // A last parameter may be empty, as for the router.
  const made = new RegExp(`^${literal.replace(/:\w+$/, '[^/]*').replaceAll(/:\w+/g, '[^/]+')}$`)
  patterns.set(path, made)
  return made
}

// A caller's own request id is kept when it is harmless, so that logs of both sides can be joined.
const requestId = (sent: string | string[] | undefined): string =>
  typeof sent === 'string' && /^[\w.-]{1,100}$/.test(sent) && !isSecret(sent) ? sent : newId()

// The host by which the caller addressed us. Without a valid Host (HTTP/1.0) it is the address that the connection came in on.
function originOf(request: FastifyRequest): string {
  const called = `http://${request.host}`
  if (/^[\w.:[\]-]+$/.test(request.host) && URL.canParse(called)) return new URL(called).origin
  const { localAddress = '127.0.0.1', localPort } = request.socket
  return `http://${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`
}

// Never log the query: it may hold a session's token.
const path = (request: FastifyRequest): string => request.url.split('?', 1)[0]!
