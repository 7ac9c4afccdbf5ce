// Slots that limit concurrent work. Free slots are given in the order of arrival, to urgent work first.
import { addAbortListener } from 'node:events'

interface Waiting {
  go: () => void
  isUrgent: boolean
}

export class Slots {
  /** All slots, free or not. */
  readonly size: number
  #free: number
  readonly #waiting: Waiting[] = []

  constructor(count: number) {
    this.size = count
    this.#free = count
  }

  /** Whether the next caller has to wait. */
  get areTaken(): boolean {
    return this.#free === 0
  }

  /** Runs `work` in a slot. A caller whose signal aborts while it waits leaves the queue at once. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal, isUrgent = false): Promise<T> {
    signal?.throwIfAborted()
    // Taken at once when a slot is free, so that no later caller finds it free.
    if (this.#free > 0) this.#free--
    else await this.#wait(signal, isUrgent)
    try {
      signal?.throwIfAborted()
      return await work()
    } finally {
      this.#leave()
    }
  }

  /** Resolves when the caller has a slot, which it keeps until the result is disposed. Otherwise like {@link run}. */
  async enter(signal?: AbortSignal, isUrgent = false): Promise<Disposable> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#wait(signal, isUrgent)
    return { [Symbol.dispose]: () => this.#leave() }
  }

  async #wait(signal: AbortSignal | undefined, isUrgent: boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { go: resolve, isUrgent }
    const ahead = isUrgent ? this.#waiting.findIndex((other) => !other.isUrgent) : -1
    this.#waiting.splice(ahead === -1 ? this.#waiting.length : ahead, 0, waiting)
    using _aborted =
      signal &&
      addAbortListener(signal, () => {
        const at = this.#waiting.indexOf(waiting)
        if (at === -1) return // it was given a slot in the same moment
        this.#waiting.splice(at, 1)
        reject(signal.reason as Error)
      })
    await promise
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) next.go()
    else this.#free++
  }
}
