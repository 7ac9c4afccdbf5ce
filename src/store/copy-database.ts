// Tools of backups and restores for a whole database: connections with time for long statements, and checksums that compare tables.
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { abortable, resultWithin, within } from '../base/wait.ts'
import { quoted, type Table } from './copy-catalog.ts'
import type { Db, DbAddress } from './db.ts'

const CONNECT_MS = 10_000
/** Limit on one statement: building an index, or reading a table for its checksum. */
const STATEMENT_MS = 6 * 3600_000
/** A copy is given up after this time without a byte. Postgres may write a checkpoint meanwhile. */
export const STALL_MS = 120_000
const CLOSE_MS = 2_000
/** Most tables that an error names. */
const NAMED = 5

/** Settings of the text form in which rows are compared and copied. */
const TEXT_SETTINGS = `set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'iso_8601'; set extra_float_digits = 1; set bytea_output = 'hex'`
/** No timeout: one side waits for the other for as long as its statements take. */
const NO_IDLE_LIMITS = `select set_config(name, '0', false) from pg_settings where name in ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')`

export interface TableSum {
  name: string
  rows: number
  /** The checksum of all rows together, in any order. */
  checksum: string
}

export interface Connection extends AsyncDisposable {
  client: pg.Client
}

/** A separate connection, with time for long statements. Disposing ends it at once: uncommitted changes are rolled back. */
export async function openConnection(address: DbAddress, signal: AbortSignal): Promise<Connection> {
  await using opened = new AsyncDisposableStack()
  const client = new pg.Client({
    ...address,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    application_name: 'cob backup',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  })
  client.on('error', () => {}) // the statement that runs fails as well
  opened.defer(() => resultWithin(CLOSE_MS, client.end()).catch(() => {}))
  await within('a database connection', CONNECT_MS + 1_000, client.connect(), signal)
  await abortable(client.query(TEXT_SETTINGS), signal)
  await abortable(client.query(NO_IDLE_LIMITS), signal)
  const owner = opened.move()
  return { client, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/** Computed by the database, so that no row is transferred. Equal rows have the same checksum on every machine and version of Postgres. */
export async function sums({ client }: Connection, tables: readonly Table[]): Promise<TableSum[]> {
  const all: TableSum[] = []
  for (const { name, columns } of tables) {
    const { rows } = await client.query<{ rows: number; checksum: string }>(
      `select count(*) as rows, coalesce(sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 15))::bit(60)::bigint::numeric), 0)::text as checksum
       from (select ${columns.map(quoted).join(', ')} from ${quoted(name)}) t`,
    )
    all.push({ name, ...rows[0]! })
  }
  return all
}

/** Tables of `source` that `other` lacks, or has with other columns. */
export const differences = (source: readonly Table[], other: readonly Table[]): string[] =>
  source.filter(({ name, shape }) => other.find((table) => table.name === name)?.shape !== shape).map(({ name }) => name)

export function named(tables: readonly { name: string }[]): string {
  const names = tables.slice(0, NAMED).map(({ name }) => name)
  return names.join(', ') + (tables.length > NAMED ? ` and ${tables.length - NAMED} more` : '')
}

/** Kysely's statements go through this connection, and belong to its transaction. */
export const overClient = (client: pg.Client): Db =>
  new Kysely({
    dialect: new PostgresDialect({
      pool: {
        options: {},
        connect: async () => ({ query: (text: string, values: readonly unknown[]) => client.query(text, [...values]), release() {} }) as never,
        end: async () => {},
      },
    }),
  })
