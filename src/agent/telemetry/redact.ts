// Keeps secrets out of events: by names of headers and fields, by the forms of tokens, and values that were typed into password fields.
import type { CutText, Secrets } from './capture/secrets.ts'
import { findSecrets } from './redact/find.ts'
import { makeLearned } from './redact/learned.ts'
import { secretKind } from './redact/names.ts'
import { REDACTED, without } from './redact/ranges.ts'

/** Texts of one event that are looked at, in characters. A longer event is not kept as a whole anyway (MAX_EVENT); what is beyond this is left out. */
const MAX_EVENT_TEXT = 64 * 1024
const MAX_DEPTH = 16

export type { CutText } from './capture/secrets.ts'
export type Redaction = Secrets

/** Secrets of one session. */
export function makeSecrets(): Redaction {
  const learned = makeLearned()

  function scrub(given: string): string {
    if (given.length < 2) return given
    const text = given.length > MAX_EVENT_TEXT ? given.slice(0, MAX_EVENT_TEXT) : given
    const clean = without(text, [...learned.find(text), ...findSecrets(text)])
    return text.length === given.length ? clean : withoutEnd(clean)
  }

  /** A text that was cut may end with the beginning of a learned value, which is not found. */
  const withoutEnd = (text: string): string => text.slice(0, Math.max(0, text.length - learned.longest))

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
    scrubAgain({ text, isCut }) {
      const clean = safely(() => scrub(text))
      return { text: isCut ? withoutEnd(clean) : clean, isCut }
    },
    scrub: (text) => safely(() => scrub(text)),
    scrubData: <T>(data: T) => safely(() => scrubAll(data, { length: MAX_EVENT_TEXT }, 0)) as T,
    scrubCut(given, maxBytes) {
      // What is redacted makes a text shorter, so more than the limit is looked at.
      const most = Math.min(MAX_EVENT_TEXT, 2 * maxBytes + learned.longest)
      const isLong = given.length > most
      const clean = safely(() => scrub(isLong ? given.slice(0, most) : given))
      const { text, isCut } = cutText(isLong ? withoutEnd(clean) : clean, maxBytes)
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
export function isSecret(name: string, value: unknown): boolean {
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
