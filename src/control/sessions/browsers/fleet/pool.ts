// A pool: instances that are booted before callers ask for them, and the callers who wait for one. The service's own pools are its kinds; other pools have an owner.
import { Demand } from '../../../../base/demand.ts'
import type { Memory } from '../../../../base/memory.ts'
import { Slots } from '../../../../base/slots.ts'
import type { PoolCount } from '../pooled-rows.ts'
import { FillRate } from './fill-rate.ts'
import { fitting } from './fits-memory.ts'
import type { Kind } from './kinds.ts'
import { WaitQueue } from './wait-queue.ts'

/** Retries after a failed boot: first wait, doubled up to the last. */
export const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000
/** Limit on boots of one owned pool at the same time: a pool whose profile or extensions hang must not keep other pools waiting. */
const AT_ONCE = 4
/** No limit on boots at the same time. */
const NO_TURNS = new Slots(Infinity)

interface PoolSettings {
  /** Boots an instance; false when there is no room for it. */
  boot: (pool: Pool, wanted: Promise<void>, turn: Disposable | undefined) => Promise<boolean>
  onEmpty: () => void
  onLeave: () => void
  onOver: () => void
  starts: Slots
  signal: AbortSignal
  now: () => number
}

/** All times are in milliseconds of one monotonic clock. */
export class Pool {
  /** A kind's name, or the id of an owned pool. */
  readonly name: string
  /** Undefined for an owned pool. */
  readonly kind: Kind | undefined
  readonly queue: WaitQueue
  readonly demand = new Demand()
  readonly #rate: FillRate | undefined
  readonly #now: () => number
  #count: PoolCount
  /** Whether the database has refused a browser since the last count. */
  #isFull = false
  /** After a failed boot: when the next refill may begin, and the delay after another failure. */
  retryAt = 0
  #retryMs = RETRY_FIRST_MS
  /** Whether its last boot has worked, or it has enough instances. */
  isWell = true

  constructor(of: Kind | PoolCount, settings: PoolSettings) {
    this.kind = 'serves' in of ? of : undefined
    this.name = 'serves' in of ? of.name : of.id
    this.#count = 'serves' in of ? { id: of.name, size: 0, rate: 0, idle: 0, there: 0, discarded: 0 } : of
    this.#now = settings.now
    this.#rate = this.kind ? undefined : new FillRate(this.#count, this.#now())
    this.queue = new WaitQueue({
      ...settings,
      // A boot of an owned pool takes its slot later, after its row is inserted (boots.ts).
      starts: this.kind ? settings.starts : NO_TURNS,
      boot: (wanted, turn) => settings.boot(this, wanted, turn),
      room: (booting) => this.room(booting),
    })
  }

  /** Instances that wait for a caller, by the last count. */
  get idle(): number {
    return this.#count.idle
  }

  /** Instances that are ready or are being made. */
  get kept(): number {
    return this.#count.idle + this.queue.booting
  }

  /** The size of an owned pool. */
  get size(): number {
    return this.#count.size
  }

  /** Seats that an owned pool takes: its size, and the browsers above it if the pool was made smaller. */
  get seats(): number {
    return Math.max(this.#count.size, this.#count.there)
  }

  /** Applies a new count from the database. */
  update(count: PoolCount): void {
    this.#rate?.update(this.#count, count, this.#now())
    this.#count = count
    this.#isFull = false
    if (this.queue.waiting > 0 && (count.idle > 0 || (!this.kind && this.room(this.queue.booting) > 0))) this.queue.lookAgain()
  }

  /** How many more boots may start in addition to the `booting` ones of this replica. */
  room(booting: number): number {
    if (this.kind) return Infinity
    return this.#isFull ? 0 : Math.max(0, Math.min(this.#count.size - this.#count.there, AT_ONCE) - booting)
  }

  /**
   * How many should be ready now: the demand of a kind, or the size of an owned pool. Above the minimum, only as many as fit into the free memory. `kept`: how
   * many there are.
   */
  wanted(kept: number, memory: Memory): number {
    const { target: least, most = least } = this.kind ?? { target: 0, most: this.size }
    const level = this.kind ? this.demand.level(this.#now()) : this.size
    return Math.max(least, Math.min(most, level, kept + fitting(memory)))
  }

  /**
   * How long the next boot for which no caller waits must be delayed, in milliseconds: 0 when it may begin now, Infinity when the pool is full or its rate is
   * 0.
   */
  pauseMs(now: number): number {
    if (this.room(this.queue.booting) === 0) return Infinity
    return Math.max(0, this.retryAt - now, this.#rate?.pauseMs(now) ?? 0)
  }

  /** Runs `make`, which boots an instance; false when the database has refused it. A boot that fails does not count for the fill rate. */
  async begin(make: () => Promise<boolean>): Promise<boolean> {
    const began = this.#now()
    const undo = this.#rate?.began()
    let isMade = false
    try {
      isMade = await make()
    } finally {
      if (!isMade) undo?.()
    }
    if (!isMade) this.#isFull = true
    else {
      this.demand.booted(this.#now() - began)
      this.retryAt = 0
      this.#retryMs = RETRY_FIRST_MS
      this.isWell = true
    }
    return isMade
  }

  /** Records that a boot for which no caller waited has failed. Returns the delay of the next one, in milliseconds. */
  failed(): number {
    const waitMs = this.#retryMs
    this.isWell = false
    this.retryAt = this.#now() + waitMs
    this.#retryMs = Math.min(RETRY_LAST_MS, waitMs * 2)
    return waitMs
  }
}
