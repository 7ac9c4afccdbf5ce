// Removes the rows of deleted pools.
import { sql } from 'kysely'
import { deletedBefore, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** Pools that were deleted more than `days` ago. If sessions of a pool are still shown, it stays as long as they do. */
export const deletedPools = (db: Db, days: number): Purge => ({
  what: 'deleted browser pools',
  run: (signal) =>
    removeRows(db, signal, 'browser_pools', sql`${deletedBefore(days)} and not exists (select from browsers b where b.pool_id = browser_pools.id)`),
})
