// A rate limit: a burst, and an average per second.

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

  /** Takes this amount, even when it is not available. Returns the wait before more is taken, in milliseconds; 0 as a rule. */
  take(amount = 1): number {
    const now = performance.now()
    this.#left = Math.min(this.#rate.atOnce, this.#left + ((now - this.#filledAt) / 1000) * this.#rate.perSecond) - amount
    this.#filledAt = now
    return Math.max(0, (-this.#left / this.#rate.perSecond) * 1000)
  }
}
