// A lock that serves its callers in the order in which they came.

export class Mutex {
  #tail: Promise<void> = Promise.resolve()

  /** Runs `work` when every earlier caller has finished; a caller whose signal aborts while waiting leaves the queue. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#tail
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#tail = before.then(() => promise)
    try {
      await before
      signal?.throwIfAborted()
      return await work()
    } finally {
      resolve()
    }
  }
}
