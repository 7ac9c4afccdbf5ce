// Turns the viewer's wheel or trackpad into notches of the session's wheel. No movement is lost: small steps are added up, and the sum is rounded.

/** The pixels that one notch scrolls in the session's Chromium. A mouse notch has the same on Linux, and 100 on Windows. */
const NOTCH = 120
/** Firefox reports a mouse notch as 3 lines. */
const LINE = NOTCH / 3
/** The pixels of one page, the third unit of wheel events. */
const PAGE = 4 * NOTCH
/** After a pause of this length the next movement starts at zero. */
const PAUSE_MS = 400
/** The limit per event: no hand scrolls more at once. */
const MAX_NOTCHES = 20

/** Counts the notches of one axis. */
export class Notches {
  #rest = 0
  #direction = 0
  #at = -Infinity

  /** The notches of a movement, positive or negative. `delta` is in the units of `mode`, as in a WheelEvent; `now` is in milliseconds. */
  add(delta: number, mode: number, now: number): number {
    if (delta === 0) return 0
    // A remainder does not count for a movement in the other direction or for a later one.
    if (Math.sign(delta) !== this.#direction || now - this.#at > PAUSE_MS) this.#rest = 0
    this.#direction = Math.sign(delta)
    this.#at = now
    this.#rest += delta * (mode === 0 ? 1 : mode === 1 ? LINE : PAGE)
    const notches = Math.round(this.#rest / NOTCH)
    this.#rest -= notches * NOTCH
    return Math.max(-MAX_NOTCHES, Math.min(MAX_NOTCHES, notches)) + 0
  }
}
