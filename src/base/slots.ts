// Slots for work of which only so much may be under way at once. Free ones are given in the order of arrival.
import { abortable } from './wait.ts'

export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** Whether the next caller has to wait. */
  get areTaken(): boolean {
    return this.#free === 0
  }

  /** Runs `work` in a slot. A caller whose signal aborts while it waits leaves the queue at once. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#wait(signal)
    try {
      return await work()
    } finally {
      this.#leave()
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    try {
      await abortable(promise, signal)
    } catch (error) {
      // It may have been given a slot in the same moment.
      if (!this.#waiting.delete(resolve)) this.#leave()
      throw error
    }
  }

  #leave(): void {
    const [next] = this.#waiting
    if (!next) return void this.#free++
    this.#waiting.delete(next)
    next()
  }
}
