// Keeps the values of a flow out of what is stored and shown in plain text: the words of a site, addresses, labels. No site is trusted to leave them out.
import { makeLearned, type Learned } from '../../../../base/redact/learned.ts'
import { without } from '../../../../base/redact/ranges.ts'
import type { FieldRole } from './interpretation.ts'

/** Other values than names, passwords and codes are found from this length on. A shorter one would take parts of other words with it. */
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

  /** Takes a value that must not be told from now on. It is never forgotten: a site may repeat a code that was used. */
  note(value: string, kind: Kind): void {
    if (kind === 'other' && value.trim().length < LEAST_OTHER) return
    this.#all.learn(value, { isKnown: true })
    if (kind === 'password' || kind === 'once') this.#secrets.learn(value, { isKnown: true })
  }

  /** The text with a mark in place of each value. */
  scrub(text: string): string {
    return without(text, find(this.#all, text))
  }

  holds(text: string): boolean {
    return find(this.#all, text).length > 0
  }

  /** Whether it has a password or a code in it. */
  holdsSecret(text: string): boolean {
    return find(this.#secrets, text).length > 0
  }

  /** The address without query and fragment when there is a value in it; when its path has one, only the origin. */
  address(url: string): string {
    if (!this.holds(url)) return url
    if (!URL.canParse(url)) return this.scrub(url)
    const { origin, pathname } = new URL(url)
    return origin + (this.holds(pathname) ? '/' : pathname)
  }
}

const find = (values: Learned, text: string) => values.find(text, text.length >= MAY_BE_CUT)
