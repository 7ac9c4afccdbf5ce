// Removes the rows of runs that ended long ago, and their events.
import { sql } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import { EVENTS_AT_ONCE, removeEvents } from '../apps/app-events.ts'
import type { Purge } from '../../module.ts'
import { END_STATES } from './lifecycle.ts'

const AT_ONCE = 500

/** Runs of this scope's deployments that ended more than `days` ago. */
export const endedRuns = (db: Db, scope: string, days: number): Purge => ({
  what: 'runs',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const { rows } = await sql<{ deployment_id: string; ids: string[] }>`
        select deployment_id, array_agg(id) as ids from (
          select i.id, i.deployment_id from invocations i join deployments d on d.id = i.deployment_id
          where d.scope = ${scope} and i.state = any(${END_STATES}) and i.finished_at < now() - ${days} * interval '1 day'
          limit ${limit}) old
        group by deployment_id`.execute(db)
      let removed = 0
      for (const { deployment_id, ids } of rows) {
        // A run may have many lines. Remove them first, in separate batches; then its row is cheap to remove.
        await inBatches(EVENTS_AT_ONCE, signal, (most) => removeEvents(db, deployment_id, sql`invocation_id = any(${ids})`, most))
        if (signal.aborted) break
        await db.deleteFrom('invocations').where('id', 'in', ids).execute()
        removed += ids.length
      }
      return removed
    }),
})
