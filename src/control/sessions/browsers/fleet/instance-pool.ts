// The ready instances of one kind, or of one browser pool: the callers who wait for it, the boots that serve them, and when the next one may begin.
import { Slots } from '../../../../base/slots.ts'
import { Demand } from './demand.ts'
import type { Kind } from './kinds.ts'
import { WaitQueue } from './wait-queue.ts'
import type { PoolShare } from './pools.ts'

/** Retries after a failed boot: first wait, doubled up to the last. */
export const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000

/** A turn for everybody at once. */
const NO_TURNS = new Slots(Infinity)

interface InstancePoolSettings {
  /** Boots one; false when there is no room for one. */
  boot: (pool: InstancePool, isAwaited: boolean, wanted: Promise<void>) => Promise<boolean>
  /** A caller goes to sleep. */
  onSleep: () => void
  /** A boot that a caller had waited for is over. */
  onOver: () => void
  starts: Slots
  signal: AbortSignal
}

/** All times are in milliseconds of one clock that never goes back. */
export class InstancePool {
  /** A kind's name, or a pool's id. */
  readonly name: string
  readonly kind: Kind | undefined
  readonly share: PoolShare | undefined
  readonly queue: WaitQueue
  readonly demand = new Demand()
  /** After a failed boot: when the next refill may begin, and how long the wait after another failure is. */
  retryAt = 0
  #retryMs = RETRY_FIRST_MS
  /** Whether its last boot has come up, or it has enough. */
  isWell = true

  constructor(of: { kind: Kind } | { share: PoolShare; id: string }, settings: InstancePoolSettings) {
    this.kind = 'kind' in of ? of.kind : undefined
    this.share = 'share' in of ? of.share : undefined
    this.name = 'kind' in of ? of.kind.name : of.id
    this.queue = new WaitQueue({
      ...settings,
      // Boots of pools take their turns by themselves.
      starts: this.share ? NO_TURNS : settings.starts,
      boot: (isAwaited, wanted) => settings.boot(this, isAwaited, wanted),
      room: (booting) => this.share?.room(booting) ?? Infinity,
    })
  }

  booted(ms: number): void {
    this.demand.booted(ms)
    this.retryAt = 0
    this.#retryMs = RETRY_FIRST_MS
    this.isWell = true
  }

  /** A boot that nobody waited for has failed. Returns how long the next one waits. */
  failed(now: number): number {
    const waitMs = this.#retryMs
    this.isWell = false
    this.retryAt = now + waitMs
    this.#retryMs = Math.min(RETRY_LAST_MS, waitMs * 2)
    return waitMs
  }
}
