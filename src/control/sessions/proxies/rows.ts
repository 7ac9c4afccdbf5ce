// All queries on the table of proxies.
import { sql, type Insertable, type Selectable, type SqlBool } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import type { CreateProxy, Proxy } from './contract.ts'

export type ProxyRow = Omit<Selectable<Tables['proxies']>, 'config' | 'type' | 'protocol'> & {
  type: CreateProxy['type']
  protocol: Proxy['protocol']
  config: Proxy['config']
}

const kept = (db: Db, project: string) => db.selectFrom('proxies').selectAll().where('project_id', '=', project).where('deleted_at', 'is', null)

/** How a proxy is named: an id or a name in a path; one of the two in an option of a browser. */
export type Naming = string | { id: string } | { name: string }

/** The proxies of a project with this id or name: none, one, or two if there are several. Names are compared exactly. */
export async function findProxies(db: Db, project: string, by: Naming): Promise<ProxyRow[]> {
  // A text in the form of an id is compared with ids only.
  const [column, value] =
    typeof by === 'string' ? ([isId(by) ? 'id' : 'name', by] as const) : 'id' in by ? (['id', by.id] as const) : (['name', by.name] as const)
  return (await kept(db, project).where(column, '=', value).limit(2).execute()) as unknown as ProxyRow[]
}

/** The proxy of a session, also when it was deleted after the session had chosen it. */
export const proxyOfSession = async (db: Db, project: string, id: string): Promise<ProxyRow | undefined> =>
  (await db.selectFrom('proxies').selectAll().where('id', '=', id).where('project_id', '=', project).executeTakeFirst()) as unknown as ProxyRow | undefined

/** One page of proxies, newest first, with one row more than `limit` when there are more. */
export const listProxies = async (db: Db, project: string, filter: Asked): Promise<ProxyRow[]> =>
  (await kept(db, project).where(isAskedFor('proxies', filter)).$call(newest('proxies', filter)).execute()) as unknown as ProxyRow[]

export const insertProxy = async (db: Db, row: Insertable<Tables['proxies']>): Promise<ProxyRow> =>
  (await db.insertInto('proxies').values(row).returningAll().executeTakeFirstOrThrow()) as unknown as ProxyRow

/** Undefined when it was deleted. */
export const changeProxy = async (
  db: Db,
  id: string,
  changes: { name: string } | Pick<ProxyRow, 'status' | 'ip_address' | 'last_checked'>,
): Promise<ProxyRow | undefined> =>
  (await db.updateTable('proxies').set(changes).where('id', '=', id).where('deleted_at', 'is', null).returningAll().executeTakeFirst()) as unknown as
    | ProxyRow
    | undefined

/** Whether live sessions use it, for all hosts or for some (`network.proxy_routes`). */
export const isInUse = sql<SqlBool>`(
  exists (select from browsers b where b.options->>'proxy_id' = proxies.id and b.options ? 'proxy_id' and b.deleted_at is null)
  or exists (select from browsers b where b.deleted_at is null and b.options->'network' ? 'proxy_routes'
    and b.options->'network'->'proxy_routes' @> jsonb_build_array(jsonb_build_object('proxy', jsonb_build_object('id', proxies.id)))))`

/** Whether an auth connection uses it, or a login in progress that was started with it. */
const isOfLogins = sql<SqlBool>`(
  exists (select from auth_connections c where c.proxy_id = proxies.id)
  or exists (select from auth_flows f where f.state = 'IN_PROGRESS' and f.asked->>'proxy_id' = proxies.id))`

/** Number of auth connections with this proxy. */
export async function countLogins(db: Db, id: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from auth_connections where proxy_id = ${id})
      + (select count(*) from auth_flows where state = 'IN_PROGRESS' and asked->>'proxy_id' = ${id}) as count`.execute(db)
  return Number(rows[0]!.count)
}

/** Marks it deleted. Its secrets stay only as long as sessions use them. False when it is already deleted, or an auth connection uses it. */
export async function deleteProxy(db: Db, id: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('proxies')
    .set({ deleted_at: sql<Date>`now()`, secrets: sql<Buffer | null>`case when ${isInUse} then secrets end` })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .where(sql<SqlBool>`not ${isOfLogins}`)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Removes the secrets of at most `limit` deleted proxies that no session uses any more. Returns their number. */
export async function forgetSecrets(db: Db, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    update proxies set secrets = null where id in (
      select id from proxies where deleted_at is not null and secrets is not null and not ${isInUse} limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
