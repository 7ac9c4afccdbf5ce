// A lock that serves its callers in their order of arrival.
import { abortable } from './wait.ts'

export class Mutex {
  #tail: Promise<void> = Promise.resolve()

  /** Runs `work` when every earlier caller has finished; a caller whose signal aborts while waiting leaves the queue at once. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#tail
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#tail = before.then(() => promise)
    try {
      await abortable(before, signal)
      signal?.throwIfAborted()
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
