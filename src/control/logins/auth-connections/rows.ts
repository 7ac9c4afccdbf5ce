// The rows of connections, and the queries that callers' calls need. Those for checks: checks.ts.
import { sql, type Insertable, type Selectable, type SqlBool, type Updateable } from 'kysely'
import type { Db } from '../../../store/db.ts'
import { newest, type Paging } from '../../../store/lists.ts'
import { holds, isNamed } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import type { GivenTelemetry } from '../../sessions/telemetry/contract.ts'
import type { Learned } from './flow.ts'

type Table = Tables['auth_connections']

/** The browser options of a connection. */
export interface StoredBrowser {
  stealth: boolean
  /** The caller's choice instead of a proxy. */
  proxy_mode?: 'direct' | 'default'
  region?: string
  /** In the caller's form, with the id of a destination in place of its name. */
  telemetry?: GivenTelemetry
}

/** The results of its last checks, counted in a row. */
export interface Checks {
  /** Failed re-logins. */
  failures?: number
  /** Inconclusive checks. */
  inconclusive?: number
  /** Checks that were not done. */
  undone?: number
  /** The version (reauth.ts) of the values that the site has refused. The service does not send them again by itself. */
  refused?: string
}

export type ConnectionRow = Omit<Selectable<Table>, 'browser' | 'learned' | 'checks' | 'status'> & {
  browser: StoredBrowser
  learned: Learned | null
  checks: Checks
  status: 'AUTHENTICATED' | 'NEEDS_AUTH'
}

export interface ConnectionFilter extends Paging {
  domain?: string | undefined
  profile_name?: string | undefined
  query?: string | undefined
}

const select = (db: Db, scope: string) =>
  db
    .selectFrom('auth_connections as c')
    .innerJoin('profiles as p', 'p.id', 'c.profile_id')
    .selectAll('c')
    .select('p.name as profile_name')
    .where('c.scope', '=', scope)
    // Connections of a deleted profile are about to be removed.
    .where('p.deleted_at', 'is', null)

export interface Whose {
  scope: string
  project: string
}

export type ConnectionWithProfile = ConnectionRow & { profile_name: string | null }

export const findConnection = async (db: Db, { scope, project }: Whose, id: string): Promise<ConnectionWithProfile | undefined> =>
  (await select(db, scope).where('c.project_id', '=', project).where('c.id', '=', id).executeTakeFirst()) as ConnectionWithProfile | undefined

export const connectionById = async (db: Db, id: string): Promise<ConnectionRow | undefined> =>
  (await db.selectFrom('auth_connections').selectAll().where('id', '=', id).executeTakeFirst()) as ConnectionRow | undefined

/** The same, for a change in this transaction. */
export const lockConnection = async (tx: Db, id: string): Promise<ConnectionRow | undefined> =>
  (await tx.selectFrom('auth_connections').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as ConnectionRow | undefined

/** One page, newest first, with one row more than `limit` when there are more. */
export const listConnections = async (
  db: Db,
  { scope, project }: Whose,
  { domain, profile_name: profile, query, ...paging }: ConnectionFilter,
): Promise<ConnectionWithProfile[]> =>
  (await select(db, scope)
    .where('c.project_id', '=', project)
    .where(domain ? isNamed('c.domain', domain) : sql<SqlBool>`true`)
    .where(profile ? sql<SqlBool>`p.name = ${profile}` : sql<SqlBool>`true`)
    .where(query ? sql<SqlBool>`(c.id = ${query} or ${holds('c.domain', query)} or ${holds('p.name', query)})` : sql<SqlBool>`true`)
    .$call(newest('c', paging))
    .execute()) as ConnectionWithProfile[]

/** Undefined when its profile was deleted meanwhile. */
export async function insertConnection(db: Db, row: Insertable<Table>): Promise<true | undefined> {
  return db.transaction().execute(async (tx) => {
    // Wait for a deletion of the profile that is under way.
    const profile = await tx.selectFrom('profiles').select('id').where('id', '=', row.profile_id).where('deleted_at', 'is', null).forShare().executeTakeFirst()
    if (!profile) return undefined
    await tx.insertInto('auth_connections').values(row).execute()
    return true
  })
}

/** The id of the connection of this profile at this domain. */
export const idOfPair = async (db: Db, project: string, profile: string, domain: string): Promise<string | undefined> =>
  (
    await db
      .selectFrom('auth_connections')
      .select('id')
      .where('project_id', '=', project)
      .where('profile_id', '=', profile)
      .where('domain', '=', domain)
      .executeTakeFirst()
  )?.id

/** False when it was deleted. */
export async function changeConnection(db: Db, id: string, changes: Updateable<Table>): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('auth_connections')
    .set({ ...changes, version: sql<number>`version + 1`, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Sets the columns that a flow's end changes. It is no change by a caller, so the version stays. */
export async function setConnection(tx: Db, id: string, columns: Record<string, unknown>): Promise<void> {
  const set = sql.join(Object.entries({ ...columns, updated_at: sql`now()` }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`))
  await sql`update auth_connections set ${set} where id = ${id}`.execute(tx)
}

export async function deleteConnection(db: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('auth_connections').where('id', '=', id).executeTakeFirst()
  return numDeletedRows > 0n
}

export const connectionsOfProfile = async (db: Db, profile: string): Promise<string[]> =>
  (await db.selectFrom('auth_connections').select('id').where('profile_id', '=', profile).execute()).map(({ id }) => id)

/** Number of connections of the service, or of a project. */
export async function countConnections(db: Db, { scope, project }: { scope?: string; project?: string }): Promise<number> {
  const { count } = await db
    .selectFrom('auth_connections')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .$if(scope !== undefined, (query) => query.where('scope', '=', scope!))
    .$if(project !== undefined, (query) => query.where('project_id', '=', project!))
    .executeTakeFirstOrThrow()
  return Number(count)
}
