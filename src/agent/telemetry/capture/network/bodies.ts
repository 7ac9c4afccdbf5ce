// Fetches bodies of answers of one target from Chromium: a few at a time, a bounded number waits.
import type { WatchedTarget } from '../collector.ts'

/** Each is up to some megabytes on its way through the agent. */
const MAX_AT_ONCE = 8
/** Answers that wait for their body; more come without one. A page that loads a few hundred files at once has all of them. */
const MAX_WAITING = 256
/** A page that is busy answers when it can; events are not held back for long. */
const ANSWER_MS = 10_000
/** The same for all targets together, and in bytes of a second: every body holds up the agent while it is read. */
const MAX_OF_ALL = 16
const BYTES_A_SECOND = 16 * 1024 * 1024
const WINDOW_MS = 1_000

/** What all targets share. */
export class BodyGate {
  readonly #waiting: (() => void)[] = []
  #busy = 0
  #window = { until: 0, bytes: 0 }

  /** Resolves when one more may be fetched. */
  async enter(): Promise<void> {
    if (this.#busy === MAX_OF_ALL) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#busy++
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#busy--
  }

  /** Counts the bytes of one. Whether there is time for them. */
  allows(bytes: number): boolean {
    const now = performance.now()
    if (now >= this.#window.until) this.#window = { until: now + WINDOW_MS, bytes: 0 }
    if (this.#window.bytes + bytes > BYTES_A_SECOND) return false
    this.#window.bytes += bytes
    return true
  }
}

export class Bodies {
  readonly #target: WatchedTarget
  readonly #gate: BodyGate
  readonly #waiting: (() => void)[] = []
  #busy = 0

  constructor(target: WatchedTarget, gate: BodyGate) {
    this.#target = target
    this.#gate = gate
  }

  /** The body of an answer that is complete, of so many bytes; undefined when it cannot be had. Does not throw. */
  async fetch(requestId: string, bytes: number): Promise<string | undefined> {
    if (this.#busy === MAX_AT_ONCE) {
      if (this.#waiting.length === MAX_WAITING) return undefined
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else this.#busy++
    await this.#gate.enter()
    try {
      const { session, signal } = this.#target
      if (signal.aborted || !this.#gate.allows(bytes)) return undefined
      const { body, base64Encoded } = await session.send('Network.getResponseBody', { requestId }, { limitMs: ANSWER_MS, signal })
      return base64Encoded ? Buffer.from(body, 'base64').toString() : body
    } catch {
      // It has gone: the page has been left, its buffer is full, or it hangs.
      return undefined
    } finally {
      this.#gate.leave()
      const next = this.#waiting.shift()
      if (next) next()
      else this.#busy--
    }
  }
}
