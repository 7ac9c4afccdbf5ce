// The rows of browsers of pools: inserted for a pool, lent to its callers, given back, and ended when the pool does not want them any more.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Db } from '../../../store/db.ts'
import type { StoredTelemetry } from '../telemetry/contract.ts'
import { ended, moveBrowser } from './lifecycle.ts'
import { insertStarting, moveFirstBrowser, type BrowserOptions, type BrowserRow, type Ownership, type Watched } from './rows.ts'

/** The options and the profile that a browser of a pool gets again when its caller gives it back. */
export interface Baseline {
  options: BrowserOptions
  /** The pool's profile. A caller may load another profile into a browser of a pool without one. */
  profile_id?: string
}

/** A pool of this scope, and how many browsers it has. */
export interface PoolCount {
  id: string
  size: number
  /** How much of its size is replaced in a minute, in percent. */
  rate: number
  /** Browsers that wait for a caller. */
  idle: number
  /** Number of its browsers, without those that this replica is starting now: this replica counts these itself. */
  there: number
  /** How many of its browsers were ended so far in order to be replaced. */
  discarded: number
}

/** The browsers that are kept ready in a scope. */
interface Kept {
  /** Number of browsers that no session has claimed, by kind. Browsers of pools are not counted. */
  ready: Map<string | null, number>
  /** The pools that are not deleted. */
  pools: PoolCount[]
  /** Number of browsers that are left of deleted pools. */
  orphans: number
}

/** Counts the browsers that are kept ready. Of the browsers that are starting, a pool counts only those of other replicas. */
export async function countKept(db: Db, { scope, replica }: Watched): Promise<Kept> {
  const { rows } = await sql<PoolCount & { pool_id: string | null; kind: string | null; all: number }>`
    select p.id, p.size, (p.config->>'fill_rate_per_minute')::int as rate, p.discarded, coalesce(b.idle, 0) as idle, coalesce(b.there, 0) as there, b.pool_id, b.kind, b.all
    from (select * from browser_pools where scope = ${scope} and deleted_at is null) p
    full join (
      select pool_id, case when pool_id is null then warm_kind end as kind, count(*) as all, count(*) filter (where state = 'warm') as idle,
        count(*) filter (where state <> 'starting' or replica is distinct from ${replica}) as there
      from browsers where scope = ${scope} and state <> 'deleted' and (pool_id is not null or state = 'warm') group by 1, 2) b on b.pool_id = p.id
    order by p.created_at, p.id`.execute(db)
  return {
    ready: new Map(rows.flatMap(({ id, pool_id, kind, idle }) => (id === null && pool_id === null ? [[kind, idle]] : []))),
    pools: rows.filter(({ id }) => id !== null),
    orphans: rows.reduce((sum, { id, pool_id, all }) => sum + (id === null && pool_id !== null ? all : 0), 0),
  }
}

/** The values of a new row for a pool. */
export interface PoolOwnership extends Ownership {
  pool: string
  generation: number
  baseline: Baseline
}

/** Inserts a row for a new browser of a pool; undefined when the pool is full, or was deleted. */
export const insertPooled = (db: Db, id: string, watched: Watched, wanted: PoolOwnership): Promise<BrowserRow | undefined> =>
  db.transaction().execute(async (tx) => {
    // Count after the lock: another replica may just have inserted one.
    const { rows: pools } = await sql<{
      size: number
    }>`select size from browser_pools where id = ${wanted.pool} and deleted_at is null for no key update`.execute(tx)
    const { rows } = await sql<{ there: number }>`select count(*) as there from browsers where pool_id = ${wanted.pool} and state <> 'deleted'`.execute(tx)
    if (!pools[0] || rows[0]!.there >= pools[0].size) return undefined
    const pooled = { pool_id: wanted.pool, pool_generation: wanted.generation, pool_baseline: JSON.stringify(wanted.baseline) }
    return insertStarting(tx, id, watched, null, wanted, pooled)
  })

/** A caller's wishes for a browser that it acquires from a pool, until it gives it back. */
export interface Acquisition {
  name: string | undefined
  tags: Record<string, string>
  start_url: string | undefined
  /** Its captured data, if it differs from its pool's; null when nothing is captured. */
  telemetry?: StoredTelemetry | null | undefined
}

/** Lends the browser of a pool that has been idle longest, first among those that this replica watches, in one statement. Undefined when none is idle. */
export async function lendFirst(
  db: Db,
  { scope, replica }: Watched,
  pool: string,
  { name, tags, start_url: url, telemetry }: Acquisition,
): Promise<BrowserRow | undefined> {
  const times = { created_at: sql`now()`, last_active_at: sql`now()` }
  const said = { ...(url !== undefined && { start_url: url }), ...(telemetry && { telemetry }) }
  const merged = sql`t.options || ${JSON.stringify(said)}::jsonb`
  const options = url === undefined && telemetry === undefined ? {} : { options: telemetry === null ? sql`(${merged}) - 'telemetry'` : merged }
  const columns = { name: name ?? null, tags: JSON.stringify(tags), lease: sql`t.lease + 1`, ...options, ...times }
  // Checks the pool and locks its row. So a concurrent delete of the pool either counts this caller, or has finished before. A browser that came up after its
  // configuration was discarded is not lent, but ended.
  const isThere = sql`exists (
    select from browser_pools p where p.id = ${pool} and p.deleted_at is null and (t.lease > 0 or t.pool_generation >= p.oldest) for key share)`
  const which = sql<SqlBool>`state = 'warm' and scope = ${scope} and pool_id = ${pool} and ${isThere}`
  return moveFirstBrowser(db, which, sql`replica is distinct from ${replica}, made_at`, 'running', 'lent', columns)
}

/** Takes a browser away from its caller, before it is put back or ended. Returns its row; undefined when this caller does not have it any more. */
export async function beginRelease(db: Db, { id, lease }: Pick<BrowserRow, 'id' | 'lease'>): Promise<BrowserRow | undefined> {
  const moved = await moveBrowser(db, id, 'releasing', 'given back', { last_active_at: sql`now()` }, sql`lease = ${lease}`)
  if (moved === undefined) return undefined
  return (await db.selectFrom('browsers').selectAll().where('id', '=', id).executeTakeFirst()) as unknown as BrowserRow | undefined
}

/** Makes a browser wait for the next caller of its pool; false when it has ended. It is lent after all others that wait. */
export async function endRelease(db: Db, id: string): Promise<boolean> {
  const columns = { name: null, tags: '{}', options: sql`t.pool_baseline->'options'`, last_active_at: null, made_at: sql`now()` }
  return (await moveBrowser(db, id, 'warm', 'given back', columns)) !== undefined
}

/** A browser that a caller of this pool has given back, or is about to; undefined when there is none. */
export async function pooledBrowser(db: Db, pool: string, id: string): Promise<BrowserRow | undefined> {
  const row = await db.selectFrom('browsers').selectAll().where('id', '=', id).where('pool_id', '=', pool).where('state', '<>', 'deleted').executeTakeFirst()
  return row as unknown as BrowserRow | undefined
}

/**
 * A browser that a caller has, or that is idle in a pool or returning to it. Undefined when it has ended, or when no caller has it and it belongs to no pool.
 */
export async function keptBrowser(db: Db, scope: string, id: string): Promise<BrowserRow | undefined> {
  const rows = db.selectFrom('browsers').selectAll().where('id', '=', id).where('scope', '=', scope).where('deleted_at', 'is', null)
  return (await rows.where(sql<SqlBool>`(state = 'running' or pool_id is not null)`).executeTakeFirst()) as unknown as BrowserRow | undefined
}

/** True when the pool refreshes its browsers and its profile has a newer version than the browser `t` has loaded. */
const HAS_OLD_PROFILE = sql<SqlBool>`(
  coalesce((p.config->>'refresh_on_profile_update')::boolean, false)
  and exists (select from profiles f where f.id = t.profile_id and f.deleted_at is null and f.version_id is distinct from t.profile_version))`

/** Whether a browser of a pool, by its row, has an old version of the pool's profile. */
export async function hasOldProfile(db: Db, id: string): Promise<boolean> {
  const { rows } = await sql`select from browsers t join browser_pools p on p.id = t.pool_id where t.id = ${id} and ${HAS_OLD_PROFILE}`.execute(db)
  return rows.length > 0
}

const endFirst = (db: Db, which: RawBuilder<SqlBool>): Promise<BrowserRow | undefined> =>
  moveFirstBrowser(db, which, sql`made_at`, 'stopping', 'surplus', ended('surplus'))

/** The database's time in full precision. */
export const timeOf = async (db: Db): Promise<string> => (await sql<{ now: string }>`select now()::text as now`.execute(db)).rows[0]!.now

/** Starts to end one browser that has been idle in a pool, or was starting, since `time` or longer. Undefined when there is none. */
export const endIdle = (db: Db, pool: string, time: string): Promise<BrowserRow | undefined> =>
  endFirst(db, sql`state = 'warm' and pool_id = ${pool} and made_at <= ${time}::timestamptz`)

/** Number of browsers of the pool `p`, without those that are ending. */
const THERE = sql`(select count(*) from browsers o where o.pool_id = p.id and o.state not in ('deleted', 'stopping', 'failed'))`
/** True when the pool `p` was deleted, or wants the idle browser `t` replaced. */
const IS_UNWANTED = sql<SqlBool>`(p.deleted_at is not null or t.lease = 0 and t.pool_generation < p.oldest or ${HAS_OLD_PROFILE})`

/** Whether there are idle browsers that their pools do not want any more. */
export async function hasUnwanted(db: Db, scope: string): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    select exists (select from browsers t join browser_pools p on p.id = t.pool_id where t.scope = ${scope} and t.state = 'warm' and t.pool_id is not null and ${IS_UNWANTED})
      or exists (select from browser_pools p where p.scope = ${scope} and p.deleted_at is null and ${THERE} > p.size) as has`.execute(db)
  return rows[0]!.has
}

/** Starts to end an idle browser that its pool does not want any more: the pool was deleted, has become smaller, or wants the browser replaced. */
export const endUnwanted = (db: Db, scope: string): Promise<BrowserRow | undefined> =>
  endFirst(
    db,
    sql`state = 'warm' and scope = ${scope} and pool_id is not null
      and exists (select from browser_pools p where p.id = t.pool_id and (${IS_UNWANTED} or ${THERE} > p.size))`,
  )

/** Records that `count` idle browsers of a pool were ended in order to be replaced: the replica that fills the pool replaces them at once. */
export const noteDiscarded = async (db: Db, pool: string, count: number): Promise<void> =>
  void (await db
    .updateTable('browser_pools')
    .set((eb) => ({ discarded: eb('discarded', '+', count) }))
    .where('id', '=', pool)
    .execute())

/** Browsers that callers still have from pools whose deletion ends them, too. */
export async function leftByPools(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select b.id from browsers b join browser_pools p on p.id = b.pool_id
    where b.scope = ${scope} and b.state in ('running', 'releasing') and p.deleted_at is not null and p.is_forced`.execute(db)
  return rows.map(({ id }) => id)
}
