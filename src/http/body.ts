// Reads a caller's input: bodies within their limit, JSON that the store can hold, queries with maps in brackets.
import { addAbortListener } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Gathered } from '../base/gathered.ts'
import { fault, type Fault, type FieldProblem } from './fault.ts'

/**
 * When a body is refused, up to this many bytes of its rest are read and dropped, so that the sender reads the answer. After that the connection
 * is closed.
 */
const DRAIN_BYTES = 32 * 1024 * 1024
const DRAIN_MS = 5_000

/** Time for the body of a caller without a credential. It is short, and a connection that waits for such a body is not closed to make room for others. */
export const STRANGER_BODY_MS = 10_000

/**
 * Reads the whole body. @throws 413 at once when `content-length` exceeds `limitBytes`, or at the body's end when more bytes have arrived; the signal's reason; 408 after
 * `limitMs`
 */
export async function readBody(request: IncomingMessage, limitBytes: number, signal: AbortSignal | undefined, limitMs?: number): Promise<Buffer> {
  if (announced(request) > limitBytes) throw await tooLarge(request, limitBytes)
  // The body would never end: its sender has left.
  if (request.destroyed && !request.readableEnded) throw fault.clientClosed()
  const body = new Gathered()
  let length = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (chunk: Buffer) => {
    length += chunk.length
    if (length > limitBytes) resolve()
    else body.add(chunk)
  }
  request
    .on('data', onData)
    .on('end', resolve)
    .on('error', () => reject(fault.clientClosed()))
    .on('close', () => reject(fault.clientClosed()))
  const onAbort = () => reject(signal!.reason as Error)
  using _aborted = signal && addAbortListener(signal, onAbort)
  const timer = limitMs === undefined ? undefined : setTimeout(() => reject(fault.requestTimeout(`the body was not complete within ${limitMs} ms`)), limitMs)
  try {
    await promise
  } finally {
    clearTimeout(timer)
    request.off('data', onData)
  }
  if (length > limitBytes) throw await tooLarge(request, limitBytes)
  return body.bytes
}

/** The length that a request announces for its body; 0 when it announces none. */
export const announced = (request: IncomingMessage): number => Number(request.headers['content-length'] ?? 0)

/**
 * The fault for a body over the limit. It is returned once the sender has sent everything, or has had time enough: a sender whose connection is
 * closed earlier never reads the error.
 */
export async function tooLarge(request: IncomingMessage, limitBytes: number): Promise<Fault> {
  let dropped = 0
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, DRAIN_MS)
  request.on('data', (chunk: Buffer) => {
    dropped += chunk.length
    if (dropped > DRAIN_BYTES) resolve()
  })
  request
    .on('end', resolve)
    .on('close', resolve)
    .on('error', () => resolve())
  if (request.readableEnded || request.destroyed) resolve()
  request.resume()
  await promise
  clearTimeout(timer)
  return fault.tooLarge(limitBytes)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a JSON body. With `optional`, an empty body and `null` count as `{}`: the SDK sends a JSON content type without a body for `null`.
 * @throws 400 naming `content-type` or `body`.
 */
export function parseJson(raw: Buffer, contentType: string | undefined, optional: boolean): unknown {
  if (raw.length === 0) {
    if (optional) return {}
    throw fault.field('body', 'a JSON object is required')
  }
  if (!/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(contentType ?? '')) throw fault.field('content-type', 'must be application/json')
  const { values, properties } = countsIn(raw, MAX_VALUES)
  if (values > MAX_VALUES) throw fault.field('body', `has more than ${MAX_VALUES} values`)
  if (properties > MAX_PROPERTIES) throw fault.field('body', `has more than ${MAX_PROPERTIES} properties`)
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(raw))
  } catch (error) {
    throw fault.field('body', `is not valid JSON (${(error as Error).message})`)
  }
  if (value === null && optional) return {}
  const problem = unstorable(value, 0)
  if (problem) throw fault.invalid([named(problem)])
  return value
}

/** Limit on values. Values take many times their bytes in memory, and time to check. No body of 1 MiB, the usual limit, has more. */
const MAX_VALUES = 600_000

/**
 * The schemas take some 4 microseconds for an unknown property, and 15 for one of a map with a wrong value. No call needs this many; the largest batch has
 * 10,000, and a policy with 5 MiB of bookmarks may reach the first limit.
 */
const MAX_PROPERTIES = 100_000
const MAX_KEYS = 10_000

/** Whether JSON text has more than about `limit` values, without parsing it. */
export const hasMoreValues = (json: Uint8Array, limit: number): boolean => json.length > limit && countsIn(json, limit).values > limit

/** The commas and opening brackets (about one for each value) and the colons (one for each property) outside strings. Stops after `mostValues`. */
function countsIn(json: Uint8Array, mostValues: number): { values: number; properties: number } {
  let values = 0
  let properties = 0
  for (let at = 0; at < json.length && values <= mostValues; at++) {
    const byte = json[at]
    if (byte === QUOTE) for (at++; at < json.length && json[at] !== QUOTE; at++) if (json[at] === BACKSLASH) at++
    if (byte === COLON) properties++
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values++
  }
  return { values, properties }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

const MAX_DEPTH = 64

/** A problem inside a value: the names of its path, the last one first. */
interface Inner {
  way: string[]
  problem: string
}

const named = ({ way, problem }: Inner): FieldProblem => ({
  field: way
    .toReversed()
    .slice(0, way.length > MAX_DEPTH ? SHOWN_DEPTH : MAX_DEPTH)
    .join('.'),
  problem,
})
/** Deep enough to find a value that is nested too deep. */
const SHOWN_DEPTH = 4

// Postgres cannot store U+0000 or an unpaired surrogate, and no server that Cob calls expects them. The path is built only for a problem, because there may be
// very many values.
function unstorable(value: unknown, depth: number): Inner | undefined {
  if (typeof value === 'string') return badText(value) ? { way: [], problem: 'must not hold U+0000 or half a surrogate pair' } : undefined
  if (typeof value !== 'object' || value === null) return undefined
  if (depth > MAX_DEPTH) return { way: [], problem: `is nested more than ${MAX_DEPTH} deep` }
  const below = (key: string, item: unknown): Inner | undefined => {
    const found = unstorable(item, depth + 1)
    found?.way.push(key)
    return found
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = below(String(index), value[index])
      if (found) return found
    }
    return undefined
  }
  const keys = Object.keys(value)
  if (keys.length > MAX_KEYS) return { way: [], problem: `has more than ${MAX_KEYS} properties` }
  for (const key of keys) {
    if (key === UNUSABLE) return { way: [key], problem: 'is not a possible name' }
    if (badText(key)) return { way: [], problem: 'has a property name with U+0000 or half a surrogate pair' }
    const found = below(key, (value as Record<string, unknown>)[key])
    if (found) return found
  }
  return undefined
}

/** The schemas' maps drop this name silently. */
const UNUSABLE = '__proto__'

/** Whether `text` contains characters that are not allowed in names, tags and addresses. */
export const badText = (text: string): boolean => text.includes('\0') || !text.isWellFormed()

/** @throws 400 naming the path or query parameter that holds such characters. Values of maps are checked as well. */
export function checkText(values: object, path: string[] = []): void {
  for (const [name, value] of Object.entries(values)) {
    const field = [...path, badText(name) ? '?' : name]
    if (name === UNUSABLE) throw fault.field(field.join('.'), 'is not a possible name')
    if (badText(name) || (typeof value === 'string' && badText(value))) throw fault.field(field.join('.'), 'must not hold U+0000')
    if (typeof value === 'object' && value !== null) checkText(value, field)
  }
}

/**
 * The path and the query of a request's target. The query is everything after the first `?`; further question marks are ordinary characters (RFC 3986, 3.4).
 */
export function splitUrl(url: string): { path: string; query: string } {
  const at = url.indexOf('?')
  return at === -1 ? { path: url, query: '' } : { path: url.slice(0, at), query: url.slice(at + 1) }
}

/** Parses a query into an object: `a=1&tags[k]=v` gives `{a: '1', tags: {k: 'v'}}`; a name with several values gives an array. */
export function parseQuery(query: string): Record<string, unknown> {
  const result: Record<string, unknown> = Object.create(null)
  for (const [name, value] of new URLSearchParams(query)) {
    const map = /^([^[\]]+)\[([^[\]]+)\]$/.exec(name)
    const held = result[map?.[1] ?? name]
    if (map && typeof held === 'object' && !Array.isArray(held)) (held as Record<string, string>)[map[2]!] = value
    else {
      const given = map ? Object.assign(Object.create(null) as object, { [map[2]!]: value }) : value
      if (Array.isArray(held)) held.push(given)
      else result[map?.[1] ?? name] = held === undefined ? given : [held, given]
    }
  }
  return result
}
