// The values of one flow, only in its worker's memory: from a stored credential, a provider, and a person. Finds the value for a field.
import type { FieldRole, Interpretation } from './interpretation.ts'
import { IDENTIFIERS, kindOf, Scrubber } from './scrub.ts'

/** What a proxy can read. `plain`: pages without TLS. `all`: its authorities sign for any site. */
export type ProxyReads = 'nothing' | 'plain' | 'all'

/** Where an item of a provider may be typed, if the connection's caller may use it only there. */
export interface ItemPlaces {
  /** Patterns of the hosts in its URLs, in addition to the connection's domain. */
  hosts: readonly string[]
  /** The part of the traffic that the browser's proxy can read; the caller has chosen the proxy. */
  proxyReads: ProxyReads
}

/** A TOTP secret; this file only needs its period. */
export interface Totp {
  period: number
}

export interface StoredValues<T extends Totp = Totp> {
  /** Identifies these values. */
  version: string
  values: Record<string, string>
  ssoProvider: string | undefined
  totp: T | undefined
  /** Where they may be typed; undefined: wherever the connection allows it. */
  places?: ItemPlaces | undefined
}

/** Other names of keys, as people and stores write them. */
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
    // The exact key takes precedence over another name for it.
    if (value !== '' && (name === key || !found.has(name))) found.set(name, value)
  }
  return found
}

/** Codes, and boxes that confirm something, are not part of a credential. */
const isForOnce = (role: FieldRole): boolean => role === 'code' || role === 'totp_code' || role === 'checkbox'

export class SecretResolver<T extends Totp = Totp> {
  readonly #stored: Map<string, string>
  readonly #typed: Map<string, string>
  /** Codes are for one use, and never stored. */
  readonly #codes = new Map<string, string>()
  /** Keeps all values of the flow, and masks them in data that is stored or shown. */
  readonly scrubber = new Scrubber()
  readonly ssoProvider: string | undefined
  readonly totp: T | undefined
  /** The version of the stored values; undefined when there are none. */
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

  /** The source of a field's value, typed values first; undefined when none is known. */
  sourceOf(key: string, role: FieldRole): 'typed' | 'stored' | 'code' | undefined {
    if (isForOnce(role)) return this.#codes.has(canonicalKey(key)) ? 'code' : undefined
    if (lookUp(this.#typed, key, role) !== undefined) return 'typed'
    return lookUp(this.#stored, key, role) === undefined ? undefined : 'stored'
  }

  valueOf(key: string, role: FieldRole, source: 'typed' | 'stored' | 'code'): string | undefined {
    return source === 'code' ? this.#codes.get(canonicalKey(key)) : lookUp(source === 'typed' ? this.#typed : this.#stored, key, role)
  }

  /** Adds a person's value. An empty answer removes the earlier one. */
  type(key: string, role: FieldRole, value: string): void {
    const into = isForOnce(role) ? this.#codes : this.#typed
    // The value of a box or a select is a word of the page.
    if (role !== 'checkbox' && role !== 'select') this.scrubber.note(value, kindOf(canonicalKey(key), role))
    if (value === '') into.delete(canonicalKey(key))
    else into.set(canonicalKey(key), value)
  }

  /** A sent code is not sent again. */
  forgetCodes(): void {
    this.#codes.clear()
  }

  /** Typed values that may be stored: without codes. */
  typed(): Record<string, string> {
    return Object.fromEntries(this.#typed)
  }

  /** A page's texts without values. The same page gives the same result, so that pages can be compared. */
  scrubbed(seen: Interpretation): Interpretation {
    const { scrubber } = this
    return { ...seen, signature: scrubber.scrub(seen.signature), websiteError: seen.websiteError && scrubber.scrub(seen.websiteError) }
  }

  /** Whether a label names the user: it equals one of their identifiers. */
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
