// The headers that a destination gets with every request: their names in one spelling, how changes are merged, and invalid names.
import { fault } from '../../../../http/fault.ts'
import { MAX_HEADER_BYTES } from '../limits.ts'

export type Headers = Record<string, string>

/** Headers that control how a request is sent: callers may not set them. */
const OWN = new Set([
  'Accept-Encoding',
  'Connection',
  'Content-Encoding',
  'Content-Length',
  'Content-Type',
  'Expect',
  'Host',
  'Keep-Alive',
  'Proxy-Connection',
  'Te',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
])

/** `x-api-key` and `X-API-Key` are `X-Api-Key`. */
export const canonical = (name: string): string => name.toLowerCase().replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())

/**
 * A new origin must not get the secret headers of the origin before it: otherwise a caller who cannot read them could send them to its own server. So the
 * caller must give each header again or remove it. @throws 400 naming the headers that are missing
 */
export function assertSaid(origin: string, names: readonly string[], given: Record<string, string | null>): void {
  const said = new Set(Object.keys(given).map(canonical))
  const left = names.filter((name) => !said.has(name))
  if (left.length > 0) throw fault.field('headers', `must say what becomes of ${left.join(', ')} at ${origin}: give a value again, or null`)
}

/** `given` merged into `before`; null removes a header. @throws 400 naming the header */
export function changedHeaders(before: Headers, given: Record<string, string | null>): Headers {
  const after = new Map(Object.entries(before))
  const seen = new Map<string, string>()
  for (const [name, value] of Object.entries(given)) {
    const whole = canonical(name)
    const other = seen.get(whole)
    if (other !== undefined) throw fault.field(`headers.${name}`, `is the same header as "${other}"`)
    seen.set(whole, name)
    // In any case of letters this name becomes "__proto__", which an object cannot have as a plain field.
    if (whole === '__proto__') throw fault.field(`headers.${name}`, 'is not a possible name')
    if (OWN.has(whole)) throw fault.field(`headers.${name}`, 'cannot be set: the service sets it')
    if (value === null) after.delete(whole)
    else after.set(whole, value)
  }
  // Names and values are ASCII.
  const bytes = [...after].reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  if (bytes > MAX_HEADER_BYTES) throw fault.field('headers', `must have at most ${MAX_HEADER_BYTES} bytes in all, names and values; these have ${bytes}`)
  return Object.fromEntries(after)
}
