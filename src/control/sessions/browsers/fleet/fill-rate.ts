// Limits how fast an owned pool boots browsers for which no caller waits.
import type { PoolCount } from '../pooled-rows.ts'

const MINUTE_MS = 60_000

type Counted = Pick<PoolCount, 'size' | 'rate' | 'there' | 'discarded'>

/**
 * A token bucket. Browsers of a new pool, browsers for its growth, and replacements of discarded ones are booted at once. All others use a token; the bucket
 * holds as many as the pool's size. All times are in milliseconds of one monotonic clock.
 */
export class FillRate {
  #size: number
  #rate: number
  /** Number of boots that need no token. */
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
    // Discarded browsers above a reduced size are not replaced.
    const surplus = Math.max(0, before.there - size)
    const anew = Math.max(0, size - before.size) + Math.max(0, discarded - before.discarded - surplus)
    this.#free = Math.min(size, this.#free + anew)
    this.#size = size
    this.#rate = rate
  }

  /** How long a boot for which no caller waits must be delayed, in milliseconds. Infinity when none may ever begin. */
  pauseMs(now: number): number {
    this.#refill(now)
    if (this.#free > 0 || this.#tokens >= 1) return 0
    return this.#perMs > 0 ? (1 - this.#tokens) / this.#perMs : Infinity
  }

  /** A boot begins. Returns the undo, for a boot that fails. */
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
