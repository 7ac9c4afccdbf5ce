// Removes telemetry that is older than its retention.
import { inBatches } from '../../../store/batches.ts'
import type { Purge } from '../../module.ts'
import { REMOVED_AT_ONCE } from './limits.ts'
import type { Archive } from './read.ts'
import { removeOld } from './rows.ts'

const DAY_MS = 24 * 3600_000

/** Runs of events of this scope whose last event is older than `days`. */
export const oldTelemetry = ({ db, objects }: Archive, scope: string, days: number): Purge => ({
  what: 'telemetry',
  async run(signal) {
    const before = (Date.now() - days * DAY_MS) * 1000
    return inBatches(REMOVED_AT_ONCE, signal, async (limit) => {
      // The rows first, which could not be read without their objects. An object that is left is removed by the sweep.
      const removed = await removeOld(db, scope, before, limit)
      for (const object of removed) if (object !== null) await objects.delete(object, signal)
      return removed.length
    })
  },
})
