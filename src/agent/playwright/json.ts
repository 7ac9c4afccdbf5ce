// What code returns, as JSON: the same that JSON.stringify makes, but for what that would lose without a word.
import { MAX_RESULT_BYTES } from './protocol.ts'

/** A value that has no JSON; the message says where and what. */
export class NotJson extends Error {}

/** Objects whose content is not in their properties, so that JSON would show them empty. */
const EMPTY_AS_JSON = [Map, Set, WeakMap, WeakSet, RegExp, Promise, ArrayBuffer, Error]

/**
 * The JSON of `value`; undefined for undefined.
 * @throws NotJson for functions, symbols, BigInts, cycles, Playwright's objects and such as would be shown empty, and for more than 16 MiB
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
  if (bytes > MAX_RESULT_BYTES) throw new NotJson(`the result has ${bytes} bytes as JSON, more than ${MAX_RESULT_BYTES}; write it to a file and fetch that`)
  return json
}

function plain(value: unknown, where: string, above: object[]): unknown {
  if (typeof value === 'bigint') throw new NotJson(`${where} is a BigInt, which JSON does not have; String() makes text of it`)
  if (typeof value === 'function' || typeof value === 'symbol') throw new NotJson(`${where} is a ${typeof value}, which JSON does not have`)
  if (typeof value !== 'object' || value === null) return value
  if (above.includes(value)) throw new NotJson(`${where} refers back to what it is part of`)
  const kind = (value.constructor?.name ?? 'object').replace(/^_/, '')
  if (isPlaywright(value)) throw new NotJson(`${where} is a Playwright ${kind}, which cannot leave the session; return what you need of it`)
  if (EMPTY_AS_JSON.some((type) => value instanceof type)) throw new NotJson(`${where} is a ${kind}, which JSON does not have; ${advice(value)}`)
  if ('toJSON' in value && typeof value.toJSON === 'function') return plain(value.toJSON(), where, [...above, value])
  if (ArrayBuffer.isView(value)) throw new NotJson(`${where} is a ${kind}, which JSON does not have; ${advice(value)}`)
  const inside = [...above, value]
  if (Array.isArray(value)) return value.map((item, index) => plain(item, `${where}[${index}]`, inside))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item, `${where}.${key}`, inside)]))
}

// Playwright's objects are ends of channels to its other half.
const isPlaywright = (value: object): boolean => ('_guid' in value && '_connection' in value) || ('_frame' in value && '_selector' in value)

function advice(value: object): string {
  if (value instanceof Promise) return 'await it'
  if (value instanceof Map) return 'Object.fromEntries() makes an object of it'
  if (value instanceof Set) return 'an array of its members can be returned'
  if (value instanceof Error) return 'return its message, or throw it'
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return "Buffer.from(...).toString('base64') makes text of it"
  return 'String() makes text of it'
}
