// Removes the rows of deleted pools.
import { sql } from 'kysely'
import { deletedBefore, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** Pools that were deleted more than `days` ago. The ones whose sessions are still shown wait for these. */
export const deletedPools = (db: Db, days: number): Purge => ({
  what: 'deleted browser pools',
  run: (signal) =>
    removeRows(db, signal, 'browser_pools', sql`${deletedBefore(days)} and not exists (select from browsers b where b.pool_id = browser_pools.id)`),
})
