// All queries on the table of browser pools.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import type { PoolConfig } from './contract.ts'

/** The content of the column `config`: a configuration without the fields that have their own column. */
export type StoredConfig = Omit<PoolConfig, 'size' | 'name' | 'chrome_policy'>

/** The ids of the objects that a configuration named when it was given. */
export interface Resolved {
  extension_ids: readonly string[]
  profile_id?: string | undefined
  /** The destination of its browsers' telemetry. */
  destination_id?: string | undefined
}

export type PoolRow = Omit<Selectable<Tables['browser_pools']>, 'config' | 'resolved'> & { config: StoredConfig; resolved: Resolved }

/** A pool, and how many browsers it has. */
export type CountedPool = PoolRow & { acquired: number; available: number }

/** The projects in which a caller finds pools. Undefined: all, for the service itself. */
export interface Within {
  scope: string
  project: string | undefined
}

/** A text in the form of an id is compared with ids only: no name has that form. Names are compared without case. */
const called = (idOrName: string): RawBuilder<SqlBool> =>
  isId(idOrName) ? sql`browser_pools.id = ${idOrName}` : sql`lower(browser_pools.name) = lower(${idOrName})`

const kept = (db: Db, { scope, project }: Within) =>
  db
    .selectFrom('browser_pools')
    .where('browser_pools.scope', '=', scope)
    .$if(project !== undefined, (select) => select.where('browser_pools.project_id', '=', project!))
    .where('browser_pools.deleted_at', 'is', null)

/** The columns of a pool, without policies that have more than `maxPolicy` characters. */
const columns = (maxPolicy: number) =>
  [
    'id',
    'scope',
    'project_id',
    'name',
    'size',
    'config',
    'resolved',
    'problem',
    'generation',
    'oldest',
    'is_forced',
    'created_at',
    'deleted_at',
    sql<Record<string, unknown> | null>`case when length(chrome_policy::text) <= ${maxPolicy} then chrome_policy end`.as('chrome_policy'),
    sql<number>`(select count(*) from browsers b where b.pool_id = browser_pools.id and b.state in ('running', 'releasing'))`.as('acquired'),
    sql<number>`(select count(*) from browsers b where b.pool_id = browser_pools.id and b.state = 'warm')`.as('available'),
  ] as const

/** The row of a pool, with all of its policies. */
export async function findPool(db: Db, within: Within, idOrName: string): Promise<PoolRow | undefined> {
  return (await kept(db, within).selectAll().where(called(idOrName)).executeTakeFirst()) as unknown as PoolRow | undefined
}

/** A pool to be shown. */
export async function countedPool(db: Db, within: Within, idOrName: string, maxPolicy: number): Promise<CountedPool | undefined> {
  const row = kept(db, within).select(columns(maxPolicy)).where(called(idOrName))
  return (await row.executeTakeFirst()) as unknown as CountedPool | undefined
}

/** The columns of a pool that its acquires and releases need. */
export const poolOfCaller = (db: Db, within: Within, idOrName: string) =>
  kept(db, within).select(['id', 'name', 'config', 'resolved']).where(called(idOrName)).executeTakeFirst() as Promise<PoolOfCaller | undefined>
type PoolOfCaller = Pick<PoolRow, 'id' | 'name' | 'config' | 'resolved'>

/** One page of pools, newest first, with one row more than `limit` when there are more. */
export const listPools = async (db: Db, within: Within, filter: Asked, maxPolicy: number): Promise<CountedPool[]> =>
  (await kept(db, within)
    .select(columns(maxPolicy))
    .where(isAskedFor('browser_pools', filter))
    .$call(newest('browser_pools', filter))
    .execute()) as unknown as CountedPool[]

export interface NewPool {
  id: string
  scope: string
  project_id: string
  name: string | null
  size: number
  config: StoredConfig
  chrome_policy: Record<string, unknown> | undefined
  resolved: Resolved
}

/** What an update may change. */
type PoolChanges = Omit<NewPool, 'id' | 'scope' | 'project_id'>

const stored = ({ name, size, config, chrome_policy: policy, resolved }: PoolChanges) => ({
  name,
  size,
  config: JSON.stringify(config),
  resolved: JSON.stringify(resolved),
  chrome_policy: policy === undefined ? null : JSON.stringify(policy),
})

export const insertPool = async (db: Db, { id, scope, project_id, ...pool }: NewPool): Promise<void> =>
  void (await db
    .insertInto('browser_pools')
    .values({ id, scope, project_id, ...stored(pool) })
    .execute())

/**
 * Changes a pool if its configuration still has this `generation`; false when it has another one, or the pool was deleted. `discards`: idle browsers of earlier
 * generations are ended.
 */
export async function changePool(db: Db, id: string, generation: number, changes: PoolChanges, discards: boolean): Promise<boolean> {
  const row = await db
    .updateTable('browser_pools')
    .set({ ...stored(changes), generation: generation + 1, problem: null, ...(discards && { oldest: generation + 1 }) })
    .where('id', '=', id)
    .where('generation', '=', generation)
    .where('deleted_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Deletes a pool. Returns the number of browsers that callers have; undefined when the pool was already deleted. Unless `force`, the pool is deleted only when
 * that number is 0.
 */
export const deletePool = (db: Db, id: string, force: boolean): Promise<number | undefined> =>
  db.transaction().execute(async (tx) => {
    const row = await tx.selectFrom('browser_pools').select('id').where('id', '=', id).where('deleted_at', 'is', null).forUpdate().executeTakeFirst()
    if (!row) return undefined
    const { rows } = await sql<{
      acquired: number
    }>`select count(*) as acquired from browsers where pool_id = ${id} and state in ('running', 'releasing')`.execute(tx)
    const { acquired } = rows[0]!
    if (acquired === 0 || force)
      await tx
        .updateTable('browser_pools')
        // Remove the policies now: otherwise a caller could fill the disk with policies of deleted pools.
        .set({ deleted_at: sql`now()`, is_forced: force, chrome_policy: null })
        .where('id', '=', id)
        .execute()
    return acquired
  })

/** Number of a pool's browsers, including those that are ending. */
export const poolSeats = async (db: Db, id: string): Promise<number> =>
  (await sql<{ seats: number }>`select count(*) as seats from browsers where pool_id = ${id} and state <> 'deleted'`.execute(db)).rows[0]!.seats

/** Records why the last browser of a pool could not be made; null when it was made. */
export const notePoolProblem = async (db: Db, id: string, problem: string | null): Promise<void> =>
  void (await db
    .updateTable('browser_pools')
    .set({ problem })
    .where('id', '=', id)
    .where(sql<SqlBool>`problem is distinct from ${problem}`)
    .execute())

/** The names of pools, by their ids, also of deleted ones. */
export async function poolNames(db: Db, ids: readonly string[]): Promise<Map<string, string | undefined>> {
  const rows = await db.selectFrom('browser_pools').select(['id', 'name']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, name }) => [id, name ?? undefined]))
}
