// The browser pools of callers: counted in the database, which other replicas change, too.
import type { Memory } from '../../../../base/memory.ts'
import { fault } from '../../../../http/fault.ts'
import { wanted } from './demand.ts'
import { InstancePool } from './instance-pool.ts'
import { PoolBootFailed, PoolShare, type PoolSource } from './pools.ts'

/** A count that a boot has ended during is taken again, at most so often in a row: it has the boot's browser neither as idle nor as booting. */
const COUNTS_AT_ONCE = 5

export class OwnedPools {
  readonly #source: PoolSource | undefined
  readonly #shared: ConstructorParameters<typeof InstancePool>[1]
  readonly #now: () => number
  readonly #pools = new Map<string, InstancePool>()
  #orphans = 0
  /** Boots under way for callers of pools that are gone. */
  readonly #last = new Set<Promise<void>>()
  #counting: Promise<void> = Promise.resolve()
  /** A count that has not begun yet: it will see what its callers have changed. */
  #next: Promise<void> | undefined
  /** How many boots have ended so far. */
  #endedBoots = 0

  constructor(source: PoolSource | undefined, shared: ConstructorParameters<typeof InstancePool>[1], now: () => number) {
    this.#source = source
    this.#shared = shared
    this.#now = now
  }

  get all(): InstancePool[] {
    return [...this.#pools.values()]
  }

  get isNone(): boolean {
    return this.#pools.size === 0
  }

  /** Seats of pools, and of browsers that are left of deleted ones. */
  get seats(): number {
    return this.all.reduce((sum, { share }) => sum + share!.seats, this.#orphans)
  }

  get(id: string): InstancePool | undefined {
    return this.#pools.get(id)
  }

  /** How long it takes until the rate of a pool that is short allows a boot, in milliseconds; 0 when none waits for that. */
  get pauseMs(): number {
    const pauses = this.all.filter(isShort).map(({ share }) => share!.pauseMs(this.#now()))
    const least = Math.min(...pauses.filter((ms) => ms > 0))
    return Number.isFinite(least) ? least : 0
  }

  /** The pool that has the smallest part of its browsers, of those that may have another one now. */
  short(memory: Memory): InstancePool | undefined {
    const now = this.#now()
    const part = ({ share, queue }: InstancePool) => (share!.idle + queue.booting) / share!.size
    const may = (pool: InstancePool) => {
      const { share, queue, retryAt } = pool
      const kept = share!.idle + queue.booting
      return retryAt <= now && isShort(pool) && share!.pauseMs(now) === 0 && kept < wanted({ target: 0, most: share!.size }, share!.size, kept, memory)
    }
    return this.all.filter(may).toSorted((a, b) => part(a) - part(b))[0]
  }

  /** Counts the browsers of all pools, after what the caller has changed. */
  count(): Promise<void> {
    return (this.#next ??= this.#counting
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return (this.#counting = this.#count())
      }))
  }

  async #count(): Promise<void> {
    if (!this.#source) return
    const { pools: counts, orphans } = await this.#steadyCounts(this.#source)
    this.#orphans = orphans
    const now = this.#now()
    const gone = new Map(this.#pools)
    for (const count of counts) {
      gone.delete(count.id)
      const known = this.#pools.get(count.id)
      if (known) known.share!.update(count, now)
      else this.#pools.set(count.id, new InstancePool({ id: count.id, share: new PoolShare(count, now) }, this.#shared))
    }
    for (const [id, { queue }] of gone) {
      this.#pools.delete(id)
      queue.close(fault.notFound('browser pool', id))
      const last = queue.settled()
      this.#last.add(last)
      void last.finally(() => this.#last.delete(last))
    }
    for (const { queue, share } of this.all) if (queue.waiting > 0 && (share!.idle > 0 || share!.room(queue.booting) > 0)) queue.lookAgain()
  }

  async #steadyCounts(source: PoolSource): ReturnType<PoolSource['counts']> {
    for (let attempt = 1; ; attempt++) {
      const before = this.#endedBoots
      const counted = await source.counts()
      if (this.#endedBoots === before || attempt === COUNTS_AT_ONCE) return counted
    }
  }

  /** Makes a browser for a pool by `make`, which returns false when the pool has as many as it may. @throws PoolBootFailed */
  async boot({ name, share }: InstancePool, make: () => Promise<boolean>): Promise<boolean> {
    const undo = share!.began()
    try {
      const isMade = await make()
      if (isMade) {
        this.#source!.made(name, undefined)
        return true
      }
      undo()
      share!.full()
      return false
    } catch (error) {
      undo()
      if (this.#shared.signal.aborted) throw error
      this.#source!.made(name, error)
      throw new PoolBootFailed('a browser of a pool could not be made', { cause: error })
    } finally {
      this.#endedBoots++
    }
  }

  async settled(): Promise<void> {
    await this.#next?.catch(() => {})
    await this.#counting.catch(() => {})
    await Promise.all(this.#last)
  }
}

const isShort = ({ share, queue }: InstancePool): boolean => share!.room(queue.booting) > 0
