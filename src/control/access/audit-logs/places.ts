// Limits how much work runs at the same time, for all callers together and for each one.
import { fault } from '../../../http/fault.ts'

const RETRY_SECONDS = 2

export interface Most {
  ofAll: number
  ofOne: number
}

export class Places {
  readonly #most: Most
  /** Name of the limited work, in the plural, for the error text. */
  readonly #what: string
  readonly #taken = new Map<string, number>()

  constructor(most: Most, what: string) {
    this.#most = most
    this.#what = what
  }

  /** Takes a place until the result is disposed; disposing it twice is harmless. @throws 429 */
  take(caller: string): Disposable {
    const own = this.#taken.get(caller) ?? 0
    const all = [...this.#taken.values()].reduce((sum, one) => sum + one, 0)
    const isOwnFull = own >= this.#most.ofOne
    if (isOwnFull || all >= this.#most.ofAll)
      throw fault.tooMany(`${isOwnFull ? `this key has ${own}` : `there are ${all}`} ${this.#what} under way already`, RETRY_SECONDS)
    this.#taken.set(caller, own + 1)
    const place = new DisposableStack()
    place.defer(() => this.#free(caller))
    return place
  }

  #free(caller: string): void {
    const left = this.#taken.get(caller)! - 1
    if (left === 0) this.#taken.delete(caller)
    else this.#taken.set(caller, left)
  }
}
