// The pools of this service: its own kinds, and pools that have an owner. Knows how many instances each has, by the last count.
import { memoryNow, type Memory } from '../../../../base/memory.ts'
import type { Slots } from '../../../../base/slots.ts'
import { together } from '../../../../base/together.ts'
import { fault } from '../../../../http/fault.ts'
import { countKept } from '../pooled-rows.ts'
import type { Ownership } from '../rows.ts'
import { Pool } from './pool.ts'
import type { PoolsState } from './settings.ts'
import type { Shared } from './shared.ts'

interface PoolsSettings {
  /** Boots an instance for the pool; false when there is no room for it. */
  boot: (pool: Pool, wanted: Promise<void>, turn: Disposable | undefined) => Promise<boolean>
  /** A caller has left the queue of a pool. */
  onLeave: () => void
  /** A boot that a caller waited for has ended. */
  onOver: () => void
  /** The boot slots of this service. */
  starts: Slots
}

export class Pools {
  readonly #shared: Shared
  readonly #settings: PoolsSettings
  /** The clock of demand, retries and fill rates, in milliseconds. */
  readonly now: () => number
  readonly memory: () => Memory
  /** Pools without an owner, in the order in which callers try them. */
  readonly kinds: readonly Pool[]
  readonly #owned = new Map<string, Pool>()
  /** Boots under way for callers of pools that were deleted. */
  readonly #last = new Set<Promise<void>>()
  /** Number of browsers that are left of deleted pools. */
  #orphans = 0
  /** Number of finished boots, now and when the last count began. */
  #endedBoots = 0
  #countedBoots = 0

  constructor(shared: Shared, settings: PoolsSettings) {
    this.#shared = shared
    this.#settings = settings
    this.now = shared.now ?? (() => performance.now())
    this.memory = shared.memory ?? memoryNow
    this.kinds = shared.kinds.map((kind) => this.#pool(kind))
  }

  #pool(of: ConstructorParameters<typeof Pool>[0]): Pool {
    const { boot, ...settings } = this.#settings
    return new Pool(of, {
      ...settings,
      boot: (pool, wanted, turn) => boot(pool, wanted, turn).finally(() => this.#endedBoots++),
      onEmpty: () => this.hurry(),
      signal: this.#shared.signal,
      now: this.now,
    })
  }

  get owned(): Pool[] {
    return [...this.#owned.values()]
  }

  get all(): Pool[] {
    return [...this.kinds, ...this.#owned.values()]
  }

  /** The first kind that serves the caller; undefined when the caller needs its own boot. */
  kindFor(ownership: Ownership): Pool | undefined {
    return this.kinds.find(({ kind }) => kind!.serves(ownership))
  }

  /** An owned pool; undefined when it was deleted, or the last count has not seen it. */
  get(id: string): Pool | undefined {
    return this.#owned.get(id)
  }

  /** Boots under way. */
  get booting(): number {
    return sum(this.all.map(({ queue }) => queue.booting))
  }

  get state(): PoolsState {
    const memory = this.memory()
    const { ready } = this.#shared.registry
    const owned = sum(this.owned.map(({ size }) => size))
    return {
      waiting: sum(this.all.map(({ queue }) => queue.waiting)),
      booting: this.booting,
      wanted: { ...Object.fromEntries(this.kinds.map((pool) => [pool.name, pool.wanted(ready, memory)])), ...(owned > 0 && { pools: owned }) },
    }
  }

  /** Seats that owned pools take, by the last count. */
  get seats(): number {
    return sum(this.owned.map(({ seats }) => seats)) + this.#orphans
  }

  /** Whether no owned pool and none of their browsers is left, as far as this replica knows. */
  get isUnowned(): boolean {
    return this.#owned.size === 0 && this.#shared.registry.pooled === 0
  }

  /**
   * Whether the last count has every instance. An instance whose boot ended during the count may be missing: it was not idle yet when the rows were read, and
   * is not booting now.
   */
  get isExact(): boolean {
    return this.#countedBoots === this.#endedBoots
  }

  /** A caller wants an instance of a kind, here or at another replica. */
  asked(name: string): void {
    this.kinds.find((pool) => pool.name === name)?.demand.asked(this.now())
  }

  /** A caller waits for a boot slot: running boots get normal CPU priority so that they end soon. */
  hurry(): void {
    for (const { queue } of this.all) queue.hurry()
  }

  /** An instance may be ready that this replica did not boot. */
  lookAgain(): void {
    for (const { queue } of this.all) queue.lookAgain()
  }

  /** Counts the instances of each pool, including changes that the caller has made before. Serves waiting callers as far as there is room now. */
  readonly count = together(() => this.#count())

  async #count(): Promise<void> {
    const { db, scope, leases, pools: source } = this.#shared
    const before = this.#endedBoots
    const { ready, pools, orphans } = await countKept(db, { scope, replica: leases.replica })
    this.#countedBoots = before
    for (const pool of this.kinds) pool.update({ ...NO_POOL, id: pool.name, idle: ready.get(pool.name) ?? 0 })
    this.#orphans = orphans
    const gone = new Map(this.#owned)
    for (const count of source ? pools : []) {
      gone.delete(count.id)
      const known = this.#owned.get(count.id)
      if (known) known.update(count)
      else this.#owned.set(count.id, this.#pool(count))
    }
    for (const [id, { queue }] of gone) {
      this.#owned.delete(id)
      queue.close(fault.notFound('browser pool', id))
      const last = queue.settled()
      this.#last.add(last)
      void last.finally(() => this.#last.delete(last))
    }
  }

  /** The rows of owned pools were changed: counts their browsers, and boots missing ones. Resolves when they are counted. */
  async changed(): Promise<void> {
    await this.count()
    this.#shared.refill()
  }

  /** Resolves when no boot for a caller is under way. For use after the signal has aborted. */
  async settled(): Promise<void> {
    for (const { queue } of this.all) await queue.settled()
    await Promise.all(this.#last)
  }
}

const NO_POOL = { size: 0, rate: 0, there: 0, discarded: 0 }
export const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)
