// The rows of flows: logins, re-logins and health checks. How they are changed: flows.ts.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import type { Db } from '../../../store/db.ts'
import type { Tables } from '../../../store/tables.ts'
import type { FlowStep, TIMELINE_TYPES } from './contract.ts'
import type { StoredBrowser } from './rows.ts'
import type { Pause } from './flow.ts'
import type { FlowState } from './lifecycle.ts'

export type FlowType = (typeof TIMELINE_TYPES)[number]

/** What a login has of its own, in place of what its connection says. */
export interface Asked {
  record_session?: boolean
  /** null: none. */
  proxy_id?: string | null
  /** The proxy was chosen with a key of one project. */
  by_project_key?: boolean
  browser?: Partial<StoredBrowser>
}

export type FlowRow = Omit<Selectable<Tables['auth_flows']>, 'type' | 'state' | 'step' | 'asked' | 'pause' | 'memory'> & {
  type: FlowType
  state: FlowState
  step: FlowStep
  asked: Asked
  /** The engine's own. */
  memory: Record<string, unknown>
  pause: Pause | null
}

export const flowById = async (db: Db, id: string): Promise<FlowRow | undefined> =>
  (await db.selectFrom('auth_flows').selectAll().where('id', '=', id).executeTakeFirst()) as FlowRow | undefined

/** The last login of each of these connections: health checks do not count. */
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

/** A login that was verified is saved past its time. Saving a profile is waited for 11 minutes (browsers.ts); what begins it and follows it takes seconds. */
export const SAVE_MS = 15 * 60_000

/** Of a flow in progress: when its time is over for everybody. The engine's memory has `success` from the moment when its login was verified. */
export const endsAt = ({ expires_at: at, memory }: Pick<FlowRow, 'expires_at' | 'memory'>): number => at.getTime() + (memory['success'] ? SAVE_MS : 0)

/** The same in SQL: whether that time is not over. `flow`: the name of the table in the query, where it has several. */
export const isInTime = (flow?: string): RawBuilder<SqlBool> => {
  const column = (name: string) => sql.ref(flow === undefined ? name : `${flow}.${name}`)
  return sql<SqlBool>`(${column('expires_at')} + case when ${column('memory')}->'success' is null then 0 else ${SAVE_MS} end * interval '1 millisecond' > now())`
}

/**
 * Whether the login `f` waits for another one of its profile. Each loads the profile when it begins and saves it whole at its end: the second one would lose the
 * cookies of the first. One that has begun goes on, the others begin in their order. Health checks save nothing.
 */
export const waitsForProfile = sql<SqlBool>`(f.type <> 'health_check' and f.replica is null and f.browser_id is null and exists (
  select from auth_flows g join auth_connections theirs on theirs.id = g.connection_id join auth_connections ours on ours.id = f.connection_id
  where g.id <> f.id and g.state = 'IN_PROGRESS' and g.type <> 'health_check' and ${isInTime('g')} and theirs.profile_id = ours.profile_id
    and (g.replica is not null or g.browser_id is not null or (g.started_at, g.id) < (f.started_at, f.id))))`

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

/** Removes some flows that ended more than `days` ago. The last login of a connection stays: the connection shows it. */
export async function removeOldFlows(db: Db, scope: string, days: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from auth_flows where id in (
      select f.id from auth_flows f where f.scope = ${scope} and f.finished_at < now() - ${days} * interval '1 day'
        and f.id is distinct from (
          select l.id from auth_flows l where l.connection_id = f.connection_id and l.type <> 'health_check' order by l.started_at desc, l.id limit 1)
      limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
