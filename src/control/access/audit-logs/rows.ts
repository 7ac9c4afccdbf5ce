// The table of the audit log: written in batches, read newest first.
import { sql, type Insertable, type RawBuilder, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { PENDING, type AuditEntry } from '../../../http/audit.ts'
import type { Db } from '../../../store/db.ts'
import type { Tables } from '../../../store/tables.ts'
import type { AuditLogEntry, Filter, Position } from './contract.ts'

/** A row of the table, and of the buffer. A later version must be able to read rows of this one: new columns must be optional. */
export type AuditRow = Omit<Insertable<Tables['audit_log']>, 'at'> & { at: string }

/** The kind of a credential in the log, and the id of its owner. */
function userOf({ by }: AuditEntry): { strategy: string; id: string } {
  if (by.kind !== 'key' && by.kind !== 'user') return { strategy: by.kind, id: by.id }
  if (by.via) return { strategy: by.via.kind, id: by.id }
  return by.deployment === undefined ? { strategy: 'api_key', id: by.id } : { strategy: 'app', id: by.deployment }
}

/** Calls about the organization; below `/auth` only the call about the caller's own account. Their paths may name other projects. */
const ORGANIZATION = /^\/(org|audit-logs|auth\/context)\b/

/** The project whose keys see an entry: the effective one. For calls about the organization, only the project of the caller's own key. */
const projectOf = ({ route, by, project }: AuditEntry): string | undefined =>
  !ORGANIZATION.test(route) ? project : by.kind === 'key' || by.kind === 'user' ? by.project : undefined

/** The row of an entry. Its id is made here, so that a row which is written twice is still one event. */
export const rowOf = (entry: AuditEntry): AuditRow => {
  const { strategy, id } = userOf(entry)
  return {
    at: entry.at.toISOString(),
    event_id: newId(),
    project_id: projectOf(entry) ?? null,
    method: entry.method,
    path: entry.path,
    route: entry.route,
    status: entry.status,
    duration_ms: entry.durationMs,
    domain: entry.domain,
    client_ip: entry.clientIp,
    user_agent: entry.userAgent,
    auth_strategy: strategy,
    user_id: id,
    email: entry.by.kind === 'user' ? (entry.by.email ?? '') : null,
  }
}

/** Stores rows, and the results of rows that were stored without one. Repeating it changes nothing. @throws when the database refuses them */
export type StoreRows = (rows: readonly AuditRow[]) => Promise<void>

/** Stores rows in the table. */
export const storeRows =
  (db: Db): StoreRows =>
  async (rows) => {
    await sql`
    with stored as (
      insert into audit_log (at, event_id, project_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id, email)
      select r.* from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as r
        (at timestamptz, event_id text, project_id text, method text, path text, route text, status smallint, duration_ms integer,
         domain text, client_ip text, user_agent text, auth_strategy text, user_id text, email text)
      on conflict (at, event_id) do update set status = excluded.status, duration_ms = excluded.duration_ms
      where excluded.status not in (audit_log.status, ${PENDING})
      returning at, event_id)
    -- For exports. A result may come when its entry was exported without one.
    insert into audit_log_undelivered (destination_id, at, event_id)
    select d.id, e.at, e.event_id from stored e
    join audit_log_destinations d on d.deleted_at is null and d.active @> e.at
    on conflict do nothing`.execute(db)
  }

/** The email of a person; for a key, also one that was used to sign in, a placeholder as in `created_by` of API keys. Empty for others. */
const EMAIL = sql<string>`coalesce(audit_log.email, case when auth_strategy in ('api_key', 'dashboard', 'oauth') then user_id || '@key.cob.internal' else '' end)`

/** The columns of an answer. */
export const ENTRY = [
  ...(['event_id', 'at', 'method', 'path', 'route', 'status', 'duration_ms', 'domain', 'client_ip', 'user_agent', 'auth_strategy', 'user_id'] as const).map(
    (name) => `audit_log.${name}` as const,
  ),
  EMAIL.as('email'),
  'audit_log.project_id',
] as const

export const entryOf = ({ event_id, at, ...rest }: Omit<AuditLogEntry, 'timestamp'> & { at: Date }): AuditLogEntry => ({
  event_id,
  timestamp: at.toISOString(),
  ...rest,
})

const holds = (text: RawBuilder<string>, part: string): RawBuilder<SqlBool> => sql`strpos(lower(${text}), lower(${part}::text)) > 0`

/** Entries of a project (undefined: of all), newest first, after `position`. */
export async function findEntries(
  db: Db,
  project: string | undefined,
  { start, end, method, service, ...filter }: Filter,
  position: Position | undefined,
  limit: number,
): Promise<AuditLogEntry[]> {
  let select = db.selectFrom('audit_log').select(ENTRY).where('at', '>=', start).where('at', '<', end)
  if (project !== undefined) select = select.where('project_id', '=', project)
  if (position) select = select.where(sql<SqlBool>`(at, event_id) < (${position.at.toISOString()}::timestamptz, ${position.eventId})`)
  if (filter.auth_strategy) select = select.where('auth_strategy', '=', filter.auth_strategy)
  if (service) select = select.where(sql<SqlBool>`split_part(route, '/', 2) = ${service.toLowerCase()}`)
  if (method) select = select.where('method', '=', method.toUpperCase())
  const excluded = (filter.exclude_method ?? []).filter((one) => one !== '')
  if (excluded.length > 0) select = select.where(sql<SqlBool>`method <> all(${excluded.map((one) => one.toUpperCase())})`)
  const { search, search_user_id: users = [] } = filter
  const anyOf = [
    ...(search
      ? [sql.ref<string>('path'), sql.ref<string>('user_id'), EMAIL, sql.ref<string>('client_ip'), sql<string>`status::text`].map((text) => holds(text, search))
      : []),
    ...(users.some((user) => user !== '') ? [sql<SqlBool>`user_id = any(${users})`] : []),
  ]
  if (anyOf.length > 0) select = select.where((eb) => eb.or(anyOf))
  const rows = await select.orderBy('at', 'desc').orderBy('event_id', 'desc').limit(limit).execute()
  return rows.map(entryOf)
}
