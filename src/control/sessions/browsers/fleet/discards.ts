// Ends browsers that owned pools do not want any more. The pools are then filled again.
import { endIdle, endUnwanted, hasUnwanted, leftByPools, noteDiscarded, timeOf } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Pools } from './pools.ts'
import type { Shared } from './shared.ts'

/** At most this many unwanted browsers are ended in each sweep. */
const ENDED_AT_ONCE = 50

export class Discards {
  readonly #shared: Shared
  readonly #pools: Pools
  #underWay: Promise<void> | undefined

  constructor(shared: Shared, pools: Pools) {
    this.#shared = shared
    this.#pools = pools
  }

  /** Ends all browsers that wait in an owned pool now, and has them replaced at once. Browsers that are booted meanwhile stay. Resolves after the first attempt at each end. */
  async idle(pool: string): Promise<void> {
    const { db } = this.#shared
    const now = await timeOf(db)
    await this.#endAll(() => endIdle(db, pool, now), Infinity)
    await this.#pools.changed()
  }

  /** Ends the browsers that callers still have from pools that were deleted by force. Resolves when callers cannot reach them any more. */
  async ofDeletedPools(): Promise<void> {
    const { db, scope, endings } = this.#shared
    await Promise.all((await leftByPools(db, scope)).map((id) => endings.end(id, 'deleted', false)))
  }

  /** For the sweep: starts to end the browsers that the pools of this scope do not want any more. */
  begin(): void {
    const { leases, pools, signal, log } = this.#shared
    if (!pools || !leases.holds('warm_pool') || leases.remembered(this.#pools.isUnowned) || signal.aborted) return
    this.#underWay ??= this.#unwanted()
      .catch((err: unknown) => log.warn({ err }, 'browsers that pools do not want could not be ended; the next sweep tries again'))
      .finally(() => (this.#underWay = undefined))
  }

  async #unwanted(): Promise<void> {
    const { db, scope } = this.#shared
    await this.ofDeletedPools()
    if (await hasUnwanted(db, scope)) await this.#endAll(() => endUnwanted(db, scope), ENDED_AT_ONCE)
  }

  /** Ends browsers that `begin` finds, at most `most`. Resolves after the first attempt at each. */
  async #endAll(begin: () => Promise<BrowserRow | undefined>, most: number): Promise<void> {
    const { db, endings } = this.#shared
    const ends: Promise<void>[] = []
    const discarded = new Map<string, number>()
    for (let row = await begin(); row; row = ends.length < most ? await begin() : undefined) {
      discarded.set(row.pool_id!, (discarded.get(row.pool_id!) ?? 0) + 1)
      ends.push(endings.endRow(row))
    }
    for (const [pool, count] of discarded) await noteDiscarded(db, pool, count)
    await Promise.all(ends)
  }

  /** Resolves when no end is under way. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#underWay
  }
}
