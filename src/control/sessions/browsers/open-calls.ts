// The open calls of callers who have a browser of a pool. They end when the browser is given back, so that no call of one caller acts on the browser of the
// next.
import { fault } from '../../../http/fault.ts'
import type { AcquiredSession } from '../../../http/route.ts'
import type { EndStep } from './end-step.ts'

export class OpenCalls {
  /** By browser, then by lease. */
  readonly #ends = new Map<string, Map<number, AbortController>>()
  readonly #updates = new Map<string, number>()

  /** Aborts when this caller gives the browser back. */
  signalOf({ id, lease }: AcquiredSession): AbortSignal {
    const ends = this.#ends.get(id) ?? new Map<number, AbortController>()
    this.#ends.set(id, ends)
    const end = ends.get(lease) ?? new AbortController()
    ends.set(lease, end)
    return end.signal
  }

  /** Runs an update of a session. Unlike other calls, an update does not keep the session from timing out. */
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

  /** Number of running updates of a session. */
  updates(id: string): number {
    return this.#updates.get(id) ?? 0
  }

  /** The step that ends the calls when a session ends. */
  readonly step: EndStep = {
    name: 'calls',
    limitMs: 1_000,
    mayFail: true,
    run: ({ id }) => {
      this.end(id)
      return undefined
    },
  }

  /** Ends the calls of a browser that has ended. With `lease`: only those of the caller who has given it back. */
  end(id: string, lease?: number): void {
    for (const [one, end] of this.#ends.get(id) ?? [])
      if (lease === undefined || one === lease) {
        end.abort(fault.notFound('browser', id))
        this.#ends.get(id)!.delete(one)
      }
    if (this.#ends.get(id)?.size === 0) this.#ends.delete(id)
  }
}
