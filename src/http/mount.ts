// From the wire to a handler and back: authentication, parsing, deadline, signal, and the only catch.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import type * as z from 'zod'
import type { Log } from '../base/log.ts'
import { Unavailable } from '../base/unavailable.ts'
import { beginEntry, type AuditSettings } from './audit.ts'
import { checkText, parseJson, readBody, STRANGER_BODY_MS } from './body.ts'
import { Fault, asFault, checked, fault, type FieldProblem } from './fault.ts'
import { readForm } from './form.ts'
import { lineStream } from './ndjson.ts'
import { withoutNulls } from './not-given.ts'
import { countRequest, type RateLimit } from './rate-limit.ts'
import { includes, roleOf, type ByAccount, type Bytes, type Call, type Contract, type Handlers, type Principal, type Route } from './route.ts'
import { eventStream, SSE_TYPE } from './sse.ts'

/**
 * The caller and the project: by a key, by a session's own token where `access` is `session`, or by a login's where it is `login`. Undefined for servers that
 * only the service calls. Calls `seen` as soon as a key is known, before its project is looked up. `origin`: the origin by which the caller reached the
 * service. @throws 401, 403, 404, and errors of `seen`
 */
export type Authenticate = (
  request: FastifyRequest,
  access: 'key' | 'session' | 'login',
  signal: AbortSignal,
  seen: (account: ByAccount) => void,
  origin: () => string,
) => Promise<Principal | undefined>

/** The services of a server that a mounted route needs. */
export interface MountContext {
  app: FastifyInstance
  log: Log
  /** Called before every route that is not public. @throws fault.unauthorized */
  authenticate: Authenticate
  /** Origin for URLs in answers. */
  origin: (request: FastifyRequest, principal: Principal | undefined) => string
  /** The address of the client, also through trusted proxies. */
  address: (request: FastifyRequest) => string
  /** Called when the caller on a connection has sent a key or a token (base/anonymous.ts). */
  known: (socket: object) => void
  /** Methods by path pattern. Any other method answers 405. */
  paths: Map<string, Set<string>>
  /** A message for a path without a route, if there is a special one. */
  refuse?: (method: string, path: string) => Fault | undefined
  /** Refuses requests that would use space on a full disk. @throws fault.diskFull */
  assertRoom: () => void
  /** Called for every request with a credential: calls `end` if the credential becomes invalid before the request is over (the result is disposed). */
  guard?: Guard | undefined
  /** The log of authenticated requests. */
  audit?: AuditSettings | undefined
  /** The limit of requests per key; no limit when absent. */
  rateLimit?: RateLimit | undefined
  /** Time for the body of a caller without a credential: STRANGER_BODY_MS, unless a test sets another. */
  strangerBodyMs?: number
}

export type Guard = (principal: Principal, end: (reason: Fault) => void) => Disposable | undefined

/** Time for the last bytes of an ended request: an error, or a stream's last event. Then its connection is closed. */
const GOODBYE_MS = 500

/** Pages of any origin may read the answer, and send the input of these routes. Credentials are those that their script adds, never cookies. */
const ANY_ORIGIN = { 'access-control-allow-origin': '*' }
const PREFLIGHT = {
  ...ANY_ORIGIN,
  'access-control-allow-headers': 'Authorization, Content-Type, Accept',
  'access-control-allow-methods': 'GET, POST, OPTIONS',
  'access-control-max-age': '600',
}
const PREFLIGHTS = new WeakMap<MountContext, Set<string>>()

/** Answers the preflight requests of browsers for pages of another origin. */
function allowAnyOrigin(context: MountContext, url: string): void {
  const known = PREFLIGHTS.get(context) ?? new Set()
  PREFLIGHTS.set(context, known)
  if (known.has(url)) return
  known.add(url)
  context.app.options(url, { config: { id: 'preflight' } }, (_request, reply) => reply.code(204).headers(PREFLIGHT).send())
}

/** Registers one route with its own way to answer; {@link mount} and forwarding both build on this. */
export function register(
  context: MountContext,
  route: Route,
  answer: (request: FastifyRequest, reply: FastifyReply, signal: AbortSignal, principal: Principal | undefined) => Promise<unknown>,
): void {
  const url = route.path.replaceAll(/\{(\w+)\}/g, ':$1')
  const methods = context.paths.get(url) ?? new Set()
  context.paths.set(url, methods.add(route.method))
  if (route.anyOrigin) allowAnyOrigin(context, url)
  context.app.route({
    method: route.method,
    url,
    config: { id: route.id, route: route.path },
    handler: async (request, reply) => {
      if (route.anyOrigin) void reply.headers(ANY_ORIGIN)
      const controller = new AbortController()
      const onClose = () => {
        if (!reply.raw.writableFinished) controller.abort(fault.clientClosed())
      }
      reply.raw.on('close', onClose)
      if (reply.raw.destroyed) onClose()
      const timer = Number.isFinite(route.deadlineMs) ? setTimeout(() => controller.abort(fault.deadline(route.deadlineMs)), route.deadlineMs) : undefined
      const seen = (account: ByAccount) => {
        context.known(request.raw.socket)
        countRequest(context.rateLimit, account, reply)
      }
      try {
        const principal =
          route.access === 'public'
            ? undefined
            : await context.authenticate(request, route.access, controller.signal, seen, () => context.origin(request, undefined))
        if (route.access !== 'public') context.known(request.raw.socket)
        if (principal) {
          assertRight(route, principal)
          guarded(context, principal, reply, controller)
        }
        controller.signal.throwIfAborted()
        if (context.audit && !route.reads) beginEntry(context.audit, request, reply, route.path)
        if (route.needsRoom) context.assertRoom()
        checkText({ ...(request.params as object), ...(request.query as object) })
        return await answer(request, reply, controller.signal, principal)
      } catch (error) {
        // An aborted handler throws an error of its own; the caller gets the reason for the abort instead.
        throw controller.signal.aborted ? controller.signal.reason : error
      } finally {
        clearTimeout(timer)
      }
    },
  })
}

/** The one place where a person's role is compared with what a route needs. @throws 403 */
function assertRight({ right }: Route, principal: Principal): void {
  const role = roleOf(principal)
  if (!includes(role, right)) throw fault.forbidden(`your role in this project is ${role}, and this needs ${right === 'own' ? 'an owner' : 'a member'}`)
}

/** Lets the server's guard end the request until its answer is complete. */
function guarded({ guard }: MountContext, principal: Principal, { raw }: FastifyReply, controller: AbortController): void {
  if (!guard || raw.closed) return
  let timer: NodeJS.Timeout | undefined
  const watched = guard(principal, (reason) => {
    controller.abort(reason)
    // The connection ends an answer that is forwarded, or whose handler does not check its signal.
    timer ??= setTimeout(() => raw.destroy(), GOODBYE_MS)
  })
  raw.once('close', () => {
    clearTimeout(timer)
    watched?.[Symbol.dispose]()
  })
}

/** Registers a contract: every route parses its input, calls its handler and sends what it returns. */
export function mount<C extends Contract>(context: MountContext, contract: C, handlers: Handlers<C>): void {
  for (const [name, route] of Object.entries(contract)) {
    const handler = handlers[name] as (call: Call<unknown, unknown, unknown>) => unknown
    register(context, route, async (request, reply, signal, principal) => {
      const parsed = await parse(route, request, signal, route.access === 'public' ? (context.strangerBodyMs ?? STRANGER_BODY_MS) : undefined)
      // HEAD requests the head of an answer. The head of a stream is known, and its body would never end.
      if (request.method === 'HEAD' && route.reply.kind === 'events') return reply.type(SSE_TYPE).send('')
      const log = context.log.child({ request: request.id })
      const call: Call<unknown, unknown, unknown> = {
        ...(parsed as { params: unknown; query: unknown; body: unknown }),
        headers: request.headers,
        signal,
        log,
        principal,
        origin: context.origin(request, principal),
        address: context.address(request),
        identified: (caller) => {
          request.caller = caller
          context.known(request.raw.socket)
        },
      }
      return send(route, reply, await handler(call), { signal, log })
    })
  }
}

/** Parses params, query and body together, so that one error names every wrong field. */
async function parse(
  route: Route,
  request: FastifyRequest,
  signal: AbortSignal,
  bodyMs: number | undefined,
): Promise<{ params: unknown; query: unknown; body: unknown }> {
  const problems: FieldProblem[] = []
  const check = (schema: z.ZodType, value: unknown) => {
    const { data, problems: found } = checked(schema, value)
    problems.push(...found)
    return data
  }
  const params = check(route.params, request.params)
  const query = check(route.query, route.access === 'session' ? withoutToken(request.query) : request.query)
  const body =
    takesBody(route) && route.bodyKind === 'json'
      ? check(
          route.body,
          withoutNulls(
            route.body,
            parseJson(await readBody(request.raw, route.maxBodyBytes, signal, bodyMs), request.headers['content-type'], route.bodyOptional),
          ),
        )
      : undefined
  if (problems.length > 0) throw fault.invalid(problems)
  if (route.bodyKind === 'bytes') return { params, query, body: request.raw }
  if (route.bodyKind === 'form') return { params, query, body: readForm(request.raw, signal) }
  return { params, query, body }
}

/** The query that the route knows. The session's token (`jwt`) is removed: it has been checked already. */
const withoutToken = (query: unknown): unknown => Object.fromEntries(Object.entries(query as object).filter(([name]) => name !== 'jwt'))

const takesBody = (route: Route): boolean => route.body.def.type !== 'undefined'

function send(route: Route, reply: FastifyReply, value: unknown, { signal, log }: { signal: AbortSignal; log: Log }): FastifyReply {
  reply.code(route.reply.status)
  switch (route.reply.kind) {
    case 'none':
      // An empty 200 needs a content-length, or clients wait for JSON.
      if (route.reply.status !== 204) reply.header('content-length', '0')
      if (route.reply.hasHeaders) void reply.headers(value as Record<string, string>)
      return reply.send()
    case 'json':
      return value === undefined && route.reply.none !== undefined ? reply.code(204).send() : sendJson(reply, value)
    case 'page': {
      const { items, nextOffset } = value as { items: unknown[]; nextOffset: number | undefined }
      return sendJson(reply.header('x-has-more', String(nextOffset !== undefined)).header('x-next-offset', String(nextOffset ?? 0)), items)
    }
    case 'tokenPage': {
      const { items, nextToken } = value as { items: unknown[]; nextToken: string | undefined }
      if (nextToken !== undefined) reply.header('x-next-page-token', nextToken)
      return sendJson(reply.header('x-has-more', String(nextToken !== undefined)), items)
    }
    case 'text':
      return reply.type(route.reply.type).send(value)
    case 'events':
      return sendEvents(reply, value as AsyncIterable<object>, signal, log)
    case 'lines':
      return sendBytes(route.reply, reply, lineStream(value as AsyncIterable<unknown>))
    case 'bytes':
      return sendBytes(route.reply, reply, value as Uint8Array | Readable | Bytes)
  }
}

/** Answers with events, until they end or `signal` aborts. */
export function sendEvents(reply: FastifyReply, events: AsyncIterable<object>, signal: AbortSignal, log: Log): FastifyReply {
  // Pages say "no-store".
  if (!reply.hasHeader('cache-control')) void reply.header('cache-control', 'no-cache')
  return reply
    .type(SSE_TYPE)
    .header('x-accel-buffering', 'no')
    .send(eventStream(events, signal, log))
}

function sendBytes({ type }: { type: string }, reply: FastifyReply, value: Uint8Array | Readable | Bytes): FastifyReply {
  const { body, status, headers }: Bytes = value instanceof Readable || value instanceof Uint8Array ? { body: value, headers: {} } : value
  if (status !== undefined) setStatus(reply, status)
  // HEAD requests the head alone, so the body is not read.
  if (reply.request.method === 'HEAD' && body instanceof Readable) {
    body.on('error', () => {}).destroy()
    return reply.type(type).headers(headers).send(Readable.from([]))
  }
  return reply
    .type(type)
    .headers(headers)
    .send(body instanceof Readable ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength))
}

/** Fastify refuses statuses above 599, but some sites send them. */
export const setStatus = (reply: FastifyReply, status: number): void => void (reply.raw.statusCode = status)

// Sent as bytes: Fastify would hold a long text twice until it is sent.
const sendJson = (reply: FastifyReply, value: unknown): FastifyReply => reply.type('application/json; charset=utf-8').send(Buffer.from(JSON.stringify(value)))

/** Methods that are safe to repeat (idempotent, RFC 9110). */
const REPEATABLE = new Set(['GET', 'HEAD', 'PUT', 'DELETE'])

/** Sends an error in the one shape, and logs the details that the caller does not get. */
export function sendFault(log: Log, request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  const known = asFault(translate(error))
  if (known.status >= 500) log.error({ request: request.id, route: routeId(request), err: known.cause ?? known }, known.message)
  // The rest of a refused body must not be parsed as the next request.
  const isCut = !request.raw.complete && (known.code === 'request_timeout' || known.code === 'deadline_exceeded')
  if (known.code === 'payload_too_large' || isCut) reply.header('connection', 'close')
  void reply.code(known.status).headers(known.headers)
  // These methods can be retried whatever happened before the database went away: clients may repeat them.
  if (error instanceof Unavailable && REPEATABLE.has(request.method)) reply.removeHeader('x-should-retry')
  void reply.type('application/json; charset=utf-8').send(JSON.stringify(known.body()))
}

export const routeId = (request: FastifyRequest): string => request.routeOptions.config?.id ?? 'unknown'

// Fastify's own refusals, in the service's error shape.
function translate(error: unknown): unknown {
  // The code of a DOMException, such as a timeout, is a number.
  const { code, statusCode, message } = error as { code?: unknown; statusCode?: number; message?: string }
  if (error instanceof Fault || typeof code !== 'string' || !code.startsWith('FST_')) return error
  if (code === 'FST_ERR_BAD_URL') return fault.field('path', 'is not a valid URL path')
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' || code === 'FST_ERR_CTP_INVALID_CONTENT_LENGTH')
    return fault.field(code.endsWith('TYPE') ? 'content-type' : 'content-length', 'is not valid')
  return statusCode !== undefined && statusCode < 500 ? fault.field('request', message ?? 'is not valid') : error
}
