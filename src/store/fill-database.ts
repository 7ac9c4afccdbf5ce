// Makes the tables of a backup in an empty database and fills them, in one transaction: afterwards the database has all of it or nothing.
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type { Writable } from 'node:stream'
import { sql } from 'kysely'
import { from as copyFrom } from 'pg-copy-streams'
import { abortable, within } from '../base/wait.ts'
import { quoted, readTables, withoutRules, type Table } from './copy-catalog.ts'
import { differences, named, overClient, STALL_MS, sums, type Connection, type TableSum } from './copy-database.ts'
import { migratorOf, type Db } from './db.ts'
import { presentNames, renameMigrations } from './schema.ts'

export interface Contents {
  tables: (Table & TableSum)[]
  sequences: { name: string; next: string }[]
  /** The migrations that were applied to the rows. */
  migrations: string[]
}

interface FillSettings {
  /** Pieces of rows, table by table. */
  rows: AsyncIterable<{ table: string; piece: Buffer }>
  /** Changes rows before the commit. The tables have this version's form by then. */
  adjust: (db: Db) => Promise<void>
  tell: (line: string) => void
  signal: AbortSignal
}

/** The tables of these contents that the database already has. */
export async function tablesThere({ client }: Connection, { tables }: Contents, signal: AbortSignal): Promise<string[]> {
  const there = await abortable(readTables(client), signal)
  return there.filter(({ name }) => tables.some((table) => table.name === name)).map(({ name }) => name)
}

/** Makes the tables, fills them, compares the rows, and migrates to this version. @throws when the rows differ from the source, or `signal` aborts; then the database is unchanged */
export function fillDatabase(to: Connection, contents: Contents, { rows, adjust, tell, signal }: FillSettings): Promise<void> {
  return abortable(fill(), signal)

  async function fill(): Promise<void> {
    const { client } = to
    const { tables, sequences, migrations } = contents
    const transaction = await overClient(client).startTransaction().execute()
    tell('database: making its tables')
    const made = await migratorOf(transaction).migrateTo(presentNames(migrations).at(-1)!)
    if (made.error) throw made.error
    const odd = differences(tables, await readTables(client))
    if (odd.length > 0) throw new Error(`this version of Cob makes these tables in another form than the one of the backup: ${odd.join(', ')}`)
    const restoreRules = await withoutRules(client, tables)
    // Rows that migrations have written are also among the incoming rows.
    await client.query(`truncate ${tables.map(({ name }) => quoted(name)).join(', ')}`)
    await copyAll(to, tables, rows, { tell, signal })
    for (const { name, next } of sequences) await client.query(`alter sequence ${quoted(name)} restart with ${BigInt(next)}`)
    tell('database: checking references between rows')
    await restoreRules()
    tell('database: comparing all tables')
    const there = await sums(to, tables)
    const lost = there.filter((one, at) => one.checksum !== tables[at]!.checksum || one.rows !== tables[at]!.rows)
    if (lost.length > 0) throw new Error(`the rows differ from those of the backup in ${named(lost)}; nothing was kept of them`)
    await renameMigrations(transaction)
    const upgraded = await migratorOf(transaction).migrateToLatest()
    if (upgraded.error) throw upgraded.error
    await adjust(transaction)
    for (const { name } of await readTables(client)) await client.query(`analyze ${quoted(name)}`)
    signal.throwIfAborted()
    await transaction.commit().execute()
  }
}

async function copyAll(
  { client }: Connection,
  tables: readonly Table[],
  rows: FillSettings['rows'],
  { tell, signal }: Pick<FillSettings, 'tell' | 'signal'>,
): Promise<void> {
  let open: { table: string; into: Writable } | undefined
  const close = async () => {
    if (!open) return
    open.into.end()
    await within(`storing the table ${open.table}`, STALL_MS, finished(open.into), signal)
    open = undefined
  }
  for await (const { table, piece } of rows) {
    if (open?.table !== table) {
      await close()
      const { columns } = tables.find(({ name }) => name === table)!
      tell(`database: ${table}`)
      const into = client.query(copyFrom(`copy ${quoted(table)} (${columns.map(quoted).join(', ')}) from stdin`))
      into.on('error', () => {}) // the waits report it
      open = { table, into }
    }
    if (!open.into.write(piece)) await within(`storing the table ${table}`, STALL_MS, once(open.into, 'drain'), signal)
  }
  await close()
}

/** When the database was made; undefined when it has no tables of a service. */
export async function madeAtIfAny({ client }: Connection): Promise<string | undefined> {
  const { rows } = await client.query<{ there: string | null }>(`select to_regclass('kysely_migration')::text as there`)
  if (rows[0]!.there === null) return undefined
  const times = await client.query<{ at: string | null }>('select min(timestamp) as at from kysely_migration')
  return times.rows[0]!.at ?? undefined
}

/**
 * Gives the restored database its own identity, which differs from the identity of the backup's database. So neither database takes the other's objects for its
 * own.
 */
export const renameDatabase = async (db: Db, at: string): Promise<void> => void (await sql`update kysely_migration set timestamp = ${at}`.execute(db))
