// The last output of a program, kept in memory.
import { Notifier } from '../../base/notifier.ts'

/** Bytes kept of one program. */
const KEPT_BYTES = 256 * 1024
/** Most bytes of one line. */
const MAX_LINE = 16 * 1024
/** The cost of a line in addition to its text, so that empty lines count, too. */
const LINE_COST = 100

export interface Said {
  text: string
  at: Date
}

export class LogRing {
  readonly #notifier = new Notifier()
  readonly #limit: number
  #lines: Said[] = []
  #bytes = 0
  /** Number of dropped lines. */
  #gone = 0

  constructor(limit = KEPT_BYTES) {
    this.#limit = limit
  }

  add(line: string): void {
    const text = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line
    this.#lines.push({ text, at: new Date() })
    this.#bytes += cost(text)
    while (this.#bytes > this.#limit && this.#lines.length > 1) {
      this.#bytes -= cost(this.#lines.shift()!.text)
      this.#gone++
    }
    this.#notifier.notify()
  }

  /** With `follow`, yields the lines from now on; without it, the kept lines. A reader that is too slow gets a line with the number of missed lines. */
  read(follow: boolean, signal: AbortSignal): AsyncGenerator<Said> {
    // Compute it now, not when the first line is requested: by then there may be newer ones.
    const end = this.#gone + this.#lines.length
    return this.#from(follow ? end : this.#gone, follow ? Infinity : end, signal)
  }

  async *#from(next: number, end: number, signal: AbortSignal): AsyncGenerator<Said> {
    while (next < end) {
      if (next < this.#gone) {
        const text = `[${this.#gone - next} lines were dropped before they were read]`
        next = this.#gone
        yield { text, at: new Date() }
      } else if (next < this.#gone + this.#lines.length) yield this.#lines[next++ - this.#gone]!
      else await this.#notifier.next(signal)
    }
  }
}

/** JavaScript needs up to two bytes per character. */
const cost = (text: string): number => text.length * 2 + LINE_COST
