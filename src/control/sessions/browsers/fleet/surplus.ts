// Ends instances that nobody has and nobody needs: their rows say so already, or are moved here.
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import type { EndReason } from '../end-step.ts'
import { endIdle, endUnwanted, hasUnwanted, leftByPools, noteDiscarded, timeOf } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Endings } from './endings.ts'
import type { Registry } from './registry.ts'

/** Browsers that pools do not want any more are ended in each sweep, up to so many. */
const ENDED_AT_ONCE = 50

/** Ends a browser, wherever it runs; resolves when it is out of use. */
export type TakeOut = (id: string, reason: EndReason) => Promise<boolean>

interface Ending {
  db: Db
  scope: string
  leases: Leases
  registry: Registry
  endings: Endings
  /** Has another replica end what it watches. */
  others: { end(replica: string): void }
}

/** Ends an instance whose row says so, or has its replica do it. Resolves after the first attempt. */
export async function endRow(
  ended: BrowserRow,
  { leases, registry, endings, others }: Pick<Ending, 'leases' | 'registry' | 'endings' | 'others'>,
): Promise<void> {
  if (ended.replica === leases.replica) {
    await registry.taken(ended.id)
    await endings.resume(ended, 'surplus')
  } else if (ended.replica !== null) others.end(ended.replica)
}

/** Ends browsers that callers have of pools which were deleted together with these. Resolves when they are out of use. */
export async function endLeftOnes({ db, scope, takeOut }: Pick<Ending, 'db' | 'scope'> & { takeOut: TakeOut }): Promise<void> {
  await Promise.all((await leftByPools(db, scope)).map((id) => takeOut(id, 'deleted')))
}

/** Ends browsers that wait in pools which do not want them any more, and what {@link endLeftOnes} ends, if that is this replica's duty. */
export async function endUnwantedOnes(settings: Ending & { takeOut: TakeOut }): Promise<void> {
  const { db, scope, leases } = settings
  if (!leases.holds('shelf')) return
  await endLeftOnes(settings)
  if (!(await hasUnwanted(db, scope))) return
  const ends: Promise<void>[] = []
  const ended = new Map<string, number>()
  while (ends.length < ENDED_AT_ONCE) {
    const row = await endUnwanted(db, scope)
    if (!row) break
    ended.set(row.pool_id!, (ended.get(row.pool_id!) ?? 0) + 1)
    ends.push(endRow(row, settings))
  }
  for (const [pool, count] of ended) await noteDiscarded(db, pool, count)
  await Promise.all(ends)
}

/** Begins to end all browsers that wait in a pool now; what is made meanwhile stays. Returns how many they were, and what resolves after the first attempt to end each. */
export async function endIdleOnes(pool: string, settings: Ending): Promise<{ count: number; over: Promise<void> }> {
  const { db } = settings
  const ends: Promise<void>[] = []
  const now = await timeOf(db)
  for (let ended = await endIdle(db, pool, now); ended; ended = await endIdle(db, pool, now)) ends.push(endRow(ended, settings))
  return { count: ends.length, over: Promise.all(ends).then(() => {}) }
}
