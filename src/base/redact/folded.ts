// A text in the form that is searched for values: without escapes of URLs and JSON, in lower case. A value and all its usual encodings have the same form.
import { unitsOf, type Units } from './units.ts'

/** Characters, and the position of each one's beginning and end in the text: its own index unless listed. */
export interface Folded {
  length: number
  codes: Uint16Array
  places?: { starts: Uint32Array; ends: Uint32Array }
}

const [SPACE, PLUS, BACKSLASH] = [0x20, 0x2b, 0x5c]

/**
 * Backslashes are left out, bytes that were escaped for a URL become characters of UTF-8, and a plus sign is a space. So `a"b`, `a\"b`, `a\\\"b`, `a%22b` and
 * `a%2522b` are the same.
 */
export function folded({ codes, levels, starts, length }: Units): Folded {
  const made = { length: 0, codes: new Uint16Array(length), places: { starts: new Uint32Array(length), ends: new Uint32Array(length) } }
  const push = (code: number, start: number, end: number) => {
    made.codes[made.length] = lower(code)
    made.places.starts[made.length] = start
    made.places.ends[made.length++] = end
  }
  /** The position of the backslashes before the next character. */
  let from = -1
  for (let at = 0; at < length;) {
    if (codes[at] === BACKSLASH) {
      if (from < 0) from = starts[at]!
      at++
      continue
    }
    const { code, units } = characterAt(codes, levels, at, length)
    const end = starts[at + units]!
    const start = from < 0 ? starts[at]! : from
    if (code > 0xffff) {
      push(0xd800 + ((code - 0x10000) >> 10), start, end)
      push(0xdc00 + ((code - 0x10000) & 0x3ff), start, end)
    } else push(code === PLUS ? SPACE : code, start, end)
    at += units
    from = -1
  }
  return made
}

/** The unchanged text, in lower case. */
export function lowered(text: string): Folded {
  const { length } = text
  const codes = new Uint16Array(length)
  for (let at = 0; at < length; at++) codes[at] = lower(text.charCodeAt(at))
  return { length, codes }
}

export const foldedText = (text: string): string => textOf(folded(unitsOf(text)))
export const loweredText = (text: string): string => textOf(lowered(text))

function textOf({ codes, length }: Folded): string {
  let text = ''
  for (let at = 0; at < length; at += 4096) text += String.fromCharCode(...codes.subarray(at, Math.min(length, at + 4096)))
  return text
}

/** Unit by unit, so that positions stay the same. */
function lower(code: number): number {
  if (code < 0x80) return code >= 0x41 && code <= 0x5a ? code + 32 : code
  const small = String.fromCharCode(code).toLowerCase()
  return small.length === 1 ? small.charCodeAt(0) : code
}

/** The character of UTF-8 whose bytes begin here; an invalid byte is a character of its own, as in JavaScript's old function `escape`. */
function characterAt(codes: Uint16Array, levels: Uint8Array, at: number, length: number): { code: number; units: number } {
  const first = codes[at]!
  const more = levels[at] === 0 || first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3
  let code = more === 0 ? first : first & (0x3f >> more)
  for (let byte = 1; byte <= more; byte++) {
    const next = at + byte < length && levels[at + byte]! > 0 ? codes[at + byte]! : 0
    if ((next & ~0x3f) !== 0x80) return { code: first, units: 1 }
    code = (code << 6) | (next & 0x3f)
  }
  return { code: Math.min(code, 0x10ffff), units: more + 1 }
}
