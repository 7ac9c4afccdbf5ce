// Reading what a caller sent: bodies within their limit, JSON that the store can hold, queries with maps in brackets.
import type { IncomingMessage } from 'node:http'
import { fault, type FieldProblem } from './fault.ts'

/** Reads the whole body. @throws 413 as soon as more than `limitBytes` were announced or have arrived. */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limitBytes) throw fault.tooLarge(limitBytes)
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > limitBytes) throw fault.tooLarge(limitBytes)
      chunks.push(chunk)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNRESET') throw fault.clientClosed()
    throw error
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a JSON body. With `optional`, nothing at all counts as `{}`: the SDK sends a JSON header and no body for `null`.
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
  const problem = unstorable(value, [])
  if (problem) throw fault.invalid([problem])
  return value
}

const MAX_DEPTH = 64

// Postgres stores neither U+0000 nor half a surrogate pair; nothing that Cob speaks to expects them either.
function unstorable(value: unknown, path: string[]): FieldProblem | undefined {
  if (typeof value === 'string') return badText(value) ? { field: path.join('.'), problem: 'must not hold U+0000 or half a surrogate pair' } : undefined
  if (typeof value !== 'object' || value === null) return undefined
  if (path.length > MAX_DEPTH) return { field: path.slice(0, 4).join('.'), problem: `is nested more than ${MAX_DEPTH} deep` }
  for (const [key, item] of Object.entries(value)) {
    if (badText(key)) return { field: path.join('.'), problem: 'has a property name with U+0000 or half a surrogate pair' }
    const problem = unstorable(item, [...path, key])
    if (problem) return problem
  }
  return undefined
}

/** Whether `text` holds characters that no name, tag or address of ours may hold. */
export const badText = (text: string): boolean => text.includes('\0') || !text.isWellFormed()

/** Query text to an object: `a=1&tags[k]=v` gives `{a: '1', tags: {k: 'v'}}`; a repeated name gives an array. */
export function parseQuery(query: string): Record<string, unknown> {
  const result: Record<string, unknown> = Object.create(null)
  for (const [name, value] of new URLSearchParams(query)) {
    const map = /^([^[\]]+)\[([^[\]]+)\]$/.exec(name)
    if (map) {
      const held = result[map[1]!]
      const entries: Record<string, string> = typeof held === 'object' && !Array.isArray(held) && held !== null ? (held as Record<string, string>) : Object.create(null)
      entries[map[2]!] = value
      result[map[1]!] = entries
    } else if (name in result) {
      const held = result[name]
      result[name] = Array.isArray(held) ? [...held, value] : [held, value]
    } else result[name] = value
  }
  return result
}
