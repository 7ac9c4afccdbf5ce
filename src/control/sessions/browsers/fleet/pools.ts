// What the warm pool knows of pools: how many browsers each may have, how fast they come, and how one is made.
import type { InstanceSpec } from '../../../../instances/driver.ts'
import type { BrowserRow } from '../rows.ts'
import type { PoolCount, PoolOwnership } from '../pooled-rows.ts'

const MINUTE_MS = 60_000
/** Most browsers of one pool that are made at the same time: one whose profile or extensions hang must not keep the others waiting. */
const AT_ONCE = 4

/** How the next browser of a pool is made. */
export interface PoolBoot {
  ownership: PoolOwnership
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen'>
  /** Gives a booted browser, by its row, all that its sessions want. @throws when it does not take that */
  configure(row: BrowserRow, signal: AbortSignal): Promise<void>
}

/** The browser of a pool could not be made. The cause says why; what of it callers may know is said by whoever answers them. */
export class PoolBootFailed extends Error {
  override name = 'PoolBootFailed'
}

/** Where the warm pool learns of pools. */
export interface PoolSource {
  /** The pools whose browsers this scope keeps, and how many are left of deleted ones. */
  counts(): Promise<{ pools: PoolCount[]; orphans: number }>
  /** Undefined when the pool was deleted. @throws a fault when its configuration names what does not exist any more */
  plan(pool: string): Promise<PoolBoot | undefined>
  /** Records that a browser of the pool could be made, or why not. Does not wait. */
  made(pool: string, error: unknown): void
}

/**
 * The browsers that a pool may have, and how fast they are made when no caller waits for them. A new pool, what it grows by and what it wants made anew come at
 * once. What ends otherwise is replaced at the pool's rate, a whole pool's worth at once after a pause. All times are in milliseconds of one clock that never goes back.
 */
export class PoolShare {
  #count: PoolCount
  /** Boots that do not count for the rate. */
  #free: number
  #tokens: number
  #at: number
  /** Whether the database has refused another one since the last count. */
  #isFull = false

  constructor(count: PoolCount, now: number) {
    this.#count = count
    this.#free = count.size
    this.#tokens = this.#most
    this.#at = now
  }

  get size(): number {
    return this.#count.size
  }

  get idle(): number {
    return this.#count.idle
  }

  /** Seats that it takes: those of its size, and those of browsers that it has beyond, after it has become smaller. */
  get seats(): number {
    return Math.max(this.#count.size, this.#count.there)
  }

  get #most(): number {
    return this.#count.rate > 0 ? this.#count.size : 0
  }

  /** What the database says now. */
  update(count: PoolCount, now: number): void {
    this.#refill(now)
    // Those beyond a size that has become smaller are not made anew.
    const surplus = Math.max(0, this.#count.there - count.size)
    const anew = Math.max(0, count.size - this.#count.size) + Math.max(0, count.discarded - this.#count.discarded - surplus)
    this.#free = Math.min(count.size, this.#free + anew)
    this.#count = count
    this.#isFull = false
  }

  /** The database has refused another one. */
  full(): void {
    this.#isFull = true
  }

  /** How many more browsers may be begun, besides `booting` that are being made here. */
  room(booting: number): number {
    const room = Math.min(this.#count.size - this.#count.there - booting, AT_ONCE - booting)
    return this.#isFull ? 0 : Math.max(0, room)
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
      return () => void (this.#free = Math.min(this.size, this.#free + 1))
    }
    const used = Math.min(1, this.#tokens)
    this.#tokens -= used
    return () => void (this.#tokens = Math.min(this.#most, this.#tokens + used))
  }

  get #perMs(): number {
    return (this.#count.size * this.#count.rate) / 100 / MINUTE_MS
  }

  #refill(now: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + (now - this.#at) * this.#perMs)
    this.#at = now
  }
}
