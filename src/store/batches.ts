// Changes many rows in statements of bounded size, so that no statement takes long.
import { sql, type RawBuilder } from 'kysely'
import type { Db } from './db.ts'
import type { Tables } from './tables.ts'

/** Rows that one statement removes. */
const AT_ONCE = 500

/** Calls `remove` until it removes (or changes) fewer than `limit`, or the signal aborts. Returns the total. */
export async function inBatches(limit: number, signal: AbortSignal, remove: (limit: number) => Promise<number>): Promise<number> {
  let sum = 0
  while (!signal.aborted) {
    const removed = await remove(limit)
    sum += removed
    if (removed < limit) break
  }
  return sum
}

/** Removes the expired rows of a table. Returns their number. `key`: the table's primary key. */
export const removeRows = (db: Db, signal: AbortSignal, table: keyof Tables, isOver: RawBuilder<unknown>, key = 'id'): Promise<number> =>
  inBatches(AT_ONCE, signal, async (limit) => {
    const { numAffectedRows } = await sql`
      delete from ${sql.table(table)} where ${sql.ref(key)} in (
        select ${sql.ref(key)} from ${sql.table(table)} where ${isOver} limit ${limit})`.execute(db)
    return Number(numAffectedRows ?? 0)
  })

/** Rows that were deleted more than `days` ago. */
export const deletedBefore = (days: number): RawBuilder<unknown> => sql`deleted_at < now() - ${days} * interval '1 day'`
