// Waits for the next change of something. Many callers may wait; the one that makes a change rings once for all of them.

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
  async heard(signal: AbortSignal): Promise<void> {
    const next = this.#next.promise
    signal.throwIfAborted()
    const { promise: left, reject } = Promise.withResolvers<never>()
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await Promise.race([next, left])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}
