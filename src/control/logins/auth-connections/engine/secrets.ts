// The values of one flow, in the memory of its worker only: of a stored credential, of a provider, and what a person has typed. Which value a field takes.
import type { FieldRole, Interpretation } from './interpretation.ts'
import { IDENTIFIERS, kindOf, Scrubber } from './scrub.ts'

/** `plain`: pages without TLS. `all`: its authorities sign for any site. */
export type ProxyReads = 'nothing' | 'plain' | 'all'

/** Where the item of a provider may be typed, in a connection whose caller has a right to it only there. */
export interface ItemPlaces {
  /** Patterns of the hosts that it is meant for, besides the connection's domain. */
  hosts: readonly string[]
  /** What the proxy of the browser, which the caller has chosen, can read of the pages. */
  proxyReads: ProxyReads
}

/** What a TOTP secret is to this file: something with a period. */
export interface Totp {
  period: number
}

export interface StoredValues<T extends Totp = Totp> {
  /** Names these values. */
  version: string
  values: Record<string, string>
  ssoProvider: string | undefined
  totp: T | undefined
  /** Where they may be typed; undefined: wherever the connection allows. */
  places?: ItemPlaces | undefined
}

/** Other words for keys, as people and stores write them. */
const ALIASES: Record<string, string> = {
  user: 'username',
  user_name: 'username',
  userid: 'username',
  user_id: 'username',
  login: 'username',
  account: 'username',
  mail: 'email',
  e_mail: 'email',
  email_address: 'email',
  phone_number: 'phone',
  mobile: 'phone',
  tel: 'phone',
  telephone: 'phone',
  pass: 'password',
  passwd: 'password',
  pwd: 'password',
}
export function canonicalKey(key: string): string {
  const plain = key
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '_')
    .replace(/^_+|_+$/g, '')
  return Object.hasOwn(ALIASES, plain) ? ALIASES[plain]! : plain
}

const canonical = (values: Record<string, string>): Map<string, string> => {
  const found = new Map<string, string>()
  for (const [key, value] of Object.entries(values)) {
    const name = canonicalKey(key)
    // A key that is written as it is meant comes before another word for it.
    if (value !== '' && (name === key || !found.has(name))) found.set(name, value)
  }
  return found
}

/** Codes, and boxes that agree to something, are no part of a credential. */
const isForOnce = (role: FieldRole): boolean => role === 'code' || role === 'totp_code' || role === 'checkbox'

export class SecretResolver<T extends Totp = Totp> {
  readonly #stored: Map<string, string>
  readonly #typed: Map<string, string>
  /** Codes are for one use, and never kept. */
  readonly #codes = new Map<string, string>()
  /** Knows all values of the flow, and keeps them out of what is stored or shown. */
  readonly scrubber = new Scrubber()
  readonly ssoProvider: string | undefined
  readonly totp: T | undefined
  /** Of the stored values; undefined: there are none. */
  readonly version: string | undefined
  readonly places: ItemPlaces | undefined

  constructor(stored: StoredValues<T> | undefined, typed: Record<string, string>) {
    for (const [key, value] of [...Object.entries(stored?.values ?? {}), ...Object.entries(typed)]) this.scrubber.note(value, kindOf(canonicalKey(key)))
    this.#stored = canonical(stored?.values ?? {})
    this.#typed = canonical(typed)
    this.ssoProvider = stored?.ssoProvider
    this.totp = stored?.totp
    this.version = stored?.version
    this.places = stored?.places
  }

  /** Where the value of a field comes from, of what a person has typed first; undefined: nothing is known. */
  sourceOf(key: string, role: FieldRole): 'typed' | 'stored' | 'code' | undefined {
    if (isForOnce(role)) return this.#codes.has(canonicalKey(key)) ? 'code' : undefined
    if (lookUp(this.#typed, key, role) !== undefined) return 'typed'
    return lookUp(this.#stored, key, role) === undefined ? undefined : 'stored'
  }

  valueOf(key: string, role: FieldRole, source: 'typed' | 'stored' | 'code'): string | undefined {
    return source === 'code' ? this.#codes.get(canonicalKey(key)) : lookUp(source === 'typed' ? this.#typed : this.#stored, key, role)
  }

  /** Takes what a person has typed. An empty answer takes back what was typed before. */
  type(key: string, role: FieldRole, value: string): void {
    const into = isForOnce(role) ? this.#codes : this.#typed
    // What a box or a select takes is a word of the page.
    if (role !== 'checkbox' && role !== 'select') this.scrubber.note(value, kindOf(canonicalKey(key), role))
    if (value === '') into.delete(canonicalKey(key))
    else into.set(canonicalKey(key), value)
  }

  /** A code that was sent is not sent again. */
  forgetCodes(): void {
    this.#codes.clear()
  }

  /** What was typed and may be kept: no codes. */
  typed(): Record<string, string> {
    return Object.fromEntries(this.#typed)
  }

  /** What a page says, without values. Where it is compared with itself it stays the same. */
  scrubbed(seen: Interpretation): Interpretation {
    const { scrubber } = this
    return { ...seen, signature: scrubber.scrub(seen.signature), websiteError: seen.websiteError && scrubber.scrub(seen.websiteError) }
  }

  /** Whether a label names the user: one of their identifiers, whole. */
  isOwn(label: string): boolean {
    const words = label.toLowerCase().split(/[\s()<>,;]+/)
    return IDENTIFIERS.some((key) => [this.#typed, this.#stored].some((values) => words.includes(values.get(key)?.toLowerCase() ?? ' ')))
  }
}

function lookUp(values: ReadonlyMap<string, string>, key: string, role: FieldRole): string | undefined {
  const name = canonicalKey(key)
  const own = values.get(name)
  if (own !== undefined || role !== 'identifier') return own
  return IDENTIFIERS.map((other) => values.get(other)).find((value) => value !== undefined)
}
