// Browsers of pools: lent to callers in the order of arrival, given back, ended.
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import { beginRelease, endRelease, lendFirst, noteDiscarded, type Lease } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Endings } from './endings.ts'
import type { Registry } from './registry.ts'
import type { SessionSeats } from './session-seats.ts'
import type { WarmPool } from './warm-pool.ts'
import type { OtherReplicas } from './warm-pool-state.ts'
import { endIdleOnes, endLeftOnes, type TakeOut } from './surplus.ts'

interface LendingSettings {
  db: Db
  scope: string
  leases: Leases
  registry: Registry
  endings: Endings
  others: OtherReplicas
  warmPool: WarmPool
  seats: SessionSeats
  /** Records that a browser has become a session; false when it has ended in the meantime. */
  take: (row: BrowserRow) => boolean
  takeOut: TakeOut
  refill: () => void
}

export interface Lending {
  /**
   * The browser of a pool that has waited longest, or the next one that comes, in the order of callers; undefined when there is no such pool.
   * Waits until `late`, and gets what is there in any case. @throws the reasons of both signals; why none can be made
   */
  lend(pool: string, lease: Lease, signal: AbortSignal, late?: AbortSignal): Promise<BrowserRow | undefined>
  /** Takes a browser away from its caller: nobody reaches it from then on. Its row; undefined when this caller does not have it any more. */
  takeBack(session: Pick<BrowserRow, 'id' | 'lease'>): Promise<BrowserRow | undefined>
  /** Makes a browser that was taken back, and is what its pool has made, wait for the next caller; false when it has ended. */
  putBack(row: Pick<BrowserRow, 'id' | 'pool_id'>): Promise<boolean>
  /** Ends all browsers that wait in a pool; resolves after the first attempt. They are made anew at once. */
  discardIdle(pool: string): Promise<void>
  /** Ends browsers that callers have of pools which were deleted together with these. Resolves when they are out of use. */
  endLeft(): Promise<void>
  /** Pools have changed: their browsers are counted, and made if there is room. Resolves when they are counted. */
  changed(): Promise<void>
  /** Does `work`, which gives a pool `wanted` more seats. `of` are the seats of this service. @throws NoSeat; undefined when this service has not so many */
  seated<T>(project: string, wanted: number, of: number, work: (db: Db) => Promise<T>, signal: AbortSignal): Promise<T | undefined>
}

export function makeLending(settings: LendingSettings): Lending {
  const { db, scope, leases, registry, warmPool, seats, take, takeOut, refill } = settings
  const watched = { scope, replica: leases.replica }

  async function lendIdle(pool: string, lease: Lease): Promise<BrowserRow | undefined> {
    for (let row = await lendFirst(db, watched, pool, lease); row; row = await lendFirst(db, watched, pool, lease)) {
      if (take(row)) return row
      await takeOut(row.id, 'lost')
      refill()
    }
    return undefined
  }

  return {
    lend: (pool, lease, signal, late) => warmPool.waitInPool(pool, () => lendIdle(pool, lease), signal, late),
    async takeBack(session) {
      const row = await beginRelease(db, session)
      if (row) registry.putBack(row.id)
      return row
    },
    async putBack({ id, pool_id: pool }) {
      if (!(await endRelease(db, id))) return false
      warmPool.isBack(pool!)
      return true
    },
    async discardIdle(pool) {
      const { count, over } = await endIdleOnes(pool, settings)
      await noteDiscarded(db, pool, count)
      await over
      await warmPool.countPools()
      refill()
    },
    endLeft: () => endLeftOnes(settings),
    async changed() {
      await warmPool.countPools()
      refill()
    },
    async seated(project, wanted, of, work, signal) {
      const leave = wanted > 0 ? await seats.reserve(of, signal, wanted) : () => {}
      if (!leave) return undefined
      try {
        const made = wanted > 0 ? await seats.takeForPool(project, wanted, work) : await work(db)
        await warmPool.countPools()
        return made
      } finally {
        leave()
      }
    },
  }
}
