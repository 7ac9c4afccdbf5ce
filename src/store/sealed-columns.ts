// A column of encrypted values, for the re-encryption of all of them with another key.
import { sql, type RawBuilder } from 'kysely'
import type { Db } from './db.ts'
import type { Tables } from './tables.ts'

/** A value of a row, as it is stored. */
export interface SealedValue {
  /** The id of the row, to which the value is bound. */
  id: string
  sealed: Buffer
  purpose: string
}

export interface SealedColumn {
  table: keyof Tables
  /** Some rows after `after`, by id, whose value does not begin with `header`. */
  others(db: Db, header: Buffer, after: string, limit: number): Promise<SealedValue[]>
  /** Replaces `from` by `to`. False when the row has another value by now, or is deleted. */
  replace(db: Db, id: string, from: Buffer, to: Buffer): Promise<boolean>
  /** The number of values per beginning: by their first `bytes` bytes. */
  beginnings(db: Db, bytes: number): Promise<{ beginning: Buffer; count: number }[]>
}

interface Shape {
  /** The value as bytes; null when there is none. */
  value?: RawBuilder<Buffer | null>
  /** The column's content with a new value. */
  stored?: (value: Buffer) => RawBuilder<unknown>
  /** The purpose of its sealer: one for all rows, or by a column of the row. */
  purpose: string | { column: string; of: (value: string) => string }
}

/**
 * @param name of the column
 * @param shape the storage form of its values, and the purpose of their sealer
 */
export function sealedColumn(table: keyof Tables, name: string, { value = sql.ref(name), stored = (bytes) => sql`${bytes}`, purpose }: Shape): SealedColumn {
  const of = typeof purpose === 'string' ? sql`null::text` : sql.ref(purpose.column)
  const rowsOf = sql.table(table)
  return {
    table,
    async others(db, header, after, limit) {
      const { rows } = await sql<{ id: string; sealed: Buffer; by: string }>`
        select id, ${value} as sealed, ${of} as by from ${rowsOf}
        where id > ${after} and ${value} is not null and substr(${value}, 1, ${header.length}) <> ${header} order by id limit ${limit}`.execute(db)
      return rows.map(({ id, sealed, by }) => ({ id, sealed, purpose: typeof purpose === 'string' ? purpose : purpose.of(by) }))
    },
    async replace(db, id, from, to) {
      const { numAffectedRows } = await sql`update ${rowsOf} set ${sql.ref(name)} = ${stored(to)} where id = ${id} and ${value} = ${from}`.execute(db)
      return (numAffectedRows ?? 0n) > 0n
    },
    async beginnings(db, bytes) {
      const { rows } = await sql<{ beginning: Buffer; count: number }>`
        select substr(${value}, 1, ${bytes}) as beginning, count(*) as count from ${rowsOf} where ${value} is not null group by 1`.execute(db)
      return rows
    },
  }
}
