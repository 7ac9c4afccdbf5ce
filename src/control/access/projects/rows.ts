// All queries on the tables of projects and limits.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor, isCalled } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import type { Holding } from '../../module.ts'
import type { UpdateOrgLimits, UpdateProject, UpdateProjectLimits } from './contract.ts'

export type ProjectRow = Selectable<Tables['projects']>

/** A text in the form of an id is compared with ids only. */
const called = (idOrName: string): RawBuilder<SqlBool> => (isId(idOrName) ? sql`id = ${idOrName}` : isCalled('name', idOrName))

export const findProject = (db: Db, idOrName: string): Promise<ProjectRow | undefined> =>
  db.selectFrom('projects').selectAll().where(called(idOrName)).executeTakeFirst()

/** The same, with a lock: until the transaction ends, nobody else changes or deletes the project, or creates an object in it. */
export const lockProject = (tx: Db, id: string): Promise<ProjectRow | undefined> =>
  tx.selectFrom('projects').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()

/** One page of projects, newest first, with one row more than `limit` when there are more. `only`: limits the list to these. */
export const listProjects = (db: Db, only: readonly string[] | undefined, filter: Asked): Promise<ProjectRow[]> =>
  db
    .selectFrom('projects')
    .selectAll()
    .$if(only !== undefined, (select) => select.where(sql<SqlBool>`id = any(${only!})`))
    .where(isAskedFor('projects', filter))
    .$call(newest('projects', filter))
    .execute()

export const insertProject = (db: Db, id: string, name: string): Promise<ProjectRow> =>
  db.insertInto('projects').values({ id, name }).returningAll().executeTakeFirstOrThrow()

/** Undefined when it was deleted. */
export const updateProject = (db: Db, id: string, { name, status }: UpdateProject): Promise<ProjectRow | undefined> =>
  db
    .updateTable('projects')
    .set({ updated_at: sql`now()`, ...(name !== undefined && { name }), ...(status !== undefined && { status }) })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()

/** Whether any project but this one is active. */
export const hasOtherActive = async (db: Db, id: string): Promise<boolean> =>
  (await db.selectFrom('projects').select('id').where('status', '=', 'active').where('id', '<>', id).limit(1).executeTakeFirst()) !== undefined

/** The ids of at most `limit` rows of a project that are over, without the first `except` ones. */
export async function someOver(db: Db, id: string, table: keyof Tables, isOver: RawBuilder<SqlBool>, except: number, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from ${sql.table(table)} where project_id = ${id} and ${isOver} offset ${except} limit ${limit}`.execute(db)
  return rows.map((row) => row.id)
}

/** Number of rows that keep a project from being deleted. */
export async function countHeld(db: Db, id: string, { table, isOver = sql`false`, keeps = sql`not (${isOver})` }: Holding): Promise<number> {
  const { rows } = await sql<{ held: string }>`select count(*) as held from ${sql.table(table)} where project_id = ${id} and ${keeps}`.execute(db)
  return Number(rows[0]!.held)
}

/**
 * Detaches objects from their project, as its deletion does. Returns their number. Skips rows that another statement has locked, so that two deletions cannot
 * deadlock.
 */
export async function leaveProject(db: Db, id: string, table: keyof Tables, ids: string[]): Promise<number> {
  const { numAffectedRows } = await sql`
    update ${sql.table(table)} set project_id = null where id in (
      select id from ${sql.table(table)} where id = any(${ids}) and project_id = ${id} for no key update skip locked)`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** Deletes a project, and its keys by their foreign key. Its ended objects then belong to no project: nobody sees them until they are purged. */
export const removeProject = async (tx: Db, id: string): Promise<void> => void (await tx.deleteFrom('projects').where('id', '=', id).execute())

/** Zero means no limit, which is stored as null. */
const orNone = (limit: number): number | null => (limit === 0 ? null : limit)

/** Undefined when the project was deleted. */
export const updateLimits = (db: Db, id: string, changes: UpdateProjectLimits): Promise<ProjectRow | undefined> =>
  db
    .updateTable('projects')
    .set({
      updated_at: sql`updated_at`,
      ...(changes.max_concurrent_sessions !== undefined && { max_concurrent_sessions: orNone(changes.max_concurrent_sessions) }),
      ...(changes.max_concurrent_invocations !== undefined && { max_concurrent_invocations: orNone(changes.max_concurrent_invocations) }),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()

export const orgLimits = (db: Db): Promise<Selectable<Tables['org_limits']>> => db.selectFrom('org_limits').selectAll().executeTakeFirstOrThrow()

export const updateOrgLimits = (db: Db, { default_project_max_concurrent_sessions: most }: UpdateOrgLimits): Promise<Selectable<Tables['org_limits']>> =>
  db
    .updateTable('org_limits')
    .set({ only_row: true, ...(most !== undefined && { default_project_max_concurrent_sessions: orNone(most) }) })
    .returningAll()
    .executeTakeFirstOrThrow()

/** The limits of a project in addition to those of the service; null: none. Undefined when the project was deleted. */
export const effectiveLimits = (db: Db, id: string): Promise<{ sessions: number | null; invocations: number | null } | undefined> =>
  db
    .selectFrom('projects as p')
    .innerJoin('org_limits as o', (join) => join.onTrue())
    .select((eb) => [
      eb.fn.coalesce('p.max_concurrent_sessions', 'o.default_project_max_concurrent_sessions').as('sessions'),
      'p.max_concurrent_invocations as invocations',
    ])
    .where('p.id', '=', id)
    .executeTakeFirst()
