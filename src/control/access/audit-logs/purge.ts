// Removes old entries of the audit log, and leftovers of its exports.
import { sql } from 'kysely'
import { sleep } from '../../../base/wait.ts'
import { deletedBefore, inBatches, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'
import { removeUndeliverable } from './exports/rows.ts'

const AT_ONCE = 5_000

/**
 * Entries that are older than `days`. After each batch it pauses for as long as the batch took, so that other queries get at least half of the database's time.
 */
export const oldEntries = (db: Db, days: number): Purge => ({
  what: 'entries of the audit log',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const began = performance.now()
      const { numAffectedRows } = await sql`
        delete from audit_log where (at, event_id) in (
          select at, event_id from audit_log where at < now() - ${days} * interval '1 day' order by at, event_id limit ${limit})`.execute(db)
      await sleep(performance.now() - began, signal)
      return Number(numAffectedRows ?? 0)
    }),
})

/** Destinations that were deleted more than `days` ago, and entries that were not exported within `logDays`. */
export const oldExports = (db: Db, days: number, logDays: number): Purge => ({
  what: 'exports of the audit log',
  async run(signal) {
    const entries = await inBatches(AT_ONCE, signal, (limit) => removeUndeliverable(db, logDays, limit))
    return entries + (await removeRows(db, signal, 'audit_log_destinations', deletedBefore(days)))
  },
})
