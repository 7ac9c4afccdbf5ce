// The pools that a shelf fills: counted in the database, which also other replicas change.
import type { Memory } from '../../../../base/memory.ts'
import { fault } from '../../../../http/fault.ts'
import { wanted } from './demand.ts'
import { Keeping } from './keeping.ts'
import { PoolBootFailed, PoolShare, type PoolSource } from './pools.ts'

/** A count that a boot has ended during is taken again, at most so often in a row: it has the boot's browser neither as idle nor as booting. */
const COUNTS_AT_ONCE = 5

export class PooledKeepings {
  readonly #source: PoolSource | undefined
  readonly #shared: ConstructorParameters<typeof Keeping>[1]
  readonly #now: () => number
  readonly #keeping = new Map<string, Keeping>()
  #orphans = 0
  /** Boots under way for callers of pools that are gone. */
  readonly #last = new Set<Promise<void>>()
  #counting: Promise<void> = Promise.resolve()
  /** A count that has not begun yet: it will see what its callers have changed. */
  #next: Promise<void> | undefined
  /** How many boots have ended so far. */
  #endedBoots = 0

  constructor(source: PoolSource | undefined, shared: ConstructorParameters<typeof Keeping>[1], now: () => number) {
    this.#source = source
    this.#shared = shared
    this.#now = now
  }

  get all(): Keeping[] {
    return [...this.#keeping.values()]
  }

  get isNone(): boolean {
    return this.#keeping.size === 0
  }

  /** Seats of pools, and of browsers that are left of deleted ones. */
  get seats(): number {
    return this.all.reduce((sum, { pool }) => sum + pool!.seats, this.#orphans)
  }

  get(id: string): Keeping | undefined {
    return this.#keeping.get(id)
  }

  /** How long it takes until the rate of a pool that is short allows a boot, in milliseconds; 0 when none waits for that. */
  get pauseMs(): number {
    const pauses = this.all.filter(isShort).map(({ pool }) => pool!.pauseMs(this.#now()))
    const least = Math.min(...pauses.filter((ms) => ms > 0))
    return Number.isFinite(least) ? least : 0
  }

  /** The pool that has the smallest part of its browsers, of those that may have another one now. */
  short(memory: Memory): Keeping | undefined {
    const now = this.#now()
    const part = ({ pool, line }: Keeping) => (pool!.idle + line.booting) / pool!.size
    const may = (keeping: Keeping) => {
      const { pool, line, retryAt } = keeping
      const kept = pool!.idle + line.booting
      return retryAt <= now && isShort(keeping) && pool!.pauseMs(now) === 0 && kept < wanted({ target: 0, most: pool!.size }, pool!.size, kept, memory)
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
    const gone = new Map(this.#keeping)
    for (const count of counts) {
      gone.delete(count.id)
      const known = this.#keeping.get(count.id)
      if (known) known.pool!.told(count, now)
      else this.#keeping.set(count.id, new Keeping({ id: count.id, pool: new PoolShare(count, now) }, this.#shared))
    }
    for (const [id, { line }] of gone) {
      this.#keeping.delete(id)
      line.close(fault.notFound('browser pool', id))
      const last = line.settled()
      this.#last.add(last)
      void last.finally(() => this.#last.delete(last))
    }
    for (const { line, pool } of this.all) if (line.waiting > 0 && (pool!.idle > 0 || pool!.room(line.booting) > 0)) line.lookAgain()
  }

  async #steadyCounts(source: PoolSource): ReturnType<PoolSource['counts']> {
    for (let attempt = 1; ; attempt++) {
      const before = this.#endedBoots
      const counted = await source.counts()
      if (this.#endedBoots === before || attempt === COUNTS_AT_ONCE) return counted
    }
  }

  /** Makes a browser for a pool by `make`, which returns false when the pool has as many as it may. @throws PoolBootFailed */
  async boot({ name, pool }: Keeping, make: () => Promise<boolean>): Promise<boolean> {
    const undo = pool!.began()
    try {
      const isMade = await make()
      if (isMade) {
        this.#source!.made(name, undefined)
        return true
      }
      undo()
      pool!.full()
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

const isShort = ({ pool, line }: Keeping): boolean => pool!.room(line.booting) > 0
