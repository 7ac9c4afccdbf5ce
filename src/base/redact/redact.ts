// Keeps secrets out of texts: by names of headers and fields, by the forms of tokens, and values that are known to be secrets.
import { findSecrets } from './find.ts'
import { makeLearned, type Origin } from './learned.ts'
import { secretKind } from './names.ts'
import { REDACTED, without } from './ranges.ts'
import { unitsOf, type Units } from './units.ts'

/** Texts of one object that are looked at, in characters. What is beyond this is left out. */
const MAX_TEXT = 64 * 1024
const MAX_DEPTH = 16
/** A value at the cut of a text is looked for with so much after it. */
const MAX_AHEAD = 1024

/** A text that is shorter than what it was made of. */
export interface CutText {
  text: string
  isCut: boolean
}

/** Secrets of a session, in memory only. None of these throws. */
export interface Secrets {
  /** A value that texts must not hold from now on, such as what was typed into a password field. A stage of it is forgotten after a while. */
  learn(value: string, origin?: Origin): void
  /** Forgets what was learned: a browser's next user must not find out by what is left out of their events what the one before has typed. */
  forget(): void
  /** Another number after each change of what was learned. */
  readonly version: number
  /** The text without learned values, and without what its form tells to be a secret. */
  scrub(text: string): string
  /** As {@link scrub}, then cut to so many bytes of UTF-8. No part of a secret that tells something is left at the cut. */
  scrubCut(text: string, maxBytes: number): CutText
  /** A clean text without what has been learned since. */
  scrubAgain(clean: CutText): CutText
  /** The same for all texts of an object; values whose key is the name of a secret are replaced. */
  scrubData<T>(data: T): T
}

/** Secrets of one session. */
export function makeSecrets(): Secrets {
  const learned = makeLearned()

  function scrub(given: string, wasCut = false): string {
    if (given.length < 2) return given
    const text = given.slice(0, MAX_TEXT)
    let made: Units | undefined
    const units = () => (made ??= unitsOf(text))
    return without(text, [...learned.find(text, wasCut || given.length > MAX_TEXT, units), ...findSecrets(text, units)])
  }

  function scrubAll(value: unknown, left: { length: number }, depth: number): unknown {
    if (typeof value === 'string') {
      left.length -= value.length
      return left.length < 0 ? REDACTED : scrub(value)
    }
    if (typeof value !== 'object' || value === null) return value
    if (depth > MAX_DEPTH) return REDACTED
    if (Array.isArray(value)) return value.map((one) => scrubAll(one, left, depth + 1))
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, isSecret(key, one) ? REDACTED : scrubAll(one, left, depth + 1)]))
  }

  return {
    learn: learned.learn,
    forget: learned.forget,
    get version() {
      return learned.version
    },
    scrubAgain: ({ text, isCut }) => ({ text: safely(() => scrub(text, isCut)), isCut }),
    scrub: (text) => safely(() => scrub(text)),
    scrubData: <T>(data: T) => safely(() => scrubAll(data, { length: MAX_TEXT }, 0)) as T,
    scrubCut(given, maxBytes) {
      // What is redacted makes a text shorter, so more than the limit is looked at.
      const most = Math.min(MAX_TEXT, 2 * maxBytes + MAX_AHEAD)
      const isLong = given.length > most
      const { text, isCut } = cutText(
        safely(() => scrub(given.slice(0, most), isLong)),
        maxBytes,
      )
      return { text, isCut: isLong || isCut }
    },
  }
}

/** Whether a text ends as if the next one was a secret, as in `console.log('token:', token)` and `console.log('token', token)`. */
export function announcesSecret(text: string): boolean {
  const [, name] = /([\w.$-]{2,64})["'\]]{0,2} {0,4}[:=]>? {0,4}$/.exec(text.slice(-80)) ?? []
  return namesSecret(name) || (text.length <= 80 && namesSecret(/^ {0,4}([\p{L}\d_.$-]{2,64}) {0,4}$/u.exec(text)?.[1]))
}

/** Which of the next texts are secrets by their places in this one, as in `console.log('token is %s', token)`; 0 is the next. */
export function announcedPlaces(text: string): Set<number> {
  const before = text
    .slice(0, 4096)
    .replaceAll('%%', '')
    .split(/%[sdifoOcj]/)
  const places = before.slice(0, -1).map((part, place) => {
    const [, name] = /([\w.$-]{2,64})["'\]]{0,2} {0,4}(?:[:=]>?|->|is|was)? {0,4}["'(<[]?$/.exec(part.slice(-96)) ?? []
    return namesSecret(name) ? place : -1
  })
  return new Set(places.filter((place) => place >= 0))
}

const namesSecret = (name: string | undefined): boolean => name !== undefined && secretKind(name) !== undefined

/** The beginning of a text, of at most so many bytes of UTF-8, with whole characters. */
export function cutText(text: string, maxBytes: number): CutText {
  // Three bytes is the most that one unit takes.
  if (text.length * 3 <= maxBytes) return { text, isCut: false }
  // Only so many units can fit.
  const bytes = Buffer.from(text.slice(0, maxBytes + 1))
  if (bytes.length <= maxBytes) return { text, isCut: false }
  let end = maxBytes
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return { text: bytes.toString('utf8', 0, end), isCut: true }
}

/** Whether a field's value is left out by its name. */
function isSecret(name: string, value: unknown): boolean {
  const kind = secretKind(name)
  if (kind === undefined || value === null || typeof value === 'boolean') return false
  return typeof value === 'number' ? kind !== 'tokens' : typeof value === 'string' || Array.isArray(value) || kind !== 'value'
}

/** An event is not worth an exception, nor a secret: when a text cannot be judged, all of it is left out. */
function safely<T>(work: () => T): T | string {
  try {
    return work()
  } catch {
    return REDACTED
  }
}
