// A limit on a rate: so much at once, and so much a second on average.

export interface Rate {
  perSecond: number
  atOnce: number
}

export class Bucket {
  readonly #rate: Rate
  #left: number
  #filledAt = performance.now()

  constructor(rate: Rate) {
    this.#rate = rate
    this.#left = rate.atOnce
  }

  /** Takes this much, also when it is not there. Returns how long to wait before more is taken, in milliseconds; 0 as a rule. */
  take(amount = 1): number {
    const now = performance.now()
    this.#left = Math.min(this.#rate.atOnce, this.#left + ((now - this.#filledAt) / 1000) * this.#rate.perSecond) - amount
    this.#filledAt = now
    return Math.max(0, (-this.#left / this.#rate.perSecond) * 1000)
  }
}
