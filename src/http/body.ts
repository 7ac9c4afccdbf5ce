// Reads what a caller sent: bodies within their limit, JSON that the store can hold, queries with maps in brackets.
import type { IncomingMessage } from 'node:http'
import { fault, type Fault, type FieldProblem } from './fault.ts'

/**
 * When a body is refused, up to this many bytes of its rest are read and dropped, so that the sender reads the answer. After that the connection
 * is closed.
 */
const DRAIN_BYTES = 32 * 1024 * 1024
const DRAIN_MS = 5_000

/** Reads the whole body. @throws 413 at once when `content-length` exceeds `limitBytes`, or at the body's end when more bytes have arrived. */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  if (announced(request) > limitBytes) throw await tooLarge(request, limitBytes)
  const chunks: Buffer[] = []
  let length = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (chunk: Buffer) => {
    length += chunk.length
    if (length > limitBytes) resolve()
    else chunks.push(chunk)
  }
  request
    .on('data', onData)
    .on('end', resolve)
    .on('error', reject)
    .on('close', () => reject(fault.clientClosed()))
  try {
    await promise
  } catch {
    throw fault.clientClosed()
  } finally {
    request.off('data', onData)
  }
  if (length > limitBytes) throw await tooLarge(request, limitBytes)
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length)
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
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(raw))
  } catch (error) {
    throw fault.field('body', `is not valid JSON (${(error as Error).message})`)
  }
  if (value === null && optional) return {}
  const problem = unstorable(value, [])
  if (problem) throw fault.invalid([problem])
  return value
}

const MAX_DEPTH = 64

// Postgres cannot store U+0000 or an unpaired surrogate, and no server that Cob calls expects them.
function unstorable(value: unknown, path: string[]): FieldProblem | undefined {
  if (typeof value === 'string') return badText(value) ? { field: path.join('.'), problem: 'must not hold U+0000 or half a surrogate pair' } : undefined
  if (typeof value !== 'object' || value === null) return undefined
  if (path.length > MAX_DEPTH) return { field: path.slice(0, 4).join('.'), problem: `is nested more than ${MAX_DEPTH} deep` }
  for (const [key, item] of Object.entries(value)) {
    if (key === UNUSABLE) return { field: [...path, key].join('.'), problem: 'is not a possible name' }
    if (badText(key)) return { field: path.join('.'), problem: 'has a property name with U+0000 or half a surrogate pair' }
    const problem = unstorable(item, [...path, key])
    if (problem) return problem
  }
  return undefined
}

/** The schemas' maps leave this name out without a word. */
const UNUSABLE = '__proto__'

/** Whether `text` holds characters that names, tags and addresses must not hold. */
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
 * The path and the query of a request's target. The query is all after the first `?`; further question marks are ordinary characters (RFC 3986,
 * 3.4).
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
