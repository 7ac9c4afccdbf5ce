// Moving a row along its lifecycle: one compare-and-set that also appends the event, in one statement.
import { sql } from 'kysely'
import type { Lifecycle } from '../base/lifecycle.ts'
import type { Db } from './db.ts'

/** A table with a lifecycle, and the log of its moves. */
interface Moving<State extends string> {
  table: 'browsers' | 'deployments'
  events: 'browser_events' | 'deployment_events'
  /** The event's column that names the row. */
  key: string
  lifecycle: Lifecycle<State>
}

/** Names the table and its log once; the moves are then `await move(db, id, 'running', …)`. */
export function mover<State extends string>({ table, events, key, lifecycle }: Moving<State>) {
  /**
   * Moves row `id` to `to` if its lifecycle allows that from where it stands, setting `columns` with it.
   * Returns the row's state before, or undefined when it was not in a state that allows the move: someone else was first.
   */
  return async (db: Db, id: string, to: State, reason: string | null, columns: Record<string, unknown> = {}): Promise<State | undefined> => {
    const set = Object.entries({ state: to, ...columns }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`)
    const { rows } = await sql<{ before: State }>`
      with old as (select id, state from ${sql.table(table)} where id = ${id} and state = any(${lifecycle.from(to)}) for update),
      moved as (update ${sql.table(table)} t set ${sql.join(set)} from old where t.id = old.id returning old.state as before),
      logged as (insert into ${sql.table(events)} (${sql.ref(key)}, state, reason) select ${id}, ${to}, ${reason} from moved)
      select before from moved`.execute(db)
    return rows[0]?.before
  }
}
