// Converts what code returns to JSON. The result equals JSON.stringify's, but values that it would silently lose are errors.
import { MAX_RESULT_BYTES } from './protocol.ts'

/** A value that JSON cannot hold. The message says where it is and what it is. */
export class NotJson extends Error {}

/** Objects whose content is not in their properties. JSON would show them as empty. */
const EMPTY_AS_JSON = [Map, Set, WeakMap, WeakSet, RegExp, Promise, ArrayBuffer, Error]

/**
 * @throws NotJson for functions, symbols, BigInts, cycles, Playwright's objects, objects that JSON would show as empty, and for more than 16 MiB
 */
export function toJson(value: unknown): string | undefined {
  let json: string | undefined
  try {
    json = JSON.stringify(plain(value, 'the result', []))
  } catch (error) {
    if (error instanceof RangeError) throw new NotJson('the result is nested too deeply or too long for JSON')
    throw error
  }
  const bytes = json === undefined ? 0 : Buffer.byteLength(json)
  if (bytes > MAX_RESULT_BYTES)
    throw new NotJson(`the result has ${bytes} bytes as JSON, more than the limit of ${MAX_RESULT_BYTES}; write it to a file and download the file`)
  return json
}

function plain(value: unknown, where: string, above: object[]): unknown {
  if (typeof value === 'bigint') throw new NotJson(`${where} is a BigInt, which JSON cannot hold; convert it to text with String()`)
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new NotJson(`${where} is a ${typeof value}, which JSON cannot hold; leave it out of the result`)
  if (typeof value !== 'object' || value === null) return value
  if (above.includes(value)) throw new NotJson(`${where} refers to an object that contains it; JSON cannot hold cycles`)
  // A plain object may have a property of this name.
  const name: unknown = value.constructor?.name
  const kind = typeof name === 'string' ? name.replace(/^_/, '') : 'object'
  if (isPlaywright(value)) throw new NotJson(`${where} is a Playwright ${kind}, which cannot leave the session; return the values that you need from it`)
  if (EMPTY_AS_JSON.some((type) => value instanceof type)) throw new NotJson(`${where} is a ${kind}, which JSON cannot hold; ${advice(value)}`)
  if ('toJSON' in value && typeof value.toJSON === 'function') return plain(value.toJSON(), where, [...above, value])
  if (ArrayBuffer.isView(value)) throw new NotJson(`${where} is a ${kind}, which JSON cannot hold; ${advice(value)}`)
  const inside = [...above, value]
  if (Array.isArray(value)) return value.map((item, index) => plain(item, `${where}[${index}]`, inside))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item, `${where}.${key}`, inside)]))
}

// Playwright's objects only refer to objects in its other half, over a connection.
const isPlaywright = (value: object): boolean => ('_guid' in value && '_connection' in value) || ('_frame' in value && '_selector' in value)

function advice(value: object): string {
  if (value instanceof Promise) return 'await it'
  if (value instanceof Map) return 'convert it to an object with Object.fromEntries()'
  if (value instanceof Set) return 'return an array of its members'
  if (value instanceof Error) return 'return its message, or throw it'
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return "convert it to text with Buffer.from(...).toString('base64')"
  return 'convert it to text with String()'
}
