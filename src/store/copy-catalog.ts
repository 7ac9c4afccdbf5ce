// The structure of a database, read from its catalog, for copies: a table of a later migration is copied without a change here.
import type pg from 'pg'

/** Kysely's own table: its row is made with the table, and contains nothing of the database. */
const LOCK_TABLE = 'kysely_migration_lock'

export interface Table {
  name: string
  /** The stored columns, in their order. Generated ones are left out: the database computes them. */
  columns: string[]
  /** Names, types and kinds of all columns, to compare two databases. */
  shape: string
}

/** A foreign key, with the SQL that makes it again. */
interface ForeignKey {
  table: string
  name: string
  definition: string
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** All tables of the schema in which new tables would be made, by name. A partitioned table counts once. */
export async function readTables(client: pg.ClientBase): Promise<Table[]> {
  const { rows } = await client.query<Table>(
    `select c.relname as name,
            array_agg(a.attname::text order by a.attnum) filter (where a.attgenerated = '') as columns,
            jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, a.attidentity) order by a.attname)::text as shape
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> $1
     group by c.relname order by c.relname`,
    [LOCK_TABLE],
  )
  return rows
}

/** The next value of each sequence. Sequences of identity columns are included. */
export async function readSequences(client: pg.ClientBase): Promise<{ name: string; next: string }[]> {
  const { rows } = await client.query<{ name: string; step: string }>(
    `select c.relname as name, s.seqincrement::text as step from pg_sequence s join pg_class c on c.oid = s.seqrelid
     where c.relnamespace = to_regnamespace(quote_ident(current_schema())) order by c.relname`,
  )
  const sequences: { name: string; next: string }[] = []
  for (const { name, step } of rows) {
    const { rows: values } = await client.query<{ next: string }>(
      `select (case when is_called then last_value + ${step} else last_value end)::text as next from ${quoted(name)}`,
    )
    sequences.push({ name, next: values[0]!.next })
  }
  return sequences
}

/**
 * Drops foreign keys and triggers of these tables, so that rows may come in any order and cause no other changes. Call the result in the same transaction: it
 * restores them, and every foreign key is checked then. The owner of the tables may do this; it needs no superuser.
 */
export async function withoutRules(client: pg.ClientBase, tables: readonly Table[]): Promise<() => Promise<void>> {
  const names = tables.map(({ name }) => name)
  const { rows: keys } = await client.query<ForeignKey>(
    `select c.relname as table, k.conname as name, pg_get_constraintdef(k.oid) as definition from pg_constraint k join pg_class c on c.oid = k.conrelid
     where k.contype = 'f' and k.conparentid = 0 and c.relnamespace = to_regnamespace(quote_ident(current_schema())) and c.relname = any($1)`,
    [names],
  )
  const triggers = async (what: 'disable' | 'enable') => {
    for (const name of names) await client.query(`alter table ${quoted(name)} ${what} trigger user`)
  }
  for (const { table, name } of keys) await client.query(`alter table ${quoted(table)} drop constraint ${quoted(name)}`)
  await triggers('disable')
  return async () => {
    for (const { table, name, definition } of keys) await client.query(`alter table ${quoted(table)} add constraint ${quoted(name)} ${definition}`)
    await triggers('enable')
  }
}
