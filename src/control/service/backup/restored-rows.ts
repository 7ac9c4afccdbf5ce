// Changes in restored rows: the service that was backed up may still run, and two services must never use the same instances.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { renameDatabase } from '../../../store/fill-database.ts'
import { FORGET, moveFlow } from '../../logins/auth-connections/lifecycle.ts'
import type { EndReason } from '../../sessions/browsers/end-step.ts'
import { ended, moveBrowser } from '../../sessions/browsers/lifecycle.ts'
import { moveDeployment } from '../../apps/deployments/lifecycle.ts'
import { moveInvocation } from '../../apps/invocations/lifecycle.ts'

const WHY = 'the service was restored from a backup, in which it was not complete'

export interface RestoredAs {
  /** The scope of the service that was backed up, and that of the restored service. */
  scope: { from: string; to: string }
  /** Other scopes of its database. */
  others: readonly string[]
  /** Creation time of the database. */
  madeAt: string
}

export interface Changes {
  sessions: number
  runs: number
  builds: number
  logins: number
  /** The scopes of other services: the old ones in their rows, and the new ones. */
  scopes: { from: string; to: string }[]
  /** Work of the restored service that other systems notice: logins, exports. */
  outward: { connections: number; telemetry: number; auditLog: number }
}

/**
 * Gives the rows to another scope, and ends everything that was running: its instances belong to the service that was backed up. Drivers find instances by the
 * ids of rows, whatever their scope, so no row of a running instance may stay. Queued runs are ended as well: they may have run since.
 */
export async function changeRows(db: Db, { scope, others, madeAt }: RestoredAs): Promise<Changes> {
  const scopes = [scope, ...(scope.from === scope.to ? [] : others.map((from) => ({ from, to: newId() })))]
  for (const { from, to } of scopes)
    if (from !== to) for (const table of await tablesWithScope(db)) await sql`update ${sql.table(table)} set scope = ${to} where scope = ${from}`.execute(db)
  await sql`delete from leases`.execute(db)

  const sessions = await db.selectFrom('browsers').select(['id', 'end_reason', 'profile_save', 'profile_end']).where('state', '<>', 'deleted').execute()
  for (const { id, end_reason, profile_save, profile_end } of sessions) {
    const reason = (end_reason as EndReason | null) ?? 'lost'
    await moveBrowser(db, id, 'failed', WHY, ended(reason))
    const save = profile_save && profile_end === null && { profile_end: JSON.stringify({ saved: 'not', message: `not saved: ${WHY}` }) }
    await moveBrowser(db, id, 'deleted', reason, { ...ended(reason), endpoint: null, ...save })
  }
  const runs = await db.selectFrom('invocations').select('id').where('finished_at', 'is', null).execute()
  for (const { id } of runs)
    await moveInvocation(db, id, 'failed', WHY, { output: JSON.stringify({ error: WHY }), status_reason: WHY, finished_at: new Date() })
  const builds = await db.selectFrom('deployments').select('id').where('state', '=', 'in_progress').execute()
  for (const { id } of builds) await moveDeployment(db, id, 'failed', `${WHY}; deploy it again`)
  const logins = await db.selectFrom('auth_flows').select('id').where('state', '=', 'IN_PROGRESS').execute()
  for (const { id } of logins)
    await moveFlow(db, id, 'CANCELED', null, { ...FORGET, step: 'COMPLETED', pause: null, error_message: WHY, updated_at: new Date(), finished_at: new Date() })
  // People have to sign in again: a sign-in may have been ended since the backup, and each use of a refresh token makes a new one.
  await db.deleteFrom('web_sessions').execute()
  await db.deleteFrom('oauth_grants').execute()
  await renameDatabase(db, madeAt)
  return { sessions: sessions.length, runs: runs.length, builds: builds.length, logins: logins.length, scopes: scopes.slice(1), outward: await outward(db) }
}

/** Tables with our column `scope`. The scope of OAuth is another type, a list of texts. */
async function tablesWithScope(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'scope' and a.atttypid = 'text'::regtype and not a.attisdropped
    where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and c.relkind in ('r', 'p') and not c.relispartition order by 1`.execute(db)
  return rows.map(({ name }) => name)
}

async function outward(db: Db): Promise<Changes['outward']> {
  const { rows } = await sql<Changes['outward']>`
    select (select count(*) from auth_connections where health_checks or auto_reauth) as connections,
           (select count(*) from telemetry_destinations where deleted_at is null) as telemetry,
           (select count(*) from audit_log_destinations where deleted_at is null and status = 'active') as "auditLog"`.execute(db)
  return rows[0]!
}
