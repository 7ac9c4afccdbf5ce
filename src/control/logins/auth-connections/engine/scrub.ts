// Keeps the values of a flow out of data that is stored and shown in plain text: texts of a site, addresses, labels. Any site may repeat them there.
import { makeLearned, type Learned } from '../../../../base/redact/learned.ts'
import { without } from '../../../../base/redact/ranges.ts'
import type { FieldRole } from './interpretation.ts'

/** Shortest length of values other than names, passwords and codes. A shorter one would also match parts of other words. */
const LEAST_OTHER = 4
/** The shortest limit at which texts of pages are cut. The end of a longer text may be the beginning of a value. */
const MAY_BE_CUT = 80

export const IDENTIFIERS: readonly string[] = ['username', 'email', 'phone']

/** `once`: a code. */
type Kind = 'password' | 'once' | 'identifier' | 'other'

export function kindOf(key: string, role?: FieldRole): Kind {
  if (role === 'code' || role === 'totp_code') return 'once'
  if (role === 'password' || key.includes('password')) return 'password'
  return role === 'identifier' || IDENTIFIERS.includes(key) ? 'identifier' : 'other'
}

export class Scrubber {
  readonly #all = makeLearned()
  /** Passwords and codes. */
  readonly #secrets = makeLearned()

  /** Adds a value to mask. It is never removed: a site may repeat a used code. */
  note(value: string, kind: Kind): void {
    if (kind === 'other' && value.trim().length < LEAST_OTHER) return
    this.#all.learn(value, { isKnown: true })
    if (kind === 'password' || kind === 'once') this.#secrets.learn(value, { isKnown: true })
  }

  /** The text with each value replaced by a mark. */
  scrub(text: string): string {
    return without(text, find(this.#all, text))
  }

  holds(text: string): boolean {
    return find(this.#all, text).length > 0
  }

  /** Whether it contains a password or a code. */
  holdsSecret(text: string): boolean {
    return find(this.#secrets, text).length > 0
  }

  /** The address without query and fragment if these contain a value; only the origin if its path does. */
  address(url: string): string {
    if (!this.holds(url)) return url
    if (!URL.canParse(url)) return this.scrub(url)
    const { origin, pathname } = new URL(url)
    return origin + (this.holds(pathname) ? '/' : pathname)
  }
}

const find = (values: Learned, text: string) => values.find(text, text.length >= MAY_BE_CUT)
