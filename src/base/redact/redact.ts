// Keeps secrets out of texts: by names of headers and fields, by the forms of tokens, and by learned values.
import { findSecrets } from './find.ts'
import { makeLearned, type Origin } from './learned.ts'
import { secretKind } from './names.ts'
import { REDACTED, without } from './ranges.ts'
import { unitsOf, type Units } from './units.ts'

/** The length of a text that is searched. The rest is left out. */
const MAX_TEXT = 64 * 1024
/** A value at the cut of a text is searched for with this many characters after the cut. */
const MAX_AHEAD = 1024

/** A text that is shorter than what it was made of. */
export interface CutText {
  text: string
  isCut: boolean
}

/** The secrets of a session, in memory only. None of these methods throws. */
export interface Secrets {
  /** Learns a value that texts must not contain from now on, such as text that was typed into a password field. A stage of it is forgotten after a while. */
  learn(value: string, origin?: Origin): void
  /** Forgets the learned values: redacted parts of events must not reveal to a browser's next user what the previous one has typed. */
  forget(): void
  /** A number that changes with the learned values. */
  readonly version: number
  /** The text without learned values, and without secrets that are recognized by their form. */
  scrub(text: string): string
  /** Like {@link scrub}, then cut to this many bytes of UTF-8. No meaningful part of a secret is left at the cut. */
  scrubCut(text: string, maxBytes: number): CutText
  /** A scrubbed text without the values that were learned since. */
  scrubAgain(clean: CutText): CutText
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

  return {
    learn: learned.learn,
    forget: learned.forget,
    get version() {
      return learned.version
    },
    scrubAgain: ({ text, isCut }) => ({ text: safely(() => scrub(text, isCut)), isCut }),
    scrub: (text) => safely(() => scrub(text)),
    scrubCut(given, maxBytes) {
      // Redaction makes a text shorter, so more than the limit is searched.
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

/** Whether the end of a text announces a secret as the next text, as in `console.log('token:', token)` and `console.log('token', token)`. */
export function announcesSecret(text: string): boolean {
  const [, name] = /([\w.$-]{2,64})["'\]]{0,2} {0,4}[:=]>? {0,4}$/.exec(text.slice(-80)) ?? []
  return namesSecret(name) || (text.length <= 80 && namesSecret(/^ {0,4}([\p{L}\d_.$-]{2,64}) {0,4}$/u.exec(text)?.[1]))
}

/** The next texts that are secrets by placeholders of this one, as in `console.log('token is %s', token)`; 0 is the next. */
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

/** The beginning of a text, of at most this many bytes of UTF-8, with whole characters. */
export function cutText(text: string, maxBytes: number): CutText {
  // One unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return { text, isCut: false }
  // At most this many units can fit.
  const bytes = Buffer.from(text.slice(0, maxBytes + 1))
  if (bytes.length <= maxBytes) return { text, isCut: false }
  let end = maxBytes
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return { text: bytes.toString('utf8', 0, end), isCut: true }
}

/** An event must neither cause an exception nor leak a secret: a text that cannot be judged is left out as a whole. */
function safely(work: () => string): string {
  try {
    return work()
  } catch {
    return REDACTED
  }
}
