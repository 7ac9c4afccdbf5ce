// Ends instances that nobody has and nobody needs: their rows say so already, or are moved here.
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { endIdle, endUnwanted, timeOf } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Endings } from './endings.ts'
import type { Registry } from './registry.ts'

/** Browsers that pools do not want any more are ended in each sweep, up to so many. */
const ENDED_AT_ONCE = 50

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

/** Ends browsers that wait in pools which do not want them any more, if that is this replica's duty. `onEnd` gets the pool of each. */
export async function endUnwantedOnes(settings: Ending, onEnd: (pool: string) => void): Promise<void> {
  if (!settings.leases.holds('shelf')) return
  const ends: Promise<void>[] = []
  while (ends.length < ENDED_AT_ONCE) {
    const ended = await endUnwanted(settings.db, settings.scope)
    if (!ended) break
    onEnd(ended.pool_id!)
    ends.push(endRow(ended, settings))
  }
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
