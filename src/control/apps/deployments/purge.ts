// Removes old lines of logs, and the rows of deployments that were deleted or ended long ago, with their events.
import { sql, type SqlBool } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import { EVENTS_AT_ONCE, removeEvents } from '../apps/app-events.ts'
import type { Purge } from '../../module.ts'
import { deploymentLifecycle } from './lifecycle.ts'

/** A deleted deployment's record, events and runs are kept this long. */
const KEEP_DELETED = sql`interval '7 days'`
/** Lines of logs are kept this long: an hour more than a reader can look back. */
const KEEP_LOGS = sql`interval '168 hours'`

const TERMINAL = deploymentLifecycle.states.filter((state) => deploymentLifecycle.isTerminal(state))

/** Lines of logs that readers cannot ask for any more. */
export const oldLines = (db: Db, scope: string): Purge => ({
  what: 'lines of logs',
  async run(signal) {
    const old = sql<SqlBool>`kind = 'log' and at < now() - ${KEEP_LOGS}`
    const deployments = await db
      .selectFrom('deployments')
      .select('id')
      .where('scope', '=', scope)
      .where('id', 'in', (eb) => eb.selectFrom('app_events').select('deployment_id').where(old))
      .execute()
    let removed = 0
    for (const { id } of deployments) removed += await inBatches(EVENTS_AT_ONCE, signal, (most) => removeEvents(db, id, old, most))
    return removed
  },
})

/** Deployments of this scope that were deleted a week ago, or ended more than `days` ago and have no runs any more. Only after their cleanup is complete. */
export const endedDeployments = (db: Db, scope: string, days: number): Purge => ({
  what: 'deployments',
  async run(signal) {
    const old = await db
      .selectFrom('deployments as d')
      .select('d.id')
      .where('d.scope', '=', scope)
      .where('d.state', 'in', TERMINAL)
      .where('d.secrets', 'is', null)
      .where(
        sql<SqlBool>`((d.deletion = 'deleted' and d.deleted_at < now() - ${KEEP_DELETED}) or (d.finished_at < now() - ${days} * interval '1 day'
          and not exists (select from invocations i where i.deployment_id = d.id)
          and not exists (select from app_versions v where v.deployment_id = d.id)))`,
      )
      .execute()
    let removed = 0
    for (const { id } of old) {
      await inBatches(EVENTS_AT_ONCE, signal, (most) => removeEvents(db, id, sql`true`, most))
      if (signal.aborted) break
      await db.deleteFrom('deployments').where('id', '=', id).execute()
      removed++
    }
    return removed
  },
})
