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
      // Delete the rows first: without its object, a row could not be read. The sweep removes an object that is left.
      const removed = await removeOld(db, scope, before, limit)
      for (const object of removed) if (object !== null) await objects.delete(object, signal)
      return removed.length
    })
  },
})
