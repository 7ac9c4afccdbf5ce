// The calls of callers who have a browser of a pool. They end when it is given back: nothing of one caller may act on the browser of the next.
import { fault } from '../../http/fault.ts'
import type { EndStep } from './end-step.ts'

export class OpenCalls {
  readonly #ends = new Map<string, AbortController>()
  readonly #updates = new Map<string, number>()

  /** Aborts when the browser is given back. */
  signalOf(id: string): AbortSignal {
    const end = this.#ends.get(id) ?? new AbortController()
    this.#ends.set(id, end)
    return end.signal
  }

  /** Does an update of a session, which does not keep it from timing out. */
  async updating<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#updates.set(id, this.updates(id) + 1)
    try {
      return await work()
    } finally {
      const left = this.updates(id) - 1
      if (left === 0) this.#updates.delete(id)
      else this.#updates.set(id, left)
    }
  }

  /** Updates of a session that are under way. */
  updates(id: string): number {
    return this.#updates.get(id) ?? 0
  }

  /** The step of an end, and of giving a browser back. */
  readonly step: EndStep = {
    name: 'calls',
    limitMs: 1_000,
    mayFail: true,
    run: ({ id }) => {
      this.end(id)
      return undefined
    },
  }

  /** Ends the calls of a browser that is given back, or has ended. */
  end(id: string): void {
    this.#ends.get(id)?.abort(fault.notFound('browser', id))
    this.#ends.delete(id)
  }
}
