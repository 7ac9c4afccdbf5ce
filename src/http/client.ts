// Calls to an endpoint (an agent, a runner, the API of this process), made from its routes: path, query and body by the route's types, and the answer
// parsed by its reply. A program in a sandbox may answer anything, so every answer is bounded.
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type * as z from 'zod'
import { Gathered } from '../base/gathered.ts'
import { hasMoreValues } from './body.ts'
import { assertOffered, fetchFrom, type Endpoint, type Outgoing } from './endpoint.ts'
import { checked } from './fault.ts'
import { pathTo, type Page, type Reply, type Route } from './route.ts'

/** Limit on the body of an answer to {@link call}, in bytes, unless the caller gives another one. */
const MAX_JSON_BYTES = 1024 * 1024

/**
 * An answer of the largest size may have one value per this many bytes. Values take many times their bytes in memory, and time to check. The densest answer of
 * a tool is a list of files, with 24 bytes per value.
 */
const BYTES_PER_VALUE = 16

/**
 * Limits on reading an answer that refuses a call: characters, and time. Our longest errors, which name many fields, have some thousands, and arrive at once.
 */
const MAX_SAID = 64 * 1024
const SAID_MS = 5_000
/** Characters of a refusal's message that are passed on. */
const MAX_REASON = 2_000
/** Characters of an error's message that come from the server. */
const MAX_WHY = 500

type With<R extends Reply['kind']> = Route<z.ZodType, z.ZodType, z.ZodType, Extract<Reply, { kind: R }>>

/** A schema that converts text (`z.coerce`) accepts anything, so callers pass its output type. */
type QueryOf<Q extends z.ZodType> = {
  [K in keyof z.input<Q>]: unknown extends z.input<Q>[K] ? z.output<Q>[K & keyof z.output<Q>] : z.input<Q>[K]
}
type BodyOf<B extends z.ZodType> = z.input<B> extends Readable ? Readable | Buffer : z.input<B>
type Part<Name extends string, T> = [T] extends [undefined]
  ? { [K in Name]?: undefined }
  : Record<never, never> extends T
    ? { [K in Name]?: T }
    : { [K in Name]: T }

/** The input of a call to a route: `params`, `query` and `body`, each required if the route has a required value in it. */
export type Input<R extends Route> = Part<'params', z.input<R['params']>> & Part<'query', QueryOf<R['query']>> & Part<'body', BodyOf<R['body']>>

/** The result of {@link call}: a value, a page of a list, bytes, or nothing. */
export type Answer<R extends Route> = R['reply'] extends { kind: 'json'; schema: infer S extends z.ZodType }
  ? R['reply'] extends { none: string }
    ? z.output<S> | undefined
    : z.output<S>
  : R['reply'] extends { kind: 'page'; item: infer S extends z.ZodType }
    ? Page<z.output<S>>
    : R['reply'] extends { kind: 'bytes' }
      ? Buffer
      : void
/** A route whose answer {@link call} can return. */
export type Callable = With<'json' | 'none' | 'page' | 'bytes'>
/** Sends a request, and resolves with the head of the answer. */
export type Send = (outgoing: Outgoing, signal: AbortSignal) => Promise<IncomingMessage>
type Event<R extends Route> = R['reply'] extends { kind: 'events'; event: infer S extends z.ZodType } ? z.output<S> : never
type Line<R extends Route> = R['reply'] extends { kind: 'lines'; line: infer S extends z.ZodType } ? z.output<S> : never

/**
 * A call that failed: the server cannot be reached, refuses, or answers in a form that its route does not allow. The message names the route, and has at most
 * 500 characters from the server. (A call that was aborted fails with the signal's reason instead.)
 */
export class CallFailed extends Error {
  override name = 'CallFailed'
  /** The route's id. */
  readonly route: string
  /** The status of the answer; undefined when there was none. */
  readonly status: number | undefined
  /** The body of an answer with another status than the route's, at most 65,536 characters; else ''. */
  readonly said: string
  constructor({ id, method, path }: Route, why: string, { status, said = '', cause }: { status?: number; said?: string; cause?: unknown }) {
    super(`${id} (${method} ${path}) ${why.slice(0, MAX_WHY)}`, { cause })
    this.route = id
    this.status = status
    this.said = said
  }

  /** The message of an answer that refuses, in the form of ours; else its text. At most 2,000 characters. */
  get reason(): string {
    const { message } = this.#fault
    return (typeof message === 'string' ? message : this.said).slice(0, MAX_REASON)
  }

  /** The code of an answer that refuses. */
  get code(): string | undefined {
    const { code } = this.#fault
    return typeof code === 'string' && /^\w{1,64}$/.test(code) ? code : undefined
  }

  get #fault(): { code?: unknown; message?: unknown } {
    try {
      return (JSON.parse(this.said) as object | null) ?? {}
    } catch {
      return {}
    }
  }

  /** Nothing listens at the endpoint, so the request was not received. After any other failure the server may have carried the request out. */
  get isUnreceived(): boolean {
    return this.status === undefined && ['ECONNREFUSED', 'ENOENT'].includes((this.cause as NodeJS.ErrnoException | undefined)?.code ?? '')
  }
}

/**
 * Calls a route, and resolves with its whole answer. `maxBytes` is the limit on the answer's body.
 * @throws CallFailed, or the signal's reason
 */
export async function call<R extends Callable>(
  to: Endpoint | Send,
  route: R,
  input: Input<R>,
  { signal, maxBytes = MAX_JSON_BYTES, maxValues = maxBytes / BYTES_PER_VALUE }: { signal: AbortSignal; maxBytes?: number; maxValues?: number },
): Promise<Answer<R>> {
  const response = await ask(to, route, input, signal)
  const reply = route.reply as Callable['reply']
  const isEmpty = reply.kind === 'none' || (reply.kind === 'json' && reply.none !== undefined && response.statusCode === NO_CONTENT)
  const body = await bodyOf(route, response, isEmpty ? 0 : maxBytes, signal)
  if (isEmpty) return undefined as Answer<R>
  if (reply.kind === 'bytes') return body as Answer<R>
  if (hasMoreValues(body, maxValues)) throw unlike(route, `it has more than ${maxValues} values`)
  if (reply.kind === 'json') return parsed(route, reply.schema, body.toString()) as Answer<R>
  const { 'x-has-more': hasMore, 'x-next-offset': next } = response.headers
  const items = parsed(route, (reply as { item: z.ZodType }).item.array(), body.toString())
  return { items, nextOffset: hasMore === 'true' ? Number(next) : undefined } as Answer<R>
}

const NO_CONTENT = 204

/**
 * Calls a route that answers bytes, and resolves when they begin. Their number is not limited: the reader counts them, and ends the response early by
 * destroying it or aborting. @throws CallFailed, or the signal's reason
 */
export const openStream = <R extends With<'bytes'>>(endpoint: Endpoint, route: R, input: Input<R>, signal: AbortSignal): Promise<IncomingMessage> =>
  ask(endpoint, route, input, signal)

interface LinesOptions {
  signal: AbortSignal
  /** Limit on one line. */
  maxLineBytes: number
  /** Limit on the values of the lines that come at once. */
  maxValues: number
  /** Called with the number of received bytes, before they are parsed. It may throw. */
  onBytes?: (bytes: number) => void
}

/**
 * Calls a route that answers lines. Resolves when the answer begins, with the lines in batches as they arrive; the generator ends with the answer. Text after
 * the last line break is dropped. @throws CallFailed, or the signal's reason; so does the generator
 */
export async function openLines<R extends With<'lines'>>(
  endpoint: Endpoint,
  route: R,
  input: Input<R>,
  options: LinesOptions,
): Promise<AsyncGenerator<Line<R>[], void>> {
  return linesOf(route, await ask(endpoint, route, input, options.signal), options)
}

/**
 * Like {@link openLines}, for a route that answers events. Frames without an event are skipped: a batch may be empty, so that its reader may pause after these,
 * too.
 */
export async function openEvents<R extends With<'events'>>(
  endpoint: Endpoint,
  route: R,
  input: Input<R>,
  options: LinesOptions,
): Promise<AsyncGenerator<Event<R>[], void>> {
  const response = await ask(endpoint, route, input, options.signal)
  const event = (line: string) => parsed(route, route.reply.event, line.slice(EVENT.length)) as Event<R>
  return (async function* () {
    for await (const lines of textsOf(route, response, options)) {
      yield lines.filter((line) => line.startsWith(EVENT)).map(event)
    }
  })()
}

/** The beginning of the line with the event in a frame; our frames have one. */
const EVENT = 'data: '

async function* linesOf<R extends With<'lines'>>(route: R, response: IncomingMessage, options: LinesOptions): AsyncGenerator<Line<R>[], void> {
  for await (const lines of textsOf(route, response, options)) yield lines.map((line) => parsed(route, route.reply.line, line) as Line<R>)
}

/** The lines of an answer as they arrive. */
async function* textsOf(route: Route, response: IncomingMessage, { signal, maxLineBytes, maxValues, onBytes }: LinesOptions): AsyncGenerator<string[], void> {
  let text = new Gathered()
  for await (const chunk of pieces(route, response, signal)) {
    onBytes?.(chunk.length)
    text.add(chunk)
    if (chunk.includes(LINE_BREAK)) {
      const { bytes } = text
      const end = bytes.lastIndexOf(LINE_BREAK) + 1
      text = new Gathered()
      text.add(bytes.subarray(end))
      const whole = bytes.subarray(0, end - 1)
      if (hasMoreValues(whole, maxValues)) throw unlike(route, `more than ${maxValues} values came at once`)
      yield whole.toString().split('\n')
    }
    if (text.length > maxLineBytes) throw unlike(route, `a line has more than ${maxLineBytes} bytes`)
  }
}

const LINE_BREAK = 0x0a

/** Sends the request, if the server has the route. Resolves with the head of an answer that has a status of the route. */
async function ask(
  to: Endpoint | Send,
  route: Route,
  input: { params?: unknown; query?: unknown; body?: unknown },
  signal: AbortSignal,
): Promise<IncomingMessage> {
  if (typeof to !== 'function') assertOffered(to, route.id)
  const outgoing = { method: route.method, path: pathTo(route.path, input.params) + queryText(route, input.query), ...bodyFor(route, input.body) }
  const response = await (typeof to === 'function' ? to(outgoing, signal) : fetchFrom(to, outgoing, signal)).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw new CallFailed(route, `failed: ${(cause as Error).message}`, { cause })
  })
  const status = response.statusCode!
  if (statusesOf(route.reply).includes(status)) return response
  const said = await shortText(response)
  signal.throwIfAborted()
  throw new CallFailed(route, `answered ${status}: ${said}`, { status, said })
}

function statusesOf(reply: Reply): number[] {
  if (reply.kind === 'json' && reply.none !== undefined) return [reply.status, NO_CONTENT]
  // A stream can be opened only with the usual status.
  return [reply.status, ...(reply.kind === 'bytes' && reply.schema ? Object.keys(reply.others ?? {}).map(Number) : [])]
}

/** The query of a call, with its question mark; empty without one. */
function queryText(route: Route, query: unknown): string {
  const fields = Object.entries((query ?? {}) as object).filter(([, value]) => value !== undefined)
  const text = ([name, value]: [string, unknown]): string[] => {
    // As the published SDKs write labels: tags[k]=v.
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return Object.entries(value).flatMap(([key, of]: [string, unknown]) => text([`${name}[${key}]`, of]))
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
      throw new TypeError(`${route.id}: "${name}" in the query must be a text, a number, a boolean or an object of such`)
    return [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`]
  }
  const texts = fields.flatMap(text)
  return texts.length === 0 ? '' : `?${texts.join('&')}`
}

function bodyFor({ body: schema, bodyKind }: Route, body: unknown): { body?: Readable | Buffer | string; headers?: Record<string, string> } {
  if (schema.def.type === 'undefined') return {}
  if (bodyKind === 'json') return { body: JSON.stringify(body ?? {}), headers: { 'content-type': 'application/json' } }
  if (bodyKind === 'bytes') return { body: body as Readable | Buffer }
  throw new TypeError('forms are not sent by this client')
}

/** The pieces of an answer's body. @throws CallFailed when it breaks off, or the signal's reason */
async function* pieces(route: Route, response: IncomingMessage, signal: AbortSignal): AsyncGenerator<Buffer, void> {
  try {
    yield* response as AsyncIterable<Buffer>
  } catch (cause) {
    signal.throwIfAborted()
    throw new CallFailed(route, `broke off: ${(cause as Error).message}`, { status: response.statusCode!, cause })
  }
}

async function bodyOf(route: Route, response: IncomingMessage, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  const body = new Gathered()
  for await (const chunk of pieces(route, response, signal)) {
    if (body.length + chunk.length > maxBytes) throw unlike(route, maxBytes === 0 ? 'it has a body' : `it has more than ${maxBytes} bytes`)
    body.add(chunk)
  }
  return body.bytes
}

function parsed(route: Route, schema: z.ZodType, text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw unlike(route, 'it is not JSON')
  }
  const { data, problems } = checked(schema, value)
  if (problems.length > 0) throw unlike(route, problems.map(({ field, problem }) => (field === '' ? problem : `${field}: ${problem}`)).join('; '))
  return data
}

const unlike = (route: Route, how: string): CallFailed =>
  new CallFailed(route, `gave an answer that the route does not have: ${how}`, { status: route.reply.status })

/** The beginning of a body. It only explains an error, so the received part is enough when the body breaks off or takes too long. */
async function shortText(response: IncomingMessage): Promise<string> {
  const text = new Gathered()
  const timer = setTimeout(() => response.destroy(), SAID_MS)
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      text.add(chunk)
      // Up to four bytes are one character.
      if (text.length >= 4 * MAX_SAID) break
    }
  } catch {
  } finally {
    clearTimeout(timer)
  }
  return text.bytes.toString().slice(0, MAX_SAID)
}
