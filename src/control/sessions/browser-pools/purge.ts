// Removes the rows of deleted pools.
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'
import { removeDeletedPools } from './rows.ts'

const AT_ONCE = 500

/** Pools that were deleted more than `days` ago. The ones whose sessions are still shown wait for these. */
export const deletedPools = (db: Db, days: number): Purge => ({
  what: 'deleted browser pools',
  run: (signal) => inBatches(AT_ONCE, signal, (limit) => removeDeletedPools(db, days, limit)),
})
