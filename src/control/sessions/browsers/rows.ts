// All queries on the table of browsers.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { newest, type Paging } from '../../../store/lists.ts'
import { firstMover } from '../../../store/moves.ts'
import { holds } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import { ended, moving, type BrowserState } from './lifecycle.ts'
import type { OPTIONS } from './options/contract.ts'
import type { Booted, StoredOptions } from './options/option/contract.ts'
import type { StoredEndpoint } from '../../../http/stored-endpoint.ts'

/** A caller's options as they are stored, and the size of the X server's screen, which no viewport can exceed. */
export type BrowserOptions = StoredOptions<typeof OPTIONS> & Pick<Booted, 'maxScreen' | 'lean'>

/** The values that a caller gives a new session. */
export interface Ownership {
  /** The project that it is made in. */
  project: string
  name: string | undefined
  tags: Record<string, string>
  options: BrowserOptions
  timeoutSeconds: number
  /** The run of an app with which it ends. */
  invocationId?: string | undefined
  /** The login or health check that it is for. Callers may not use its tools. */
  authFlowId?: string | undefined
}

export type BrowserRow = Omit<Selectable<Tables['browsers']>, 'options' | 'endpoint' | 'state'> & {
  options: BrowserOptions
  endpoint: StoredEndpoint | null
  state: BrowserState
}

/** Moves one of several browsers, and returns its row. */
export const moveFirstBrowser = firstMover<BrowserRow, BrowserState>(moving)

/** The columns of a row that belongs to a caller's session. */
const owned = ({ project, name, tags, options, timeoutSeconds, invocationId, authFlowId }: Ownership) => ({
  project_id: project,
  name: name ?? null,
  tags: JSON.stringify(tags),
  options: JSON.stringify(options),
  timeout_seconds: timeoutSeconds,
  invocation_id: invocationId ?? null,
  auth_flow_id: authFlowId ?? null,
})

/** The scope of a browser, and the replica that watches it. */
export interface Watched {
  scope: string
  replica: string
}

/** Inserts a row for a browser that is to be booted: a warm one of a kind, one for a caller, or, with the columns `more`, one of a pool. */
export async function insertStarting(
  db: Db,
  id: string,
  { scope, replica }: Watched,
  warmKind: string | null,
  ownership?: Ownership,
  more: Record<string, unknown> = {},
): Promise<BrowserRow> {
  const unowned = { tags: '{}', options: '{}', timeout_seconds: 60 }
  const columns = { id, state: 'starting', scope, replica, warm_kind: warmKind, ...(ownership ? owned(ownership) : unowned), ...more }
  const { rows } = await sql<BrowserRow>`
    with made as (
      insert into browsers (${sql.join(Object.keys(columns).map((name) => sql.ref(name)))}) values (${sql.join(Object.values(columns))}) returning *),
    logged as (insert into browser_events (browser_id, state) select id, 'starting' from made)
    select * from made`.execute(db)
  return rows[0]!
}

/** Claims a warm browser of `kind` for the caller, in one statement: the oldest, first among those that this replica watches. Undefined when there is none. */
export async function claimWarm(db: Db, { scope, replica }: Watched, kind: string, ownership: Ownership): Promise<BrowserRow | undefined> {
  const columns = { ...owned(ownership), created_at: sql`now()`, last_active_at: sql`now()` }
  const which = sql<SqlBool>`state = 'warm' and scope = ${scope} and warm_kind = ${kind}`
  return moveFirstBrowser(db, which, sql`replica is distinct from ${replica}, made_at`, 'running', 'claimed warm', columns)
}

/** Starts to end the oldest instance of `kind` that no session has claimed. Undefined when there is none. */
export async function endSurplus(db: Db, scope: string, kind: string): Promise<BrowserRow | undefined> {
  const which = sql<SqlBool>`state = 'warm' and scope = ${scope} and warm_kind = ${kind}`
  return moveFirstBrowser(db, which, sql`made_at`, 'stopping', 'surplus', ended('surplus'))
}

/** Without browsers that were given back to a pool: no caller has these now. */
const LIVE = sql<SqlBool>`deleted_at is null and created_at is not null and state not in ('warm', 'releasing')`

/** A text in the form of an id is compared with ids only. Names are compared without case, so a name in capitals could otherwise match another session's id. */
const called = (idOrName: string): RawBuilder<SqlBool> => (isId(idOrName) ? sql`id = ${idOrName}` : sql`lower(name) = lower(${idOrName})`)

/**
 * The rows that a caller can find: in this scope, because this service cannot reach instances of another one, and in the caller's project. Undefined: in all
 * projects, for calls that show a secret and for the service itself.
 */
export interface Within {
  scope: string
  project: string | undefined
}

const sessionsWithin = (db: Db, { scope, project }: Within) =>
  db
    .selectFrom('browsers')
    .selectAll()
    .where('scope', '=', scope)
    .$if(project !== undefined, (select) => select.where('project_id', '=', project!))

/** A caller's session, by id or, while it lives, by name. `includeDeleted`: also a session that has ended, or was given back to its pool. */
export async function findBrowser(db: Db, within: Within, idOrName: string, includeDeleted: boolean): Promise<BrowserRow | undefined> {
  const live = await sessionsWithin(db, within).where(LIVE).where(called(idOrName)).executeTakeFirst()
  if (live || !includeDeleted) return live as unknown as BrowserRow | undefined
  const dead = await sessionsWithin(db, within)
    .where('created_at', 'is not', null)
    .where(called(idOrName))
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return dead as unknown as BrowserRow | undefined
}

/** In the form that the index browsers_proxy serves. */
const usesProxy = (id: string) => sql<SqlBool>`(options ? 'proxy_id' and options->>'proxy_id' = ${id})`

/** Sessions whose pool has this id, or this text in its name. */
const ofPool = (query: string) =>
  sql<SqlBool>`(pool_id is not null and exists (select from browser_pools p where p.id = browsers.pool_id and (p.id = ${query} or ${holds('p.name', query)})))`

export interface ListFilter extends Paging {
  status: 'active' | 'deleted' | 'all'
  query: string | undefined
  tags: Record<string, string>
}

/** One page of sessions, newest first, with one row more than `limit` when there are more. */
export async function listBrowsers(db: Db, within: Within, { status, query, tags, ...page }: ListFilter): Promise<BrowserRow[]> {
  let select = sessionsWithin(db, within).where('created_at', 'is not', null)
  if (status === 'active') select = select.where(LIVE)
  else if (status === 'deleted') select = select.where('deleted_at', 'is not', null)
  else select = select.where((eb) => eb.or([LIVE, eb('deleted_at', 'is not', null)]))
  if (query) select = select.where((eb) => eb.or([eb('id', '=', query), eb('profile_id', '=', query), holds('name', query), usesProxy(query), ofPool(query)]))
  if (Object.keys(tags).length > 0) select = select.where(sql<SqlBool>`tags @> ${JSON.stringify(tags)}::jsonb`)
  return (await select.$call(newest('browsers', page)).execute()) as unknown as BrowserRow[]
}

/** A running session, if this caller of its pool still has it. */
const running = (db: Db, { id, lease }: Pick<BrowserRow, 'id' | 'lease'>) =>
  db.updateTable('browsers').where('id', '=', id).where('lease', '=', lease).where('state', '=', 'running').returningAll()

/** Changes name, tags or options of a running session; undefined when it has ended, or another caller of its pool has it. */
export async function updateRunning(
  db: Db,
  session: Pick<BrowserRow, 'id' | 'lease'>,
  /** `was`: changes the row only if it still has these options. */
  { name, tags, options, was }: { name?: string | null; tags?: Record<string, string>; options?: BrowserOptions; was?: BrowserOptions },
): Promise<BrowserRow | undefined> {
  const row = running(db, session)
    .set({
      last_active_at: sql`last_active_at`,
      ...(name !== undefined && { name }),
      ...(tags && { tags: JSON.stringify(tags) }),
      ...(options && { options: JSON.stringify(options) }),
    })
    .$if(was !== undefined, (query) => query.where(sql<boolean>`options = ${JSON.stringify(was)}::jsonb`))
  return (await row.executeTakeFirst()) as unknown as BrowserRow | undefined
}

/** Resets the options `names` of a running session to their values in `before`. Later changes of other options stay. Undefined when the session has ended. */
export async function takeBackOptions(
  db: Db,
  session: Pick<BrowserRow, 'id' | 'lease'>,
  names: readonly (keyof BrowserOptions)[],
  before: BrowserOptions,
): Promise<BrowserRow | undefined> {
  const earlier = JSON.stringify(Object.fromEntries(names.map((name) => [name, before[name]])))
  const row = running(db, session).set({ last_active_at: sql`last_active_at`, options: sql`(options - ${[...names]}::text[]) || ${earlier}::jsonb` })
  return (await row.executeTakeFirst()) as unknown as BrowserRow | undefined
}

/** The columns that the fleet reads of all browsers every second. The options are left out: they may have megabytes. */
export type LiveRow = Pick<BrowserRow, 'id' | 'state' | 'end_reason' | 'ended_steps' | 'pool_id'>

const LIVE_COLUMNS = ['id', 'state', 'end_reason', 'ended_steps', 'pool_id'] as const

/** Limit on restoring a browser that was given back to its pool. Its replica may have been killed meanwhile. */
const RELEASING_SECONDS = 60

/** Browsers that this replica watches and whose end is not complete, including warm ones. `isLate`: the timeout has passed. */
export async function watchedBrowsers(db: Db, { scope, replica }: Watched): Promise<(LiveRow & { isLate: boolean })[]> {
  const rows = await db
    .selectFrom('browsers')
    .select(LIVE_COLUMNS)
    .select(
      sql<boolean>`case state when 'running' then last_active_at + timeout_seconds * interval '1 second' < now()
        when 'releasing' then last_active_at + ${RELEASING_SECONDS} * interval '1 second' < now() else false end`.as('isLate'),
    )
    .where('scope', '=', scope)
    .where('replica', '=', replica)
    .where('state', '<>', 'deleted')
    .execute()
  return rows as (LiveRow & { isLate: boolean })[]
}

/** The ids of all browsers of this scope whose end is not complete. */
export const liveIds = async (db: Db, scope: string): Promise<string[]> =>
  (await db.selectFrom('browsers').select('id').where('scope', '=', scope).where('state', '<>', 'deleted').execute()).map(({ id }) => id)

/** Makes this replica the watcher of the browsers of dead replicas, and returns these. Two replicas never get the same browser. */
export async function takeOverBrowsers(db: Db, scope: string, { replica, isDead }: Leases): Promise<LiveRow[]> {
  const rows = await db
    .updateTable('browsers')
    // The time without a watcher does not count towards timeouts.
    .set({ replica, last_active_at: sql`case when state = 'running' then now() else last_active_at end` })
    .where('scope', '=', scope)
    .where('state', '<>', 'deleted')
    .where(isDead(sql.ref('browsers.replica')))
    .returning(LIVE_COLUMNS)
    .execute()
  return rows as LiveRow[]
}

/** Records that this replica has the links of a browser's proxy. */
export const holdLinks = async (db: Db, id: string, { replica }: Pick<Leases, 'replica'>): Promise<void> =>
  void (await db.updateTable('browsers').set({ proxy_replica: replica }).where('id', '=', id).execute())

/** Browsers that this replica watches although a dead replica has the links of their proxy. */
export async function withoutLinks(db: Db, scope: string, { replica, isDead }: Leases): Promise<string[]> {
  const rows = await db
    .selectFrom('browsers')
    .select('id')
    .where('scope', '=', scope)
    .where('replica', '=', replica)
    .where('state', '<>', 'deleted')
    .where('proxy_replica', 'is not', null)
    .where(isDead(sql.ref('proxy_replica')))
    .execute()
  return rows.map(({ id }) => id)
}

/** A browser whose end is not complete, and the replica that watches it; undefined when there is none. */
export async function watcherOf(db: Db, id: string): Promise<(LiveRow & { replica: string | null }) | undefined> {
  const row = await db
    .selectFrom('browsers')
    .select([...LIVE_COLUMNS, 'replica'])
    .where('id', '=', id)
    .where('state', '<>', 'deleted')
    .executeTakeFirst()
  return row as (LiveRow & { replica: string | null }) | undefined
}

/** The replica that watches a browser, or watched it last; undefined when there is no such browser. */
export const replicaOf = async (db: Db, id: string): Promise<string | null | undefined> =>
  (await db.selectFrom('browsers').select('replica').where('id', '=', id).executeTakeFirst())?.replica

/** The sessions to count: those of a scope, or of a project in every scope. */
export type Whose = { scope: string } | { project: string }
const belonging = (whose: Whose): RawBuilder<SqlBool> => ('scope' in whose ? sql`scope = ${whose.scope}` : sql`project_id = ${whose.project}`)

/**
 * Number of seats that are taken, by sessions and by browsers that are starting. A pool takes its whole size, lent or not. A warm browser that never had a
 * caller takes none, even while it ends.
 */
export async function countSeats(db: Db, whose: Whose): Promise<number> {
  const { rows } = await sql<{ seats: number }>`
    select (
      select count(*) from browsers where ${belonging(whose)} and pool_id is null and state not in ('deleted', 'warm') and (warm_kind is null or created_at is not null)
    ) + (
      select coalesce(sum(greatest(size, (select count(*) from browsers b where b.pool_id = p.id and b.state <> 'deleted'))), 0)
      from browser_pools p where ${belonging(whose)} and deleted_at is null
    ) + (
      select count(*) from browsers b where ${belonging(whose)} and pool_id is not null and state <> 'deleted'
      and not exists (select from browser_pools p where p.id = b.pool_id and p.deleted_at is null)
    ) as seats`.execute(db)
  return Number(rows[0]!.seats)
}

/** Whether a session is being ended. */
export async function isEndUnderWay(db: Db, whose: Whose): Promise<boolean> {
  const row = await db
    .selectFrom('browsers')
    .select('id')
    .where(belonging(whose))
    .where('state', '=', 'stopping')
    .where('created_at', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** The finished steps of a browser's end. */
export async function endedStepsOf(db: Db, id: string): Promise<string[]> {
  return (await db.selectFrom('browsers').select('ended_steps').where('id', '=', id).executeTakeFirst())?.ended_steps ?? []
}

/** Records the finished steps of a browser's end. */
export async function recordEndedSteps(db: Db, id: string, steps: readonly string[]): Promise<void> {
  await db
    .updateTable('browsers')
    .set({ ended_steps: [...steps] })
    .where('id', '=', id)
    .execute()
}

/** Extends the timeout of sessions in use. */
export async function touch(db: Db, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await db
      .updateTable('browsers')
      .set({ last_active_at: sql`now()` })
      .where(sql<SqlBool>`id = any(${[...ids]}::text[])`)
      .where('state', '=', 'running')
      .execute()
}

/** Whether an app's run exists in the project and has not ended. */
export async function isUnfinished(db: Db, project: string, invocationId: string): Promise<boolean> {
  const run = db.selectFrom('invocations').select('id').where('id', '=', invocationId).where('project_id', '=', project)
  const row = await run.where('finished_at', 'is', null).executeTakeFirst()
  return row !== undefined
}

/** Live sessions of a run, newest first. Code that starts a browser for a run checks afterwards whether the run has ended. */
export async function liveOfInvocation(db: Db, scope: string, invocationId: string): Promise<BrowserRow[]> {
  const rows = await db
    .selectFrom('browsers')
    .selectAll()
    .where('scope', '=', scope)
    .where('invocation_id', '=', invocationId)
    .where(LIVE)
    .orderBy('created_at', 'desc')
    .execute()
  return rows as unknown as BrowserRow[]
}

/** Browsers of this scope whose run has ended, or was deleted with its deployment. */
export async function leftByInvocations(db: Db, scope: string): Promise<string[]> {
  const rows = await db
    .selectFrom('browsers as b')
    .leftJoin('invocations as i', 'i.id', 'b.invocation_id')
    .select('b.id')
    .where('b.scope', '=', scope)
    .where('b.invocation_id', 'is not', null)
    .where('b.deleted_at', 'is', null)
    .where('b.created_at', 'is not', null)
    .where((eb) => eb.or([eb('i.id', 'is', null), eb('i.finished_at', 'is not', null)]))
    .execute()
  return rows.map(({ id }) => id)
}

/** Live browsers by state, for metrics: all that the database has, and those that this replica watches. */
export async function countByState(db: Db, replica: string): Promise<Record<'all' | 'own', Record<string, number>>> {
  const rows = await db
    .selectFrom('browsers')
    .select(['state', (eb) => eb.fn.countAll<number>().as('all'), (eb) => eb.fn.countAll<number>().filterWhere('replica', '=', replica).as('own')])
    .where('state', '<>', 'deleted')
    .groupBy('state')
    .execute()
  const counts = (of: 'all' | 'own') => Object.fromEntries(rows.flatMap((row) => (Number(row[of]) > 0 ? [[row.state, Number(row[of])]] : [])))
  return { all: counts('all'), own: counts('own') }
}
