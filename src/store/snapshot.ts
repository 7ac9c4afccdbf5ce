// All rows of a database at one moment, for a backup, and the keys of their objects.
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { to as copyTo } from 'pg-copy-streams'
import { readSequences, readTables, quoted, type Table } from './copy-catalog.ts'
import { overClient, STALL_MS, sums, type Connection, type TableSum } from './copy-database.ts'
import type { Db } from './db.ts'
import type { ObjectOwner } from './sweep.ts'
import { abortable, WaitTimeout } from '../base/wait.ts'

/** Bytes of rows per piece. */
const PIECE_BYTES = 8 * 1024 * 1024
/** Rows per query for objects. */
const BATCH = 500

export interface Snapshot {
  /** The queries of groups, at the same moment. */
  db: Db
  tables: Table[]
  sequences: { name: string; next: string }[]
  /** The names of the applied migrations of the database, in their order. */
  migrations: string[]
  /** Ends the transaction; locks of the connection stay. */
  end(): Promise<void>
}

/** Begins a read-only transaction that sees the database as it is now. */
export async function beginSnapshot({ client }: Connection, signal: AbortSignal): Promise<Snapshot> {
  await abortable(client.query('begin isolation level repeatable read read only'), signal)
  const tables = await abortable(readTables(client), signal)
  const sequences = await abortable(readSequences(client), signal)
  const { rows } = await abortable(client.query<{ name: string }>('select name from kysely_migration order by name collate "C"'), signal)
  return {
    db: overClient(client),
    tables,
    sequences,
    migrations: rows.map(({ name }) => name),
    end: async () => void (await abortable(client.query('commit'), signal)),
  }
}

/** The rows of a table as text, in pieces of some megabytes; a piece may end within a row. */
export async function* rowsOf({ client }: Connection, { name, columns }: Table, signal: AbortSignal): AsyncGenerator<Buffer> {
  const rows = client.query(copyTo(`copy (select ${columns.map(quoted).join(', ')} from ${quoted(name)}) to stdout`))
  const stalled = new AbortController()
  const ended = AbortSignal.any([signal, stalled.signal])
  let parts: Buffer[] = []
  let bytes = 0
  const whole = () => {
    const piece = Buffer.concat(parts)
    parts = []
    bytes = 0
    return piece
  }
  const gather = new Transform({
    readableObjectMode: true,
    readableHighWaterMark: 1,
    transform(chunk: Buffer, _encoding, done) {
      parts.push(chunk)
      bytes += chunk.length
      done(null, bytes >= PIECE_BYTES ? whole() : undefined)
    },
    flush(done) {
      done(null, bytes > 0 ? whole() : undefined)
    },
  })
  const copying = pipeline(rows, gather, { signal: ended })
  copying.catch(() => {}) // the reader of `gather` gets it
  const pieces = gather[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  for (;;) {
    const timer = setTimeout(() => stalled.abort(new WaitTimeout(`reading the table ${name}`, STALL_MS)), STALL_MS)
    const next = await pieces.next().finally(() => clearTimeout(timer))
    if (next.done) break
    yield next.value
  }
  await copying
}

/** The number of rows of each table and a checksum, computed by the database. */
export const countsOf = (connection: Connection, tables: readonly Table[], signal: AbortSignal): Promise<TableSum[]> =>
  abortable(sums(connection, tables), signal)

/** The keys of all objects in rows of this scope. */
export async function* keysOf(owners: readonly ObjectOwner[], signal: AbortSignal): AsyncGenerator<string> {
  for (const owner of owners) {
    let rows = await abortable(owner.expected('', BATCH), signal)
    for (; rows.length > 0; rows = await abortable(owner.expected(rows.at(-1)!.id, BATCH), signal)) for (const { keys } of rows) yield* keys
  }
}
