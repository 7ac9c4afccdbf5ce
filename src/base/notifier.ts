// Waits for the next change of something. Many callers may wait; the caller that makes a change notifies all of them at once.
import { addAbortListener } from 'node:events'

export class Notifier {
  /** Not reactions to one promise: the reactions of waiters that have left would stay until the next notification, which may never come. */
  readonly #waiters = new Set<() => void>()

  /** The number of waiters. */
  get waiting(): number {
    return this.#waiters.size
  }

  /** Wakes every present waiter. */
  notify(): void {
    const present = [...this.#waiters]
    this.#waiters.clear()
    for (const wake of present) wake()
  }

  /**
   * Resolves at the next notification, or rejects with the signal's reason. Do not await anything between the check and this call: a notification in between
   * would be missed.
   */
  next(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = () => {
      this.#waiters.delete(wake)
      reject(signal.reason)
    }
    const left = addAbortListener(signal, leave)
    const wake = () => {
      left[Symbol.dispose]()
      resolve()
    }
    if (!signal.aborted) this.#waiters.add(wake)
    return promise
  }
}
