// Removes the rows of sessions that ended long ago, and their events.
import { sql } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

const AT_ONCE = 500

/** Sessions of this scope that ended more than `days` ago. A session stays as long as its replays and its telemetry, because those are found through it. */
export const endedSessions = (db: Db, scope: string, days: number): Purge => ({
  what: 'sessions',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const { numAffectedRows } = await sql`
        delete from browsers where id in (
          select b.id from browsers b
          where b.scope = ${scope} and b.state = 'deleted' and b.deleted_at < now() - ${days} * interval '1 day'
            and not exists (select from replays r where r.browser_id = b.id)
            and not exists (select from telemetry_segments s where s.session_id = b.id)
          limit ${limit})`.execute(db)
      return Number(numAffectedRows ?? 0)
    }),
})
