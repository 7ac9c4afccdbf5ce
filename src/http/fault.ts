// Defines which errors callers see, in one place: code, status, message. Every other error becomes `internal_error`.
import * as z from 'zod'
import { RETRY_SECONDS, Unavailable } from '../base/unavailable.ts'

/** Body of every error answer (the SDK's ErrorModel). */
export const ErrorModel = z.object({
  code: z.string(),
  message: z.string(),
  details: z.array(z.object({ code: z.string().optional(), message: z.string().optional() })).optional(),
  inner_error: z.object({ code: z.string().optional(), message: z.string().optional() }).optional(),
  /** Of a conflict: the id of the existing thing. */
  existing_id: z.string().optional(),
})
export type ErrorBody = z.infer<typeof ErrorModel>

/** Every error code, with its status. Routes name codes of this list; the OpenAPI document describes its statuses. */
export const STATUS = {
  bad_request: 400,
  ambiguous_proxy_name: 400,
  resource_in_use: 400,
  cannot_delete_current_key: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  project_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  stale_network: 409,
  flow_in_progress: 409,
  too_many_pending_sessions: 409,
  project_not_empty: 409,
  last_active_project: 409,
  gone: 410,
  payload_too_large: 413,
  range_not_satisfiable: 416,
  client_closed_request: 499,
  too_many_requests: 429,
  internal_error: 500,
  bad_gateway: 502,
  unavailable: 503,
  deadline_exceeded: 504,
} as const
export type FaultCode = keyof typeof STATUS

/** A problem with one field: `field` in dotted form, or '' for the whole input. */
export interface FieldProblem {
  field: string
  problem: string
}

interface FaultOptions {
  details?: ErrorBody['details']
  inner?: ErrorBody['inner_error']
  existingId?: string
  headers?: Record<string, string>
  cause?: unknown
}

/** An error for the caller. Its cause goes to the log only. */
export class Fault extends Error {
  readonly code: FaultCode
  readonly details: ErrorBody['details']
  readonly inner: ErrorBody['inner_error']
  /** The id of the existing thing, for a create that conflicts with it. */
  readonly existingId: string | undefined
  readonly headers: Record<string, string>
  constructor(code: FaultCode, message: string, options: FaultOptions = {}) {
    super(message, { cause: options.cause })
    this.name = 'Fault'
    this.code = code
    this.details = options.details
    this.inner = options.inner
    this.existingId = options.existingId
    this.headers = options.headers ?? {}
  }
  get status(): number {
    return STATUS[this.code]
  }
  body(): ErrorBody {
    return {
      code: this.code,
      message: this.message,
      ...(this.details && { details: this.details }),
      ...(this.inner && { inner_error: this.inner }),
      ...(this.existingId !== undefined && { existing_id: this.existingId }),
    }
  }
}

// Clients retry 408, 409, 429 and every 5xx by themselves (2 retries). This header stops them: a retry does not resolve a conflict, and an action
// that may have happened must not happen twice.
const NO_RETRY = { 'x-should-retry': 'false' }

export const fault = {
  /** One or more fields are wrong; each is named in the message and in an `invalid_input` detail. */
  invalid(problems: readonly FieldProblem[]): Fault {
    const lines = problems.map(({ field, problem }) => (field === '' ? problem : `${field}: ${problem}`))
    return new Fault('bad_request', lines.join('; '), {
      details: lines.map((message) => ({ code: 'invalid_input', message })),
      inner: { code: 'invalid_input', message: lines[0] },
    })
  },
  field: (field: string, problem: string): Fault => fault.invalid([{ field, problem }]),
  unauthorized: (message: string): Fault => new Fault('unauthorized', message, { headers: { 'www-authenticate': 'Bearer' } }),
  /** A caller that deletes its own key could not undo it. */
  currentKey: (): Fault => new Fault('cannot_delete_current_key', 'a key cannot delete itself; use another key'),
  /** The caller is known and may not do this. */
  forbidden: (message: string): Fault => new Fault('forbidden', message),
  notFound: (kind: string, id: string): Fault => new Fault('not_found', `there is no ${kind} "${shorten(id)}"`),
  /** Names of proxies are not unique. */
  ambiguousProxyName: (name: string): Fault => new Fault('ambiguous_proxy_name', `several proxies are named "${shorten(name)}"; use an id`),
  projectNotFound: (named: string): Fault => new Fault('project_not_found', `there is no active project "${shorten(named)}"`),
  /** For fields that accept no name, even if something with that name exists. */
  projectIdNotFound: (id: string): Fault => new Fault('project_not_found', `there is no active project with the id "${shorten(id)}"`),
  noRoute: (method: string, path: string): Fault =>
    new Fault('not_found', `there is no ${method} ${shorten(path)} here; GET /openapi.json lists what there is`),
  /** `what` with its verb, for example `search.create is`. */
  notBuilt: (what: string): Fault => new Fault('not_found', `${what} not built yet in this version of Cob; docs/missing-operations.md lists what is missing`),
  methodNotAllowed: (method: string, allowed: readonly string[]): Fault =>
    new Fault('method_not_allowed', `${method} is not possible here, only ${allowed.join(', ')}`, { headers: { allow: allowed.join(', ') } }),
  conflict: (message: string): Fault => new Fault('conflict', message, { headers: NO_RETRY }),
  /** Such a thing exists already. Clients continue with the existing one. */
  exists: (message: string, existingId: string): Fault => new Fault('conflict', message, { headers: NO_RETRY, existingId }),
  /** One login at a time. */
  flowInProgress: (): Fault => new Fault('flow_in_progress', 'a login of this connection is in progress', { headers: NO_RETRY }),
  tooManyPending: (message: string): Fault => new Fault('too_many_pending_sessions', message, { headers: NO_RETRY }),
  /** Another change has to come before the deletion. */
  inUse: (message: string): Fault => new Fault('resource_in_use', message),
  /** The purpose of a token is over. */
  gone: (message: string): Fault => new Fault('gone', message),
  /** Another change of a session's allowed hosts came first. */
  staleNetwork: (message: string): Fault => new Fault('stale_network', message, { headers: NO_RETRY }),
  /** `has` names the remaining content. */
  projectNotEmpty: (what: 'archived' | 'deleted', has: string): Fault =>
    new Fault('project_not_empty', `the project cannot be ${what}: it has ${has}`, { headers: NO_RETRY }),
  lastActiveProject: (what: 'archived' | 'deleted'): Fault =>
    new Fault('last_active_project', `the last active project cannot be ${what}`, { headers: NO_RETRY }),
  /** A Range header asks only for bytes outside the `sizeBytes` that exist. */
  noSuchRange: (sizeBytes: number): Fault =>
    new Fault('range_not_satisfiable', `there are only ${sizeBytes} bytes`, { headers: { 'content-range': `bytes */${sizeBytes}` } }),
  tooLarge: (limitBytes: number): Fault => new Fault('payload_too_large', `the body is larger than ${limitBytes} bytes`),
  tooMany: (message: string, retryAfterSeconds: number): Fault =>
    new Fault('too_many_requests', message, { headers: { 'retry-after': String(retryAfterSeconds) } }),
  /** A server that we called for the caller did not answer, or its answer cannot be passed on. It may have carried out the request. */
  badGateway: (message: string): Fault => new Fault('bad_gateway', message, { headers: NO_RETRY }),
  /** The problem passes. The request may have been carried out in part. */
  unavailable: (message: string, cause?: unknown): Fault =>
    new Fault('unavailable', message, { headers: { ...NO_RETRY, 'retry-after': String(RETRY_SECONDS) }, cause }),
  /** The same, but the problem does not pass by itself: the message says what has to be done. */
  broken: (message: string, cause?: unknown): Fault => new Fault('unavailable', message, { headers: NO_RETRY, cause }),
  /** The disk has too little space for new work. */
  diskFull: (message: string): Fault =>
    new Fault('unavailable', message, {
      headers: { ...NO_RETRY, 'retry-after': '30' },
      details: [{ code: 'disk_full', message }],
      inner: { code: 'disk_full', message },
    }),
  requestTimeout: (problem: string): Fault => new Fault('request_timeout', problem, { headers: NO_RETRY }),
  deadline: (ms: number): Fault => new Fault('deadline_exceeded', `not done within ${ms} ms`, { headers: NO_RETRY }),
  clientClosed: (): Fault => new Fault('client_closed_request', 'the caller went away'),
  internal: (cause: unknown): Fault =>
    new Fault('internal_error', 'something went wrong on our side; the log has it under this request id', { headers: NO_RETRY, cause }),
}

const shorten = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text)

/** Turns any thrown value into a {@link Fault}. */
export function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (!(error instanceof Unavailable)) return fault.internal(error)
  const headers = { ...(!error.isUndone && NO_RETRY), 'retry-after': String(error.retryAfterSeconds) }
  return new Fault('unavailable', error.message, { headers, cause: error.cause ?? error })
}

/** Most problems that one answer lists. */
const MAX_PROBLEMS = 100

/** Parses a caller's value. Problems have fields in dotted form below `prefix`. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, prefix = ''): { data: T | undefined; problems: FieldProblem[] } {
  try {
    const { data, error } = schema.safeParse(value)
    return { data, problems: error ? problemsOf(error, prefix) : [] }
  } catch (error) {
    // zod compares the `length` of any object that has one, and spreads its lists of problems. An object whose `length` is no number makes it throw a
    // TypeError, and a hundred thousand problems a RangeError.
    if (!(error instanceof Error && /^\s+at .*[/\\]zod[/\\]/m.test(error.stack?.split('\n').slice(1, 3).join('\n') ?? ''))) throw error
    return { data: undefined, problems: [{ field: prefix || 'body', problem: 'does not have the expected form' }] }
  }
}

function problemsOf(error: z.ZodError, prefix: string): FieldProblem[] {
  const found = error.issues.slice(0, MAX_PROBLEMS).flatMap((issue) => {
    const path = [prefix, ...issue.path.map(String)].filter((part) => part !== '').join('.')
    if (issue.code === 'unrecognized_keys')
      return issue.keys
        .slice(0, MAX_PROBLEMS)
        .map((key) => ({ field: path === '' ? shorten(key) : `${path}.${shorten(key)}`, problem: 'there is no such property' }))
    return [{ field: shorten(path), problem: words(issue) }]
  })
  return found.slice(0, MAX_PROBLEMS)
}

function words(issue: z.core.$ZodIssue): string {
  if (issue.code === 'custom') return issue.message
  return issue.message
    .replace(/^Invalid input: /, '')
    .replace(/^Invalid option: /, '')
    .replace(/^Too (small|big): expected /, 'expected ')
}
