// Keeps the values of a flow out of what is stored and shown in plain text: the words of a site, addresses, labels. No site is trusted to leave them out.
import type { FieldRole } from './interpretation.ts'

/** As telemetry marks what it has left out. */
export const REDACTED = '[redacted]'

/** From this length on a value is found anywhere, also inside a word. A shorter one would take parts of other words with it. */
const LEAST_ANYWHERE = 4
/** Names of users, passwords and codes are found from this length on, as words of their own. */
const LEAST_WORD = 2
/** The shortest limit at which texts of pages are cut. The end of a longer text may be the beginning of a value. */
const MAY_BE_CUT = 80
/** Texts may be encoded twice, as an address inside of an address is. */
const DEPTH = 2

export const IDENTIFIERS: readonly string[] = ['username', 'email', 'phone']

/** `once`: a code. */
type Kind = 'password' | 'once' | 'identifier' | 'other'

interface Value {
  /** In lower case: sites change that. */
  text: string
  isSecret: boolean
  isWord: boolean
}

/** A text with the place of each of its units in the text that it was made of, and the end of that. */
interface Decoded {
  text: string
  at: number[]
}

type Range = readonly [from: number, to: number]

const isLetter = (char: string | undefined): boolean => char !== undefined && /[\p{L}\p{N}]/u.test(char)
/** Unit by unit, so that places stay the same. */
const lower = (text: string): string => Array.from({ length: text.length }, (_, at) => small(text[at]!)).join('')
const small = (unit: string): string => ((low) => (low.length === 1 ? low : unit))(unit.toLowerCase())

export function kindOf(key: string, role?: FieldRole): Kind {
  if (role === 'code' || role === 'totp_code') return 'once'
  if (role === 'password' || key.includes('password')) return 'password'
  return role === 'identifier' || IDENTIFIERS.includes(key) ? 'identifier' : 'other'
}

export class Scrubber {
  readonly #values = new Map<string, Value>()

  /** Takes a value that must not be told from now on. It is never forgotten: a site may repeat a code that was used. */
  note(value: string, kind: Kind): void {
    const text = lower(value.trim())
    const isSecret = kind === 'password' || kind === 'once'
    if (text.length < (kind === 'other' ? LEAST_ANYWHERE : LEAST_WORD)) return
    const before = this.#values.get(text)
    this.#values.set(text, { text, isSecret: isSecret || before?.isSecret === true, isWord: text.length < LEAST_ANYWHERE })
  }

  /** The text with a mark in place of each value. */
  scrub(text: string): string {
    const ranges = this.#find(text, this.#all()).toSorted(([a], [b]) => a - b)
    let clean = ''
    let done = 0
    for (const [from, to] of ranges) {
      if (from >= done) clean += text.slice(done, from) + REDACTED
      done = Math.max(done, to)
    }
    return clean + text.slice(done)
  }

  holds(text: string): boolean {
    return this.#find(text, this.#all()).length > 0
  }

  /** Whether it has a password or a code in it. */
  holdsSecret(text: string): boolean {
    return (
      this.#find(
        text,
        this.#all().filter(({ isSecret }) => isSecret),
      ).length > 0
    )
  }

  /** The address without query and fragment when there is a value in it; when its path has one, only the origin. */
  address(url: string): string {
    if (!this.holds(url)) return url
    if (!URL.canParse(url)) return this.scrub(url)
    const { origin, pathname } = new URL(url)
    return origin + (this.holds(pathname) ? '/' : pathname)
  }

  #all(): Value[] {
    return [...this.#values.values()]
  }

  #find(text: string, values: readonly Value[]): Range[] {
    if (values.length === 0) return []
    return formsOf(text).flatMap((form) => {
      const low = lower(form.text)
      return values.flatMap((value) => [...occurrences(low, form.at, value), ...(text.length < MAY_BE_CUT ? [] : beginning(low, form.at, value))])
    })
  }
}

function occurrences(text: string, at: readonly number[], { text: value, isWord }: Value): Range[] {
  const found: Range[] = []
  for (let from = text.indexOf(value); from >= 0; from = text.indexOf(value, from + 1)) {
    const to = from + value.length
    if (!isWord || !(isLetter(text[from - 1]) || isLetter(text[to]))) found.push([at[from]!, at[to]!])
  }
  return found
}

/** The beginning of a value at the end of a text. */
function beginning(text: string, at: readonly number[], { text: value }: Value): Range[] {
  for (let length = Math.min(value.length - 1, text.length); length >= LEAST_ANYWHERE; length--)
    if (text.endsWith(value.slice(0, length))) return [[at[text.length - length]!, at[text.length]!]]
  return []
}

/** The text as it is, and as what it may be the encoding of: by percent signs, where a plus sign may be a space. */
function formsOf(text: string): Decoded[] {
  const plain: Decoded = { text, at: Array.from({ length: text.length + 1 }, (_, at) => at) }
  if (!/[%+]/.test(text)) return [plain]
  const forms = [plain]
  for (const isForm of [false, true]) {
    let form = plain
    for (let depth = 0; depth < DEPTH; depth++) forms.push((form = decoded(form, isForm)))
  }
  return forms
}

function decoded({ text, at }: Decoded, isForm: boolean): Decoded {
  const out: Decoded = { text: '', at: [] }
  for (let from = 0; from < text.length;) {
    const { char, length } = charAt(text, from, isForm)
    for (let unit = 0; unit < char.length; unit++) out.at.push(at[from]!)
    out.text += char
    from += length
  }
  out.at.push(at[text.length]!)
  return out
}

/** The character that is encoded at a place, and the length of its encoding. */
function charAt(text: string, from: number, isForm: boolean): { char: string; length: number } {
  const here = text[from]!
  if (here === '+' && isForm) return { char: ' ', length: 1 }
  const first = here === '%' ? /^[\da-f]{2}$/i.exec(text.slice(from + 1, from + 3)) : null
  if (!first) return { char: here, length: 1 }
  const byte = parseInt(first[0], 16)
  const length = 3 * (byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4)
  try {
    return { char: decodeURIComponent(text.slice(from, from + length)), length }
  } catch {
    // No character: the sign stands for itself.
    return { char: here, length: 1 }
  }
}
