// Copies a whole database into another one, in one transaction: the other one has all of it or nothing. `cob migrate` uses it.
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { abortable, resultWithin, WaitTimeout, within } from '../base/wait.ts'
import { quoted, readSequences, readTables, withoutRules, type Table } from './copy-catalog.ts'
import { migratorOf, type Db, type DbAddress } from './db.ts'

const CONNECT_MS = 10_000
/** Limit on one statement: building an index, or reading a table for its checksum. */
const STATEMENT_MS = 6 * 3600_000
/** A copy in which no byte moves for so long is given up. Postgres may write a checkpoint meanwhile. */
export const STALL_MS = 120_000
/** How often that is looked at. */
export const LOOK_MS = 2_000
const CLOSE_MS = 2_000
/** Tables that an error names. */
const NAMED = 5

/** Rows are compared and copied as text, which depends on these. */
const TEXT_SETTINGS = `set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'iso_8601'; set extra_float_digits = 1; set bytea_output = 'hex'`
/** One side waits for the other for as long as its statements take. */
const NO_IDLE_LIMITS = `select set_config(name, '0', false) from pg_settings where name in ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')`

export interface TableSum {
  name: string
  rows: number
  /** Of all rows together, in any order. */
  checksum: string
}

/** What the other database is, before a copy. */
export type TargetState =
  | 'empty'
  /** It has all of this database, row by row: an earlier copy was complete. */
  | 'complete'

export interface CopyReport {
  tables: TableSum[]
  /** False when there was nothing left to do. */
  isNew: boolean
}

export interface Connection extends AsyncDisposable {
  client: pg.Client
}

/** A connection of its own, with room for long statements. Disposing ends it at once: what it had not committed is undone. */
export async function openConnection(address: DbAddress, signal: AbortSignal): Promise<Connection> {
  await using opened = new AsyncDisposableStack()
  const client = new pg.Client({
    ...address,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    application_name: 'cob migrate',
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

/** The rows of each table, and the room that all take in bytes. */
export async function countRows({ client }: Connection, signal: AbortSignal): Promise<{ tables: { name: string; rows: number }[]; bytes: number }> {
  const tables: { name: string; rows: number }[] = []
  let bytes = 0
  for (const { name } of await abortable(readTables(client), signal)) {
    const { rows } = await abortable(
      client.query<{ rows: number; bytes: number }>(`select count(*) as rows, pg_total_relation_size($1::regclass) as bytes from ${quoted(name)}`, [
        quoted(name),
      ]),
      signal,
    )
    tables.push({ name, rows: rows[0]!.rows })
    bytes += rows[0]!.bytes
  }
  return { tables, bytes }
}

/**
 * Whether `to` may take a copy of `from`.
 * @throws when it is a database of the same server, has tables of these names with other rows, or when a service works with it
 */
export async function targetState(from: Connection, to: Connection, signal: AbortSignal): Promise<TargetState> {
  return abortable(judge(from, to), signal)
}

async function judge(from: Connection, to: Connection): Promise<TargetState> {
  if ((await serverOf(from)) === (await serverOf(to))) throw new Error('DATABASE_URL is the Postgres of the data directory itself; name another one')
  const [source, there] = [await readTables(from.client), await readTables(to.client)]
  const same = there.filter(({ name }) => source.some((table) => table.name === name))
  if (same.length === 0) return 'empty'
  if (differences(source, same).length > 0 || !(await isCopy(from, to)))
    throw new Error(
      `the database in DATABASE_URL is in use: it has tables of a service already (${named(same)}). Give an empty one, for example by "create database cob encoding 'UTF8' template template0"`,
    )
  const [mine, theirs] = await Promise.all([sums(from, source), sums(to, source)])
  const changed = mine.filter((one, at) => one.checksum !== theirs[at]!.checksum || one.rows !== theirs[at]!.rows)
  if (changed.length > 0)
    throw new Error(
      `this data directory was moved to the database in DATABASE_URL before, and one of the two has changed since (${named(changed)}): a service has worked with it. Nothing was done. To move again, give an empty database`,
    )
  return 'complete'
}

/** The migrations keep when they were made, so a copy has the same times, and no other database has. */
async function isCopy(from: Connection, to: Connection): Promise<boolean> {
  const times = async ({ client }: Connection) => {
    const { rows } = await client.query<{ all: string | null }>(`select string_agg(name || ' ' || timestamp, ',' order by name) as all from kysely_migration`)
    return rows[0]!.all
  }
  return (await times(from)) === (await times(to))
}

async function serverOf({ client }: Connection): Promise<string> {
  const { rows } = await client.query<{ started: string }>('select pg_postmaster_start_time()::text as started')
  return rows[0]!.started
}

interface CopySettings {
  /** The name of the lock that a service on the target holds. */
  lock: string
  tell: (line: string) => void
  signal: AbortSignal
  /** Makes the tables, within the transaction. */
  makeTables?: (target: Db) => Promise<void>
}

async function upgrade(target: Db): Promise<void> {
  const { error } = await migratorOf(target).migrateToLatest()
  if (error) throw error
}

/**
 * Copies all rows of `from` into `to`, whose tables it makes, in one transaction that compares every table at its end. When `to` has everything already, it
 * does nothing. @throws as {@link targetState}, and when the copy differs or is ended; `to` is then as it was
 */
export async function copyDatabase(from: Connection, to: Connection, { lock, tell, signal, makeTables = upgrade }: CopySettings): Promise<CopyReport> {
  return abortable(copy(), signal)

  async function copy(): Promise<CopyReport> {
    // One picture of the source for rows, checksums and sequences, which nothing can change by mistake.
    await from.client.query('begin isolation level repeatable read read only')
    const source = await readTables(from.client)
    if ((await judge(from, to)) === 'complete') return { tables: await sums(from, source), isNew: false }
    const transaction = await overClient(to.client).startTransaction().execute()
    const { rows } = await to.client.query<{ locked: boolean }>(`select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as locked`, [lock])
    if (!rows[0]!.locked) throw new Error('a service runs with the database in DATABASE_URL; stop it first')
    tell('database: making its tables')
    await makeTables(transaction)
    const made = await readTables(to.client)
    const odd = differences(
      source,
      made.filter(({ name }) => source.some((table) => table.name === name)),
    )
    if (odd.length > 0) throw new Error(`the database has tables that this version of Cob does not make in this form: ${odd.slice(0, NAMED).join(', ')}`)
    const restore = await withoutRules(to.client, source)
    // What migrations have written is among the rows that come.
    await to.client.query(`truncate ${source.map(({ name }) => quoted(name)).join(', ')}`)
    for (const table of source) await copyTable(from, to, table, { tell, signal })
    for (const { name, next } of await readSequences(from.client)) await to.client.query(`alter sequence ${quoted(name)} restart with ${next}`)
    tell('database: checking references between rows')
    await restore()
    tell('database: comparing all tables')
    const [mine, theirs] = await Promise.all([sums(from, source), sums(to, source)])
    const lost = mine.filter((one, at) => one.checksum !== theirs[at]!.checksum || one.rows !== theirs[at]!.rows)
    if (lost.length > 0) throw new Error(`the copy differs from the database in ${named(lost)}; nothing was kept of it`)
    for (const { name } of source) await to.client.query(`analyze ${quoted(name)}`)
    signal.throwIfAborted()
    await transaction.commit().execute()
    return { tables: theirs, isNew: true }
  }
}

/** Rows go through in pieces, whatever the size of the table. */
async function copyTable(from: Connection, to: Connection, { name, columns }: Table, { tell, signal }: { tell: (line: string) => void; signal: AbortSignal }) {
  const list = columns.map(quoted).join(', ')
  const rows = from.client.query(copyTo(`copy (select ${list} from ${quoted(name)}) to stdout`))
  const into = to.client.query(copyFrom(`copy ${quoted(name)} (${list}) from stdin`))
  // The pipeline reports errors. One that comes after it has ended, by the end of a connection, must not end the process.
  for (const stream of [rows, into]) stream.on('error', () => {})
  let bytes = 0
  const meter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      done(null, chunk)
    },
  })
  const stalled = new AbortController()
  let seen = { bytes: -1, at: performance.now() }
  const look = setInterval(() => {
    if (bytes !== seen.bytes) {
      tell(`database: ${name}, ${Math.round(bytes / 1_000_000)} MB`)
      seen = { bytes, at: performance.now() }
    } else if (performance.now() - seen.at > STALL_MS) stalled.abort(new WaitTimeout(`copying the table ${name}`, STALL_MS))
  }, LOOK_MS)
  try {
    await abortable(pipeline(rows, meter, into), AbortSignal.any([signal, stalled.signal]))
  } finally {
    clearInterval(look)
  }
}

/** Computed by the database, so that no row travels. The same for equal rows on every machine and version of Postgres. */
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

/** Tables of `source` that `other` lacks, or has in another form. */
export const differences = (source: readonly Table[], other: readonly Table[]): string[] =>
  source.filter(({ name, shape }) => other.find((table) => table.name === name)?.shape !== shape).map(({ name }) => name)

export function named(tables: readonly { name: string }[]): string {
  const names = tables.slice(0, NAMED).map(({ name }) => name)
  return names.join(', ') + (tables.length > NAMED ? ` and ${tables.length - NAMED} more` : '')
}

/** What Kysely does goes through this connection, and belongs to its transaction. */
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
