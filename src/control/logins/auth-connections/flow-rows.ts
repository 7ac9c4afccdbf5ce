// The queries for the work on flows (logins, re-logins, health checks). Their end is a move of lifecycle.ts.
import { createHash } from 'node:crypto'
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { announceEvents, announceNotice } from '../../../store/events.ts'
import type { Leases } from '../../../store/leases.ts'
import type { Tables } from '../../../store/tables.ts'
import type { FlowStep, TIMELINE_TYPES } from './contract.ts'
import type { ConnectionRow, StoredBrowser } from './rows.ts'
import type { Pause } from './flow.ts'
import type { FlowState } from './lifecycle.ts'

export type FlowType = (typeof TIMELINE_TYPES)[number]

/** Settings of one login that replace those of its connection. */
export interface Asked {
  record_session?: boolean
  /** null: none. */
  proxy_id?: string | null
  /** Whether a key of one project has chosen the proxy. */
  by_project_key?: boolean
  browser?: Partial<StoredBrowser>
}

export type FlowRow = Omit<Selectable<Tables['auth_flows']>, 'type' | 'state' | 'step' | 'asked' | 'pause' | 'memory'> & {
  type: FlowType
  state: FlowState
  step: FlowStep
  asked: Asked
  /** The engine's state. */
  memory: Record<string, unknown>
  pause: Pause | null
}

export const flowById = async (db: Db, id: string): Promise<FlowRow | undefined> =>
  (await db.selectFrom('auth_flows').selectAll().where('id', '=', id).executeTakeFirst()) as FlowRow | undefined

/** The last login of each of these connections. Health checks do not count. */
export async function lastLogins(db: Db, connections: readonly string[]): Promise<Map<string, FlowRow>> {
  if (connections.length === 0) return new Map()
  const { rows } = await sql<FlowRow>`
    select f.* from unnest(${connections}::text[]) c (id),
      lateral (select * from auth_flows f where f.connection_id = c.id and f.type <> 'health_check' order by f.started_at desc, f.id limit 1) f`.execute(db)
  return new Map(rows.map((row) => [row.connection_id, row]))
}

export const liveFlow = async (db: Db, connection: string): Promise<FlowRow | undefined> =>
  (await db.selectFrom('auth_flows').selectAll().where('connection_id', '=', connection).where('state', '=', 'IN_PROGRESS').executeTakeFirst()) as
    | FlowRow
    | undefined

/** The limit of the published service (docs of its managed auth). */
const FLOW_MS = 20 * 60_000
/** A health check opens one or two pages. */
const CHECK_MS = 5 * 60_000

/** A verified login may be saved after its time is over. The wait for saving a profile is 11 minutes (browsers.ts); the steps before and after take seconds. */
export const SAVE_MS = 15 * 60_000

/** The time at which a flow in progress ends. The engine's memory has `success` once the login was verified. */
export const endsAt = ({ expires_at: at, memory }: Pick<FlowRow, 'expires_at' | 'memory'>): number => at.getTime() + (memory['success'] ? SAVE_MS : 0)

/** The same in SQL: whether that time is not over. `flow`: the name of the table in a query with several. */
export const isInTime = (flow?: string): RawBuilder<SqlBool> => {
  const column = (name: string) => sql.ref(flow === undefined ? name : `${flow}.${name}`)
  return sql<SqlBool>`(${column('expires_at')} + case when ${column('memory')}->'success' is null then 0 else ${SAVE_MS} end * interval '1 millisecond' > now())`
}

/**
 * Whether the login `f` waits for another one of its profile. Each login loads the profile at its start and saves all of it at its end: the second one would
 * lose the cookies of the first. A started login continues, the others start in order. Health checks save nothing.
 */
export const waitsForProfile = sql<SqlBool>`(f.type <> 'health_check' and f.replica is null and f.browser_id is null and exists (
  select from auth_flows g join auth_connections theirs on theirs.id = g.connection_id join auth_connections ours on ours.id = f.connection_id
  where g.id <> f.id and g.state = 'IN_PROGRESS' and g.type <> 'health_check' and ${isInTime('g')} and theirs.profile_id = ours.profile_id
    and (g.replica is not null or g.browser_id is not null or (g.started_at, g.id) < (f.started_at, f.id))))`

export const hashOfCode = (code: string): Buffer => createHash('sha256').update(code).digest()

interface NewFlow {
  connection: Pick<ConnectionRow, 'id' | 'status'>
  scope: string
  type: FlowType
  asked: Asked
  /** The code that opens the page of a flow; absent: the flow has no page. */
  codeOf?: (flowId: string) => string
}

/** Inserts a flow with its first event, and notifies the replicas. */
export async function insertFlow(tx: Db, { connection, scope, type, asked, codeOf }: NewFlow): Promise<FlowRow> {
  const id = newId()
  const { rows } = await sql<FlowRow>`
    with made as (
      insert into auth_flows (id, connection_id, scope, type, state, step, asked, previous_status, code_hash, expires_at)
      values (${id}, ${connection.id}, ${scope}, ${type}, 'IN_PROGRESS', 'DISCOVERING', ${JSON.stringify(asked)}, ${connection.status},
        ${codeOf ? hashOfCode(codeOf(id)) : null}, now() + ${type === 'health_check' ? CHECK_MS : FLOW_MS} * interval '1 millisecond')
      returning *),
    logged as (insert into auth_flow_events (flow_id, state) select id, state from made)
    select *, ${announceNotice('auth_flow', sql`id`)} from made`.execute(tx)
  return rows[0]!
}

/** Tells the replicas to check a flow. */
export const announceFlow = async (tx: Db, id: string): Promise<void> => void (await sql`select ${announceNotice('auth_flow', sql`${id}`)}`.execute(tx))

/** Changes a flow in progress if `only` holds, and notifies its followers. @returns whether it was changed */
export async function changeFlow(db: Db, id: string, columns: Record<string, unknown>, only: RawBuilder<SqlBool>): Promise<boolean> {
  const set = sql.join(Object.entries({ ...columns, updated_at: sql`now()` }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`))
  const { rows } = await sql`
    with changed as (update auth_flows set ${set} where id = ${id} and state = 'IN_PROGRESS' and ${only} returning id)
    select ${announceEvents(sql`id`)} from changed`.execute(db)
  return rows.length > 0
}

/** Takes the answer out of a flow in progress if `only` holds, and removes its question. */
export async function takeAnswer(db: Db, id: string, only: RawBuilder<SqlBool>): Promise<Buffer | undefined> {
  const { rows } = await sql<{ answer: Buffer }>`
    with old as (select id, answer from auth_flows where id = ${id} and state = 'IN_PROGRESS' and ${only} and answer is not null for no key update),
    taken as (update auth_flows f set answer = null, pause = null, input_until = null, step = 'SUBMITTING', updated_at = now()
      from old where f.id = old.id returning old.answer, f.id)
    select answer, ${announceEvents(sql`id`)} from taken`.execute(db)
  return rows[0]?.answer
}

/** Gives this replica the oldest flow without a living worker that waits for no other login of its profile. */
export const claimFlow = (db: Db, scope: string, { replica, isDead }: Pick<Leases, 'replica' | 'isDead'>): Promise<FlowRow | undefined> =>
  db.transaction().execute(async (tx) => {
    // One claim at a time: two replicas could otherwise start two logins of one profile at once.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`cob:login-claims:${scope}`}, 0))`.execute(tx)
    const { rows } = await sql<FlowRow>`
      update auth_flows set replica = ${replica} where id = (
        select f.id from auth_flows f where f.scope = ${scope} and f.state = 'IN_PROGRESS' and ${isDead(sql`f.replica`)}
          and f.replica is distinct from ${replica} and ${isInTime('f')} and not ${waitsForProfile}
        order by f.started_at, f.id limit 1 for no key update skip locked)
      returning *`.execute(tx)
    return rows[0]
  })

/** Releases the claimed flows for which `only` holds, except these. @returns their ids */
export async function releaseFlows(db: Db, scope: string, only: RawBuilder<SqlBool>, but: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    update auth_flows set replica = null
    where scope = ${scope} and state = 'IN_PROGRESS' and ${only} and id <> all (${but}::text[]) returning id`.execute(db)
  return rows.map(({ id }) => id)
}

/** Flows in progress that have to end: their time is over (`late`), or nobody has answered in time. */
export async function overdueFlows(db: Db, scope: string): Promise<{ id: string; late: boolean }[]> {
  const { rows } = await sql<{ id: string; late: boolean }>`
    select id, not ${isInTime()} as late from auth_flows where scope = ${scope} and state = 'IN_PROGRESS'
      and (not ${isInTime()} or (answer is null and input_until <= now()))`.execute(db)
  return rows
}

/** Number of logins in progress. Health checks do not count. */
export async function countLogins(tx: Db, scope: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from auth_flows
    where scope = ${scope} and state = 'IN_PROGRESS' and type <> 'health_check' and ${isInTime()}`.execute(tx)
  return rows[0]!.count
}

/** One page, newest first, with one row more than `limit` when there are more. */
export const listFlows = async (
  db: Db,
  connection: string,
  { type, offset, limit }: { type?: FlowType | undefined; offset: number; limit: number },
): Promise<FlowRow[]> =>
  (await db
    .selectFrom('auth_flows')
    .selectAll()
    .where('connection_id', '=', connection)
    .$if(type !== undefined, (query) => query.where('type', '=', type!))
    .orderBy('started_at', 'desc')
    .orderBy('id')
    .offset(offset)
    .limit(limit + 1)
    .execute()) as FlowRow[]

/** Removes at most `limit` flows that ended more than `days` ago. The last login of a connection stays, because the connection shows it. */
export async function removeOldFlows(db: Db, scope: string, days: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from auth_flows where id in (
      select f.id from auth_flows f where f.scope = ${scope} and f.finished_at < now() - ${days} * interval '1 day'
        and f.id is distinct from (
          select l.id from auth_flows l where l.connection_id = f.connection_id and l.type <> 'health_check' order by l.started_at desc, l.id limit 1)
      limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
