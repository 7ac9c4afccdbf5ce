// Removes what is left of destinations of telemetry, and of exports to them.
import { inBatches } from '../../../../store/batches.ts'
import type { Db } from '../../../../store/db.ts'
import type { Purge } from '../../../module.ts'
import { removeDeleted, removeFinished } from './rows.ts'

const AT_ONCE = 500

/** Destinations that were deleted, and exports that were over, more than `days` ago. */
export const oldTelemetryExports = (db: Db, days: number): Purge => ({
  what: 'exports of telemetry',
  async run(signal) {
    const exports = await inBatches(AT_ONCE, signal, (limit) => removeFinished(db, days, limit))
    return exports + (await inBatches(AT_ONCE, signal, (limit) => removeDeleted(db, days, limit)))
  },
})
