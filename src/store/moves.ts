// Moving a row along its lifecycle: one compare-and-set that also appends the event, in one statement.
import { sql, type RawBuilder } from 'kysely'
import type { Lifecycle } from '../base/lifecycle.ts'
import type { Db } from './db.ts'
import { announceEvents, lockEvents } from './events.ts'

/** A table with a lifecycle, and the log of its moves. */
interface Moving<State extends string> {
  table: 'browsers' | 'deployments' | 'invocations' | 'replays'
  lifecycle: Lifecycle<State>
  log: MoveLog
}

/** Where moves are logged: the log's columns, each with the expression over the moved row (`t`) that fills it. */
interface MoveLog {
  table: 'browser_events' | 'app_events' | 'replay_events'
  columns: Record<string, RawBuilder<unknown>>
  /** For logs with followers: the deployment that the log belongs to. Its order is kept and its followers are woken. */
  deployment?: RawBuilder<string>
}

export const browserMoves: MoveLog = { table: 'browser_events', columns: { browser_id: sql`t.id` } }
export const replayMoves: MoveLog = { table: 'replay_events', columns: { replay_id: sql`t.id` } }
export const deploymentMoves: MoveLog = { table: 'app_events', columns: { deployment_id: sql`t.id`, kind: sql`'state'` }, deployment: sql`t.id` }
export const invocationMoves: MoveLog = {
  table: 'app_events',
  columns: { deployment_id: sql`t.deployment_id`, invocation_id: sql`t.id`, kind: sql`'state'` },
  deployment: sql`t.deployment_id`,
}

/** Names the table and its log once; the moves are then `await move(db, id, 'running', …)`. */
export function mover<State extends string>({ table, lifecycle, log }: Moving<State>) {
  const names = Object.keys(log.columns)
  const values = names.map((name) => sql`${log.columns[name]} as ${sql.ref(name)}`)
  /**
   * Moves row `id` to `to` if its lifecycle allows that from its present state, and sets `columns` with it.
   * Returns the row's state before, or undefined when its state does not allow the move: another caller was first.
   */
  return async (db: Db, id: string, to: State, reason: string | null, columns: Record<string, unknown> = {}): Promise<State | undefined> => {
    const set = Object.entries({ state: to, ...columns }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`)
    const { rows } = await sql<{ before: State }>`
      with old as (
        select t.id, t.state ${log.deployment ? sql`, ${lockEvents(log.deployment)}` : sql``}
        from ${sql.table(table)} t where id = ${id} and state = any(${lifecycle.from(to)}) for no key update),
      moved as (update ${sql.table(table)} t set ${sql.join(set)} from old where t.id = old.id returning old.state as before, ${sql.join(values)}),
      logged as (insert into ${sql.table(log.table)} (${sql.join(names.map((name) => sql.ref(name)))}, state, reason)
        select ${sql.join(names.map((name) => sql.ref(name)))}, ${to}, ${reason} from moved)
      select before ${log.deployment ? sql`, ${announceEvents(sql`deployment_id`)}` : sql``} from moved`.execute(db)
    return rows[0]?.before
  }
}
