// Finds secrets in any text by their context: names in URLs, forms, cookies, JSON, XML, HTML and plain words; also tokens by their own form. The text may be
// cut anywhere. One pass: text that was read ahead is skipped afterwards, or is bounded.
import { secretKind, type SecretKind } from './names.ts'
import { without, type Range } from './ranges.ts'
import { TOKENS } from './tokens.ts'
import { unitsOf, type Units } from './units.ts'

const code = (char: string): number => char.charCodeAt(0)
const [NEWLINE, RETURN, SPACE, TAB] = [code('\n'), code('\r'), code(' '), code('\t')]
const [DOUBLE, SINGLE, BACKTICK, BACKSLASH] = [code('"'), code("'"), code('`'), code('\\')]
const [COLON, EQUALS, AMPERSAND, COMMA, SEMICOLON, SLASH] = [code(':'), code('='), code('&'), code(','), code(';'), code('/')]
const [LESS, GREATER, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [code('<'), code('>'), code('{'), code('}'), code('['), code(']')]
const [AT, HASH, QUESTION, PLUS, OPEN_PAREN] = [code('@'), code('#'), code('?'), code('+'), code('(')]

/** Characters of names: letters, digits, `_`, `-`, `.`, `$`, and all beyond ASCII. */
const WORD = new Uint8Array(128)
for (const char of 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$') WORD[code(char)] = 1
/** Characters that may be between a name and its `:` or `=`: a quote, the brackets of `user[password]`, `password[]` and `password[0]`, spaces. */
const BETWEEN = new Set([DOUBLE, SINGLE, BACKSLASH, OPEN_BRACKET, CLOSE_BRACKET, SPACE, TAB, ...Array.from('0123456789', code)])
const MAX_BETWEEN = 8
const SPACES = new Set([SPACE, TAB, NEWLINE, RETURN])
const BETWEEN_TEXTS = new Set([...SPACES, COMMA, PLUS])
const QUOTES = new Set([DOUBLE, SINGLE, BACKTICK])
/** The ends of a value without quotes. After `=` there are fewer: URLs and forms do not escape the others. */
const ENDS_AFTER_EQUALS = new Set([AMPERSAND, DOUBLE, LESS, GREATER, HASH, ...SPACES])
const ENDS_AFTER_COLON = new Set([...ENDS_AFTER_EQUALS, COMMA, CLOSE_BRACE, CLOSE_BRACKET, SINGLE, BACKTICK])
const ENDS_OF_ATTRIBUTE = new Set([GREATER, SLASH, ...SPACES])
const ENDS_OF_LINE = new Set([NEWLINE, RETURN])
const ENDS_OF_AUTHORITY = new Set([SLASH, QUESTION, HASH, DOUBLE, SINGLE, LESS, GREATER, BACKSLASH, ...SPACES])
/** Not secrets, whatever their name. */
const NOTHING = new Set(['', 'null', 'undefined', 'true', 'false', 'none', 'nil'])

/** How far the value of `{"name": "password", "value": …}` and of `<input name="password" value="…">` may be from the name. */
const MAX_APART = 300
/** The longest distance from the name of a form's part to its blank line. */
const MAX_PART_HEADERS = 400
const MAX_SPACES = 64
/** The beginning of encoded JSON: the head of a JWT, or all of an opaque token of many services. */
const JWT = 'eyJ'
const MIN_JWT = 20
const MIN_SCHEME_TOKEN = 6
/** The longest distance of the end of a user, a password and a host from their slashes. A password may be a token. */
const MAX_AUTHORITY = 2048
/** The length of a possible token that is judged. */
const MAX_JUDGED = 256

/**
 * Characters of which every secret that is found by a name has one: a sign, a quote, an escape, a tag, a double slash, or a token's own beginning. Most headers
 * and lines have none.
 */
const MAYBE = /[:=<%\\"'`]|\/\/|eyJ|bearer|basic/i
/** A number of tokens is no secret. */
const NUMBER = /^[\d.]+$/

/** A text without the secrets that are found in it. */
export const withoutSecrets = (text: string): string => without(text, findSecrets(text))

/** `units`: those of this text, if the caller uses them as well. */
export function findSecrets(text: string, units = () => unitsOf(text)): Range[] {
  const found: Range[] = [...text.matchAll(TOKENS)].map(({ 0: token, index }) => [index, index + token.length])
  return MAYBE.test(text) ? [...found, ...new Finder(text, units()).run()] : found
}

class Finder {
  readonly #text: string
  readonly #units: Units
  readonly #codes: Uint16Array
  readonly #levels: Uint8Array
  readonly #length: number
  readonly #found: Range[] = []
  /** Whether `code` is one of OAuth. */
  readonly #hasState: boolean
  /** Up to this position a field `value` belongs to the name of a secret. */
  #valueUntil = -1
  /** The last `value` of a field that was not known as a secret's then. */
  #lastValue: Range | undefined

  constructor(text: string, units: Units) {
    this.#text = text
    this.#units = units
    ;({ codes: this.#codes, levels: this.#levels, length: this.#length } = this.#units)
    this.#hasState = /state(?:=|%3D|["'\\\]]{0,4} ?:)/i.test(text)
  }

  run(): Range[] {
    for (let at = 0; at < this.#length;) {
      if (!this.#isWord(at)) {
        const isEndOfField = this.#codes[at] === CLOSE_BRACE || this.#codes[at] === GREATER
        if (isEndOfField) this.#lastValue = undefined
        at = (this.#codes[at] === SLASH && this.#userInfo(at, true)) || at + 1
        continue
      }
      let end = at + 1
      while (end < this.#length && this.#isWord(end)) end++
      at = Math.max(end, this.#word(at, end))
    }
    return this.#found
  }

  /** Judges one word, and its continuation. Returns the earliest position at which to continue. */
  #word(from: number, to: number): number {
    const word = this.#string(from, to)
    const jwt = word.indexOf(JWT)
    if (jwt >= 0 && word.length - jwt >= MIN_JWT) {
      this.#add(from + jwt, to)
      return to
    }
    const authority = this.#codes[to] === COLON ? this.#userInfo(to + 1) : undefined
    if (authority !== undefined) return authority
    const lower = word.length > 64 ? '' : word.toLowerCase()
    if (lower === 'bearer' || lower === 'basic') return this.#scheme(to, lower)
    const kind = this.#kind(word, lower, from)
    if (kind && this.#codes[from - 1] === LESS) return this.#element(to)
    const sign = this.#sign(to)
    if (sign < 0) return kind ? this.#nameAlone(from, to) : to
    if (kind) return this.#announced(from, to, sign) ?? this.#value(sign, kind)
    if (lower === 'value' || lower === 'content') this.#lastValue = this.#contentAt(sign)
    return to
  }

  /** The value of an attribute or a field, with or without quotes. */
  #contentAt(sign: number): Range {
    const at = this.#skip(sign + 1, SPACES)
    return this.#quoted(at)?.content ?? [at, this.#until(at, ENDS_AFTER_COLON, 255, at + MAX_APART)]
  }

  #kind(word: string, lower: string, from: number): SecretKind | undefined {
    if ((lower === 'value' || lower === 'content') && from <= this.#valueUntil) return 'value'
    if (lower === 'code' && this.#hasState) return 'value'
    return secretKind(word)
  }

  /** The position of the `:` or `=` of a name that ends here; -1 when there is none. */
  #sign(at: number): number {
    const limit = Math.min(this.#length, at + MAX_BETWEEN)
    while (at < limit && BETWEEN.has(this.#codes[at]!)) at++
    const found = this.#codes[at]
    return at < this.#length && (found === COLON || found === EQUALS) ? at : -1
  }

  /** `'token:', '…'` and `"token=" + "…"` of a program: the quotes enclose the name, and the value is the next text. Undefined otherwise. */
  #announced(from: number, to: number, sign: number): number | undefined {
    const quote = this.#codes[from - 1]
    if (from === 0 || !QUOTES.has(quote!) || this.#codes.subarray(to, sign).includes(quote!)) return undefined
    const end = this.#skip(sign + 1, SPACES)
    if (this.#codes[end] !== quote) return undefined
    const next = this.#skip(end + 1, BETWEEN_TEXTS)
    const quoted = next > end + 1 ? this.#quoted(next) : undefined
    if (!quoted) return end + 1
    this.#add(...quoted.content)
    return quoted.end
  }

  /** Replaces the value after the sign. Returns its end. */
  #value(sign: number, kind: SecretKind): number {
    const level = this.#levels[sign]!
    let at = sign + 1
    // `=>` and `==`, but no longer runs of signs.
    while (at < sign + 3 && (this.#codes[at] === GREATER || this.#codes[at] === EQUALS)) at++
    const isColon = this.#codes[sign] === COLON
    at = this.#skip(at, isColon ? SPACES : new Set([SPACE]))
    const quoted = this.#quoted(at, level)
    if (quoted) {
      this.#add(...quoted.content)
      return quoted.end
    }
    const first = this.#codes[at]
    if (isColon && (first === OPEN_BRACKET || (first === OPEN_BRACE && (kind === 'all' || kind === 'tokens')))) {
      const end = this.#closed(at)
      this.#add(at, end)
      return end
    }
    if (isColon && first === OPEN_BRACE) return at
    const end = this.#until(at, kind === 'line' && isColon ? ENDS_OF_LINE : isColon ? ENDS_AFTER_COLON : ENDS_AFTER_EQUALS, level)
    if (end - at > 16 || !this.#isNothing(this.#string(at, end), kind)) this.#add(at, end)
    return Math.max(end, at)
  }

  #isNothing(value: string, kind: SecretKind): boolean {
    return NOTHING.has(value.toLowerCase()) || (kind === 'tokens' && NUMBER.test(value))
  }

  /** The text between the quotes that begin here. The closing quote may be missing. */
  #quoted(at: number, level = 255): { content: Range; end: number } | undefined {
    let open = at
    while (this.#codes[open] === BACKSLASH && open < at + 16) open++
    const quote = this.#codes[open]!
    if (open >= this.#length || !QUOTES.has(quote)) return undefined
    // A quote in JSON within JSON has one backslash before it, a quote at the next level three, and so on.
    const depth = open - at
    let backslashes = 0
    for (let to = open + 1; to < this.#length; to++) {
      if (this.#codes[to] === BACKSLASH) {
        backslashes++
        continue
      }
      // A raw quote within an escaped text ends that text, too.
      if (
        this.#codes[to] === quote &&
        this.#levels[to]! <= Math.max(level, this.#levels[open]!) &&
        (backslashes < depth || backslashes % (2 * (depth + 1)) === depth)
      )
        return { content: [open + 1, to - Math.min(depth, backslashes)], end: to + 1 }
      backslashes = 0
    }
    return { content: [open + 1, this.#length], end: this.#length }
  }

  /** The end of the object or list that begins here. */
  #closed(at: number): number {
    let depth = 0
    for (let to = at; to < this.#length; to++) {
      const found = this.#codes[to]
      if (found === OPEN_BRACE || found === OPEN_BRACKET) depth++
      else if ((found === CLOSE_BRACE || found === CLOSE_BRACKET) && --depth === 0) return to + 1
      else if (found === DOUBLE || (found === BACKSLASH && this.#codes[to + 1] === DOUBLE)) to = (this.#quoted(to)?.end ?? to + 1) - 1
    }
    return this.#length
  }

  /** `<password>…</password>` whose name ends here. */
  #element(to: number): number {
    let at = to
    const limit = Math.min(this.#length, to + MAX_APART)
    while (at < limit && this.#codes[at] !== GREATER) at++
    if (this.#codes[at] !== GREATER || this.#codes[at - 1] === SLASH) return to
    at++
    const isData = this.#string(at, Math.min(this.#length, at + 9)) === '<![CDATA['
    const end = isData ? this.#find(at, ']]>', this.#length) : this.#until(at, new Set([LESS]), 255)
    this.#add(at, end)
    // What stands between the name and `>` is read, too: attributes, or text that only looks like a tag and has secrets of its own.
    return at === to + 1 ? end : to
  }

  /** A name without a sign: the value may be a part of a form, the next text of a list, or the value of a field `value`. */
  #nameAlone(from: number, to: number): number {
    const before = this.#codes[from - 1]
    const isQuoted = from > 0 && QUOTES.has(before!) && (this.#codes[to] === before || this.#codes[to] === BACKSLASH || this.#codes[to] === CLOSE_BRACKET)
    // `<input type=password value=…>`
    const isAttribute = before === EQUALS && to < this.#length && ENDS_OF_ATTRIBUTE.has(this.#codes[to]!)
    if (isAttribute) this.#nearValue(from, to)
    if (!isQuoted) return to
    let after = to
    while (this.#codes[after] === BACKSLASH || this.#codes[after] === CLOSE_BRACKET) after++
    after++
    const part = this.#part(after)
    if (part !== undefined) return part
    let open = from - 2
    while (this.#codes[open] === BACKSLASH) open--
    // `["password", "…"]`, and `setItem('password', '…')`.
    if ((this.#codes[open] === OPEN_BRACKET || this.#codes[open] === OPEN_PAREN) && this.#codes[after] === COMMA) {
      const quoted = this.#quoted(this.#skip(after + 1, SPACES))
      if (quoted) {
        this.#add(...quoted.content)
        return quoted.end
      }
    }
    this.#nearValue(from, to)
    return to
  }

  /** The value of a field is next to its name: before it or after it. */
  #nearValue(from: number, to: number): void {
    this.#valueUntil = to + MAX_APART
    if (this.#lastValue && from - this.#lastValue[1] < MAX_APART) this.#add(...this.#lastValue)
  }

  /** The content of a part of a multipart form, whose name has ended here. */
  #part(at: number): number | undefined {
    const isHead = this.#codes[at] === RETURN || this.#codes[at] === NEWLINE || this.#codes[at] === SEMICOLON
    if (!isHead) return undefined
    const limit = Math.min(this.#length, at + MAX_PART_HEADERS)
    const blank = this.#find(at, '\r\n\r\n', limit)
    if (blank >= limit) return undefined
    const end = this.#find(blank + 4, '\r\n--', this.#length)
    this.#add(blank + 4, end)
    return end
  }

  /** `Bearer …` and `Basic …`. */
  #scheme(to: number, scheme: string): number {
    const at = this.#skip(to, new Set([SPACE, TAB, PLUS]))
    if (at === to) return to
    const token = this.#string(at, this.#until(at, ENDS_AFTER_COLON, 255, at + MAX_JUDGED))
    // "basic information" is not a credential: a name and a password have a colon between them.
    const isToken = scheme === 'bearer' ? /\d/.test(token) || token.length >= 16 : Buffer.from(token, 'base64').includes(COLON)
    if (token.length < MIN_SCHEME_TOKEN || !isToken) return to
    const end = this.#until(at, ENDS_AFTER_COLON, 255)
    this.#add(at, end)
    return end
  }

  /**
   * The user and password of a URL whose slashes begin here. Undefined when there are none. `isBare`: it has no scheme, and then a name alone does not count.
   */
  #userInfo(to: number, isBare = false): number | undefined {
    let from = to
    for (let slashes = 0; slashes < 2; slashes++) {
      // JSON of some servers has a backslash before each slash.
      while (this.#codes[from] === BACKSLASH && from < to + 8) from++
      if (this.#codes[from++] !== SLASH) return undefined
    }
    if (from > this.#length) return undefined
    // The highest level: an inner address that is escaped as often ends there, too, so no address is read twice. An address that is escaped more often does not
    // end there, and is read.
    const end = this.#until(from, ENDS_OF_AUTHORITY, Math.max(...this.#levels.subarray(to, from)), from + MAX_AUTHORITY)
    let at = end
    while (at > from && this.#codes[at] !== AT) at--
    if (isBare && !this.#codes.subarray(from, at).includes(COLON)) return from
    if (this.#codes[at] === AT && at > from && at < this.#length) this.#add(from, at)
    return at > from ? at : from
  }

  #isWord(at: number): boolean {
    const found = this.#codes[at]!
    return found < 128 ? WORD[found] === 1 : true
  }

  #skip(at: number, what: ReadonlySet<number>): number {
    const limit = Math.min(this.#length, at + MAX_SPACES)
    while (at < limit && what.has(this.#codes[at]!)) at++
    return at
  }

  /** The position of the next of `ends` that is not escaped more often than `level`. */
  #until(at: number, ends: ReadonlySet<number>, level: number, limit = this.#length): number {
    const stop = Math.min(limit, this.#length)
    while (at < stop && !(this.#levels[at]! <= level && ends.has(this.#codes[at]!))) at++
    return at
  }

  /** The position of `what`, or `limit`. */
  #find(at: number, what: string, limit: number): number {
    for (; at < limit; at++) {
      let same = 0
      while (same < what.length && this.#codes[at + same] === what.charCodeAt(same)) same++
      if (same === what.length) return at
    }
    return limit
  }

  #string(from: number, to: number): string {
    const { starts } = this.#units
    const plain = this.#text.slice(starts[from], starts[to])
    if (plain.length === to - from) return plain
    return String.fromCharCode(...this.#codes.subarray(from, Math.min(to, from + 4096)))
  }

  #add(from: number, to: number): void {
    const { starts } = this.#units
    if (to > from) this.#found.push([starts[from]!, starts[to]!])
  }
}
