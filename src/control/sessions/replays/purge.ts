// Removes replays whose retention has passed.
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import type { Purge } from '../../module.ts'
import { headKey, removeExpired } from './rows.ts'

const AT_ONCE = 50

/** Replays of this scope that ended more than `days` ago. The rows first: an object that is left is removed by the sweep, and holds up no other one. */
export const oldReplays = (db: Db, objects: Objects, scope: string, days: number): Purge => ({
  what: 'replays',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const removed = await removeExpired(db, scope, days, limit)
      for (const object of removed) for (const key of [headKey(object), object]) await objects.delete(key, signal)
      return removed.length
    }),
})
