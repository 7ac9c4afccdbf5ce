// Waits for the next change of something. Many callers may wait; the one that makes a change rings once for all of them.
import { abortable } from './wait.ts'

export class Bell {
  #next = Promise.withResolvers<void>()

  /** Wakes every present waiter. */
  ring(): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers()
    resolve()
  }

  /**
   * Resolves at the next ring, or rejects with the signal's reason. Do not await anything between the check and this call: a ring in between
   * would be missed.
   */
  heard(signal: AbortSignal): Promise<void> {
    return abortable(this.#next.promise, signal)
  }
}
