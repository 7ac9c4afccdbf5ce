// Waiting for the next change of something: many may wait, and whoever changes it rings once for all.

export class Bell {
  #next = Promise.withResolvers<void>()

  /** Wakes everybody who waits now. */
  ring(): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers()
    resolve()
  }

  /**
   * Resolves at the next ring, or rejects with the signal's reason. Between looking whether to wait and this call nothing
   * may be awaited, or a ring in between is missed.
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
