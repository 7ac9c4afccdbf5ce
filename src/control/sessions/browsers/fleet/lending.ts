// Browsers of owned pools: lent to callers in the order of arrival, given back, ended when their pool does not want them any more.
import { beginRelease, endIdle, endRelease, endUnwanted, hasUnwanted, leftByPools, lendFirst, noteDiscarded, timeOf, type Lease } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Pools } from './pools.ts'
import type { Shared } from './shared.ts'

/** Browsers that pools do not want any more are ended in each sweep, up to so many. */
const ENDED_AT_ONCE = 50

export class Lending {
  readonly #shared: Shared
  readonly #pools: Pools
  #trimming: Promise<void> | undefined

  constructor(shared: Shared, pools: Pools) {
    this.#shared = shared
    this.#pools = pools
  }

  /**
   * The browser of a pool that has waited longest, or the next one that comes, in the order of callers; undefined when there is no such pool.
   * Waits until `late`, and gets what is there in any case. @throws the reasons of both signals; why none can be made
   */
  lend(pool: string, lease: Lease, signal: AbortSignal, late?: AbortSignal): Promise<BrowserRow | undefined> {
    const { db, scope, leases } = this.#shared
    return this.#pools.waitForOwned(pool, () => lendFirst(db, { scope, replica: leases.replica }, pool, lease), signal, late)
  }

  /** Takes a browser away from its caller: nobody reaches it from then on. Its row; undefined when this caller does not have it any more. */
  async takeBack(session: Pick<BrowserRow, 'id' | 'lease'>): Promise<BrowserRow | undefined> {
    const row = await beginRelease(this.#shared.db, session)
    if (row) this.#shared.registry.putBack(row.id)
    return row
  }

  /** Makes a browser that was taken back, and is what its pool has made, wait for the next caller; false when it has ended. */
  async putBack({ id, pool_id: pool }: Pick<BrowserRow, 'id' | 'pool_id'>): Promise<boolean> {
    if (!(await endRelease(this.#shared.db, id))) return false
    this.#pools.isBack(pool!)
    return true
  }

  /** Ends all browsers that wait in a pool now; what is made meanwhile stays. Resolves after the first attempt. They are made anew at once. */
  async discardIdle(pool: string): Promise<void> {
    const { db } = this.#shared
    const now = await timeOf(db)
    await this.#endAll(() => endIdle(db, pool, now), Infinity)
    await this.changed()
  }

  /** Ends browsers that callers have of pools which were deleted together with these. Resolves when they are out of use. */
  async endLeft(): Promise<void> {
    const { db, scope, endings } = this.#shared
    await Promise.all((await leftByPools(db, scope)).map((id) => endings.end(id, 'deleted', false)))
  }

  /** Pools have changed: their browsers are counted, and made if there is room. Resolves when they are counted. */
  async changed(): Promise<void> {
    await this.#pools.count()
    this.#shared.refill()
  }

  /** Begins to end browsers that their pools do not want any more, and what {@link endLeft} ends. For the sweep. */
  trim(): void {
    const { leases, pools, signal, log } = this.#shared
    if (!pools || !leases.holds('warm_pool') || leases.remembered(this.#pools.isUnowned) || signal.aborted) return
    this.#trimming ??= this.#trim()
      .catch((err: unknown) => log.warn({ err }, 'browsers that pools do not want could not be ended; the next sweep tries again'))
      .finally(() => (this.#trimming = undefined))
  }

  /** Resolves when nothing is being ended for the sweep. */
  async settled(): Promise<void> {
    await this.#trimming
  }

  async #trim(): Promise<void> {
    const { db, scope } = this.#shared
    await this.endLeft()
    if (await hasUnwanted(db, scope)) await this.#endAll(() => endUnwanted(db, scope), ENDED_AT_ONCE)
  }

  /** Ends browsers that `begin` finds, up to `most`, each to be made anew. Resolves after the first attempt at each. */
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
}
