// Removes web sessions that have ended.
import { sql } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

const AT_ONCE = 1_000

/** Sessions that have expired, and those of keys that were deleted. */
export const endedWebSessions = (db: Db): Purge => ({
  what: 'web sessions',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const { numAffectedRows } = await sql`
        delete from web_sessions where id in (
          select s.id from web_sessions s left join api_keys k on k.id = s.key_id where s.expires_at < now() or k.deleted_at < now() limit ${limit})`.execute(
        db,
      )
      return Number(numAffectedRows ?? 0)
    }),
})
