// A text as its final reader sees it: with the escapes of URLs and JSON resolved, each character with its position in the text.

/** Characters, each with its position in the text, and the number of times it was escaped for a URL. All arrays have one more entry: the end. */
export interface Units {
  length: number
  codes: Uint16Array
  levels: Uint8Array
  starts: Uint32Array
}

const PERCENT = 0x25
const BACKSLASH = 0x5c
const MAX_LEVEL = 255

export function unitsOf(text: string): Units {
  const codes = new Uint16Array(text.length + 1)
  const levels = new Uint8Array(text.length + 1)
  const starts = new Uint32Array(text.length + 1)
  let length = 0
  for (let at = 0; at < text.length; length++) {
    starts[length] = at
    let code = text.charCodeAt(at++)
    if (code === PERCENT) {
      let level = 0
      // The escape of non-Latin characters by JavaScript's old function `escape`.
      const wide = (text.charCodeAt(at) | 32) === 0x75 ? hexAt(text, at + 1, 4) : -1
      if (wide >= 0) {
        code = wide
        level = 1
        at += 5
      }
      // "%2522" is an escaped "%22".
      for (let next = hexAt(text, at, 2); code === PERCENT && next >= 0; next = hexAt(text, at, 2)) {
        code = next
        level++
        at += 2
      }
      levels[length] = Math.min(level, MAX_LEVEL)
    } else if (code === BACKSLASH && text.charCodeAt(at) === 0x75) {
      const value = hexAt(text, at + 1, 4)
      if (value >= 0) {
        code = value
        at += 5
      }
    }
    codes[length] = code
  }
  starts[length] = text.length
  return { length, codes, levels, starts }
}

/** The value of `digits` hexadecimal digits; -1 when they are not digits. */
function hexAt(text: string, at: number, digits: number): number {
  let value = 0
  for (let end = at + digits; at < end; at++) {
    const code = text.charCodeAt(at)
    const digit = code >= 48 && code <= 57 ? code - 48 : (code | 32) >= 97 && (code | 32) <= 102 ? (code | 32) - 87 : -1
    if (digit < 0) return -1
    value = value * 16 + digit
  }
  return value
}
