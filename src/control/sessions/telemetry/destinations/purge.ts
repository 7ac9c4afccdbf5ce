// Removes the rows of deleted destinations of telemetry, and of finished exports.
import { inBatches } from '../../../../store/batches.ts'
import type { Db } from '../../../../store/db.ts'
import type { Purge } from '../../../module.ts'
import { REMOVED_AT_ONCE } from '../limits.ts'
import { removeDeleted, removeFinished } from './rows.ts'

/** Destinations that were deleted, and exports that were finished, more than `days` ago. */
export const oldTelemetryExports = (db: Db, days: number): Purge => ({
  what: 'exports of telemetry',
  async run(signal) {
    const exports = await inBatches(REMOVED_AT_ONCE, signal, (limit) => removeFinished(db, days, limit))
    return exports + (await inBatches(REMOVED_AT_ONCE, signal, (limit) => removeDeleted(db, days, limit)))
  },
})
