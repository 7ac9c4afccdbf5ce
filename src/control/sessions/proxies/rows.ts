// The proxies' rows: all queries on them.
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

/** What names a proxy: a path by either, an option of a browser by one of them. */
export type Naming = string | { id: string } | { name: string }

/** The proxies of a project that are named so: none, one, or two of several. Names are compared letter by letter. */
export async function findProxies(db: Db, project: string, by: Naming): Promise<ProxyRow[]> {
  // No name has the form of an id.
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

/** Undefined when it is gone. */
export const changeProxy = async (
  db: Db,
  id: string,
  changes: { name: string } | Pick<ProxyRow, 'status' | 'ip_address' | 'last_checked'>,
): Promise<ProxyRow | undefined> =>
  (await db.updateTable('proxies').set(changes).where('id', '=', id).where('deleted_at', 'is', null).returningAll().executeTakeFirst()) as unknown as
    | ProxyRow
    | undefined

/** Live sessions use it: for all hosts, or for some (`network.proxy_routes`). */
export const isInUse = sql<SqlBool>`(
  exists (select from browsers b where b.options->>'proxy_id' = proxies.id and b.options ? 'proxy_id' and b.deleted_at is null)
  or exists (select from browsers b where b.deleted_at is null and b.options->'network' ? 'proxy_routes'
    and b.options->'network'->'proxy_routes' @> jsonb_build_array(jsonb_build_object('proxy', jsonb_build_object('id', proxies.id)))))`

/** Connections of managed auth use it, or a login in progress that was started with it. */
const isOfLogins = sql<SqlBool>`(
  exists (select from auth_connections c where c.proxy_id = proxies.id)
  or exists (select from auth_flows f where f.state = 'IN_PROGRESS' and f.asked->>'proxy_id' = proxies.id))`

/** How many connections of managed auth have this proxy. */
export async function countLogins(db: Db, id: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from auth_connections where proxy_id = ${id})
      + (select count(*) from auth_flows where state = 'IN_PROGRESS' and asked->>'proxy_id' = ${id}) as count`.execute(db)
  return Number(rows[0]!.count)
}

/** Marks it deleted; what is secret stays only as long as sessions use it. False when it is gone already, or managed auth uses it. */
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

/** Forgets what is secret of some deleted proxies that no session uses any more; how many they were. */
export async function forgetSecrets(db: Db, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    update proxies set secrets = null where id in (
      select id from proxies where deleted_at is not null and secrets is not null and not ${isInUse} limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
