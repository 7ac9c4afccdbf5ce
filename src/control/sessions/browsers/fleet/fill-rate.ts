// How fast the browsers of an owned pool are made when no caller waits for them.
import type { PoolCount } from '../pooled-rows.ts'

const MINUTE_MS = 60_000

type Counted = Pick<PoolCount, 'size' | 'rate' | 'there' | 'discarded'>

/**
 * A new pool, what it grows by and what it wants made anew come at once. What ends otherwise is replaced at the pool's rate, a whole pool's worth at once after a pause. All
 * times are in milliseconds of one clock that never goes back.
 */
export class FillRate {
  #size: number
  #rate: number
  /** Boots that do not count for the rate. */
  #free: number
  #tokens: number
  #at: number

  constructor({ size, rate }: Counted, now: number) {
    this.#size = this.#free = size
    this.#rate = rate
    this.#tokens = this.#most
    this.#at = now
  }

  get #most(): number {
    return this.#rate > 0 ? this.#size : 0
  }

  get #perMs(): number {
    return (this.#size * this.#rate) / 100 / MINUTE_MS
  }

  update(before: Counted, { size, rate, discarded }: Counted, now: number): void {
    this.#refill(now)
    // Those beyond a size that has become smaller are not made anew.
    const surplus = Math.max(0, before.there - size)
    const anew = Math.max(0, size - before.size) + Math.max(0, discarded - before.discarded - surplus)
    this.#free = Math.min(size, this.#free + anew)
    this.#size = size
    this.#rate = rate
  }

  /** How long a boot that no caller waits for has to wait; Infinity when none may ever begin. */
  pauseMs(now: number): number {
    this.#refill(now)
    if (this.#free > 0 || this.#tokens >= 1) return 0
    return this.#perMs > 0 ? (1 - this.#tokens) / this.#perMs : Infinity
  }

  /** A boot begins. What this returns takes that back, for a boot that comes to nothing. */
  began(): () => void {
    if (this.#free > 0) {
      this.#free--
      return () => void (this.#free = Math.min(this.#size, this.#free + 1))
    }
    const used = Math.min(1, this.#tokens)
    this.#tokens -= used
    return () => void (this.#tokens = Math.min(this.#most, this.#tokens + used))
  }

  #refill(now: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + (now - this.#at) * this.#perMs)
    this.#at = now
  }
}
