// How much of a console is told in a second.

/** Lines that are told in a second, and errors besides them: a page that writes a lot does not hide those. */
const LINES = 200
const ERRORS = 100
/** From so many lines in a second on, Chromium is asked to send none for the rest of it. Sending one costs the page some 90 µs, and reading it the agent 20 µs. */
const FLOOD = 500
/** The same in characters: texts of any length come whole. */
const FLOOD_LENGTH = 4 * 1024 * 1024
const WINDOW_MS = 1_000

export class Budget {
  #window = { until: 0, lines: 0, errors: 0, all: 0, length: 0 }

  /** Counts a line of `length` characters. Whether it may be told. */
  allows(isError: boolean, length: number): boolean {
    const now = performance.now()
    if (now >= this.#window.until) this.#window = { until: now + WINDOW_MS, lines: 0, errors: 0, all: 0, length: 0 }
    const window = this.#window
    window.all++
    window.length += length
    // One line alone is told, however long it is.
    if (window.length > FLOOD_LENGTH && window.all > 1) return false
    return isError ? window.errors++ < ERRORS : window.lines++ < LINES
  }

  /** Whether there are so many that it is cheaper not to listen; and for how long then. */
  get floodedMs(): number | undefined {
    return this.#window.all >= FLOOD || this.#window.length > FLOOD_LENGTH ? Math.max(0, this.#window.until - performance.now()) : undefined
  }
}
