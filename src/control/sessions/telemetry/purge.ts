// Removes telemetry that is older than its retention.
import { inBatches } from '../../../store/batches.ts'
import type { Purge } from '../../module.ts'
import type { Archive } from './read.ts'
import { oldObjects, removeObjectRow, removeOldRows } from './rows.ts'

const AT_ONCE = 500
const DAY_MS = 24 * 3600_000

/** Runs of events of this scope whose last event is older than `days`. */
export const oldTelemetry = ({ db, objects }: Archive, scope: string, days: number): Purge => ({
  what: 'telemetry',
  async run(signal) {
    const before = (Date.now() - days * DAY_MS) * 1000
    const rows = await inBatches(AT_ONCE, signal, (limit) => removeOldRows(db, scope, before, limit))
    const merged = await inBatches(AT_ONCE, signal, async (limit) => {
      const old = await oldObjects(db, scope, before, limit)
      for (const { session_id: id, first_seq: seq, object } of old) {
        signal.throwIfAborted()
        // The row first, which could not be read without the object. An object that is left is removed by the sweep.
        await removeObjectRow(db, id, seq, object)
        await objects.delete(object, signal)
      }
      return old.length
    })
    return rows + merged
  },
})
