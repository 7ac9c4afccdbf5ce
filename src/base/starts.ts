// Limits how many instances or sandboxes start at once: one per processor. Starts that a caller waits for come before the others.
import { addAbortListener } from 'node:events'
import { availableParallelism } from 'node:os'

interface Waiting {
  go: () => void
  isUrgent: boolean
}

export class Starts {
  #free: number
  readonly #waiting: Waiting[] = []

  constructor(atOnce = availableParallelism()) {
    this.#free = atOnce
  }

  /** Does `work` in its turn. Leaves the queue when `signal` aborts. */
  async run<T>(isUrgent: boolean, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    using _ = await this.enter(isUrgent, signal)
    signal.throwIfAborted()
    return await work()
  }

  /** Resolves when it is the caller's turn, which lasts until the result is disposed. Leaves the queue when `signal` aborts. */
  async enter(isUrgent: boolean, signal: AbortSignal): Promise<Disposable> {
    await this.#turn(isUrgent, signal)
    return { [Symbol.dispose]: () => this.#next() }
  }

  async #turn(isUrgent: boolean, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free--
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { go: resolve, isUrgent }
    const ahead = isUrgent ? this.#waiting.findIndex((other) => !other.isUrgent) : -1
    this.#waiting.splice(ahead === -1 ? this.#waiting.length : ahead, 0, waiting)
    using _aborted = addAbortListener(signal, () => {
      const at = this.#waiting.indexOf(waiting)
      if (at === -1) return
      this.#waiting.splice(at, 1)
      reject(signal.reason as Error)
    })
    await promise
  }

  #next(): void {
    const next = this.#waiting.shift()
    if (next) next.go()
    else this.#free++
  }
}
