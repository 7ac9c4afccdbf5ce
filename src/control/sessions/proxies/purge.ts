// Removes the secrets of deleted proxies when no session uses them any more, and later their rows.
import { sql } from 'kysely'
import { deletedBefore, inBatches, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'
import { forgetSecrets, isInUse } from './rows.ts'

const AT_ONCE = 500

/** Proxies that were deleted more than `days` ago. Their passwords are removed as soon as no session uses them. */
export const deletedProxies = (db: Db, days: number): Purge => ({
  what: 'deleted proxies',
  async run(signal) {
    await inBatches(AT_ONCE, signal, (limit) => forgetSecrets(db, limit))
    return removeRows(db, signal, 'proxies', sql`${deletedBefore(days)} and not ${isInUse}`)
  },
})
