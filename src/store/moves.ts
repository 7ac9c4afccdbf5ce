// Moves a row along its lifecycle: one compare-and-set that also appends the event, in one statement.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Lifecycle } from '../base/lifecycle.ts'
import type { Db } from './db.ts'
import { announceEvents, lockEvents } from './events.ts'
import type { Tables } from './tables.ts'

/** A table with a lifecycle, and the log of its moves. */
interface Moving<State extends string> {
  table: keyof Tables
  /** The column that holds the state; `state` unless named. */
  column?: 'state' | 'deletion'
  lifecycle: Lifecycle<State>
  log: MoveLog
}

/** The log of the moves: its columns, each with the expression over the moved row (`t`) that fills it. */
export interface MoveLog {
  table: keyof Tables
  columns: Record<string, RawBuilder<unknown>>
  /** For logs with followers (events.ts): the topic. Its events stay in order, and its followers are woken. */
  topic?: RawBuilder<string>
}

/** Names the table and its log once; the moves are then `await move(db, id, 'running', …)`. */
export function mover<State extends string>({ table, column = 'state', lifecycle, log }: Moving<State>) {
  const state = sql.ref(column)
  /**
   * Moves row `id` to `to` if its lifecycle allows that from its present state and `only` holds, and sets `columns` with it. Waits for other changes of the
   * row. Returns the previous state, or undefined when the move is not allowed: another caller was first.
   */
  return async (
    db: Db,
    id: string,
    to: State,
    reason: string | null,
    columns: Record<string, unknown> = {},
    only: RawBuilder<SqlBool> = sql`true`,
  ): Promise<State | undefined> => {
    const { rows } = await sql<{ before: State }>`
      with old as (
        select t.id, t.${state} as before ${log.topic ? sql`, ${lockEvents(log.topic)}` : sql``}
        from ${sql.table(table)} t where id = ${id} and ${state} = any(${lifecycle.from(to)}) and ${only} for no key update),
      moved as (update ${sql.table(table)} t set ${setting(column, to, columns)} from old where t.id = old.id returning t.*, old.before),
      ${logged(log, to, reason)}
      select before ${log.topic ? sql`, ${announceEvents(log.topic)}` : sql``} from moved t`.execute(db)
    return rows[0]?.before
  }
}

/**
 * The same for the first row that `which` selects, in the order `by`, and that no other caller is moving: concurrent callers get different rows. Returns the
 * moved row. `which` should name the previous state, so that an index for it can be used.
 */
export function firstMover<Row, State extends string>({ table, column = 'state', lifecycle, log }: Moving<State>) {
  const state = sql.ref(column)
  return async (
    db: Db,
    which: RawBuilder<SqlBool>,
    by: RawBuilder<unknown>,
    to: State,
    reason: string | null,
    columns: Record<string, unknown> = {},
  ): Promise<Row | undefined> => {
    const { rows } = await sql<Row>`
      with old as (
        select t.id from ${sql.table(table)} t where ${state} = any(${lifecycle.from(to)}) and ${which} order by ${by} limit 1 for no key update skip locked),
      moved as (update ${sql.table(table)} t set ${setting(column, to, columns)} from old where t.id = old.id returning t.*),
      ${logged(log, to, reason)}
      select * from moved`.execute(db)
    return rows[0]
  }
}

const setting = (column: string, to: string, columns: Record<string, unknown>) =>
  sql.join(Object.entries({ [column]: to, ...columns }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`))

/** Appends the event of a move, by the row that `moved` returns. */
function logged({ table, columns }: MoveLog, to: string, reason: string | null): RawBuilder<unknown> {
  const names = sql.join([...Object.keys(columns), 'state', 'reason'].map((name) => sql.ref(name)))
  return sql`logged as (insert into ${sql.table(table)} (${names}) select ${sql.join(Object.values(columns))}, ${to}, ${reason} from moved t)`
}
