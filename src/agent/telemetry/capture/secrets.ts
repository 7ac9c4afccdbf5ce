// What collectors know of secrets: how to keep them out of events. The implementation is ../redact.ts.
import type { Origin } from '../redact/learned.ts'

/** A text that is shorter than what it was made of. */
export interface CutText {
  text: string
  isCut: boolean
}

/** Secrets of the session, in the agent's memory only. None of these throws. */
export interface Secrets {
  /** A value that events must not hold from now on, such as what was typed into a password field. A stage of it is forgotten after a while. */
  learn(value: string, origin?: Origin): void
  /** Forgets what was learned: a browser's next user must not find out by what is left out of their events what the one before has typed. */
  forget(): void
  /** Another number after each change of what was learned. */
  readonly version: number
  /** The text without learned values, and without what its form tells to be a secret. */
  scrub(text: string): string
  /** As {@link scrub}, then cut to so many bytes of UTF-8. No part of a secret is left at the cut. */
  scrubCut(text: string, maxBytes: number): CutText
  /** A clean text without what has been learned since. */
  scrubAgain(clean: CutText): CutText
  /** The same for all texts of an event's data; values whose key is the name of a secret are replaced. */
  scrubData<T>(data: T): T
}
