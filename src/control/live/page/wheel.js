// The viewer's wheel or trackpad, in notches of the session's wheel. No movement is lost: small steps add up, and the sum is rounded.

/** What a notch scrolls in the session's Chromium, in pixels; a notch of a mouse on Linux is as much, on Windows 100. */
const NOTCH = 120
/** A mouse in Firefox tells a notch as 3 lines. */
const LINE = NOTCH / 3
/** A page of the wheel's third unit. */
const PAGE = 4 * NOTCH
/** After a pause the next movement begins anew. */
const PAUSE_MS = 400
/** Of one event; a wheel that says more means no hand. */
const MAX_NOTCHES = 20

/** Notches of one axis. */
export class Notches {
  #rest = 0
  #direction = 0
  #at = -Infinity

  /** The notches that are due with a movement, positive or negative: `delta` in the units of `mode`, as a WheelEvent has them, `now` in milliseconds. */
  add(delta, mode, now) {
    if (delta === 0) return 0
    // What is left of a movement belongs to it, not to one back or one later.
    if (Math.sign(delta) !== this.#direction || now - this.#at > PAUSE_MS) this.#rest = 0
    this.#direction = Math.sign(delta)
    this.#at = now
    this.#rest += delta * (mode === 0 ? 1 : mode === 1 ? LINE : PAGE)
    const notches = Math.round(this.#rest / NOTCH)
    this.#rest -= notches * NOTCH
    return Math.max(-MAX_NOTCHES, Math.min(MAX_NOTCHES, notches)) + 0
  }
}
