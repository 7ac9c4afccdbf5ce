// A lock that serves its callers in their order of arrival.

export class Mutex {
  #tail: Promise<void> = Promise.resolve()

  /** Runs `work` when every earlier caller has finished; a caller whose signal aborts while waiting leaves the queue at once. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#tail
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#tail = before.then(() => promise)
    try {
      await turn(before, signal)
      return await work()
    } finally {
      resolve()
    }
  }
}

/** A lock for each key. */
export class Mutexes {
  readonly #held = new Map<string, { mutex: Mutex; users: number }>()

  /** As {@link Mutex.run}, among callers with the same key. */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const held = this.#held.get(key) ?? { mutex: new Mutex(), users: 0 }
    this.#held.set(key, held)
    held.users++
    try {
      return await held.mutex.run(work, signal)
    } finally {
      if (--held.users === 0) this.#held.delete(key)
    }
  }
}

async function turn(before: Promise<void>, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  const { promise: left, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal?.reason)
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([before, left])
    signal?.throwIfAborted()
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
}
