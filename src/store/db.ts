// The database: connecting, the tables as types, migrations. One SQL dialect, Postgres.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Migrator, type Migration } from 'kysely/migration'
import pg from 'pg'
import type { Log } from '../base/log.ts'
import { abortable, within } from '../base/wait.ts'
import { KEEP_ALIVE, Pool, type DbAddress, type StoreState } from './pool.ts'

export type { DbAddress } from './pool.ts'
import { MIGRATIONS, migrationNames, renameMigrations, standingOf } from './schema.ts'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>

// int8 is parsed as text by default. No int8 column of Cob exceeds 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

/** Timeout of the health check: a slower database counts as unhealthy. */
const REACH_MS = 3_000

/** Limits of an upgrade: for its connection, and for one statement of it, such as an index of tens of millions of rows. */
const CONNECT_MS = 10_000
const UPGRADE_MS = 3600_000

/** The connection pool of each database. */
const pools = new WeakMap<Db, Pool>()

/** Connects and brings the schema up to date. The caller ends it with `db.destroy()`. */
export async function openDb(address: DbAddress, log: Log): Promise<Db> {
  const db = connectDb(address, log)
  try {
    await upgradeDb(address)
  } catch (error) {
    await db.destroy()
    throw error
  }
  return db
}

/** Opens a database with whatever tables it has. The caller ends it with `db.destroy()`. */
export function connectDb(address: DbAddress, log: Log): Db {
  const pool = new Pool(address, log)
  const db: Db = new Kysely({ dialect: new PostgresDialect({ pool }) })
  pools.set(db, pool)
  return db
}

/** The migrations, applied in the order of their names. The migrator takes an advisory lock, so several control planes may start at once. */
export function migratorOf(db: Db): Migrator {
  const migrationOf = (name: string): Migration => ({
    up: async (transaction) => void (await sql.raw(readFileSync(join(MIGRATIONS, `${name}.sql`), 'utf8')).execute(transaction)),
  })
  const getMigrations = async () => Object.fromEntries(migrationNames().map((name) => [name, migrationOf(name)]))
  return new Migrator({ db, provider: { getMigrations } })
}

/**
 * Brings the schema up to date, over a connection of its own: an index of a large table takes longer than a query for a caller may. Older replicas may still
 * use the tables, so a migration that does more than add to them is marked by its name (schema.ts), and waits until all of them have stopped.
 * @throws when this version cannot work with the tables; the signal's reason; incomplete changes are then undone
 */
export async function upgradeDb(address: DbAddress, signal?: AbortSignal): Promise<void> {
  const pool = new pg.Pool({
    ...address,
    max: 2,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: UPGRADE_MS,
    application_name: 'cob upgrade',
    ...KEEP_ALIVE,
  })
  // The query rejects as well. The pool listens only to connections that nobody uses.
  pool.on('error', () => {})
  pool.on('connect', (client) => void client.on('error', () => {}))
  const db: Db = new Kysely({ dialect: new PostgresDialect({ pool }) })
  const upgrade = async (): Promise<{ error?: unknown }> => {
    const { schema, why } = await standingOf(db)
    if (why !== undefined) return { error: new Error(why) }
    if (schema.done.length > 0) await renameMigrations(db)
    // A newer version has only added to the tables, so this one can work with them.
    return schema.unknown.length > 0 ? {} : await migratorOf(db).migrateToLatest()
  }
  const { error } = await abortable(upgrade(), signal).catch((reason: unknown) => ({ error: reason }))
  // After an abort the connection is still in use. The process ends, and Postgres then rolls back the incomplete changes.
  const closed = db.destroy()
  if (signal?.aborted) closed.catch(() => {})
  else await closed
  if (error) throw error
}

/** Whether the last write of the database failed for lack of space. */
export const isFull = (db: Db): boolean => pools.get(db)?.isFull === true

/** The present state of the database. */
export async function stateOf(db: Db): Promise<StoreState> {
  try {
    await within('the database', REACH_MS, sql`select 1`.execute(db))
    return isFull(db) ? 'full' : 'ok'
  } catch {
    return 'away'
  }
}

/** Whether an error means that Postgres refused a duplicate under the named constraint. */
export function isDuplicate(error: unknown, constraint: string): boolean {
  const { code, constraint: name } = error as { code?: string; constraint?: string }
  return code === '23505' && name === constraint
}

/** Whether an error means that Postgres refused a row because its project is deleted. */
export function isProjectGone(error: unknown): boolean {
  const { code, constraint } = error as { code?: string; constraint?: string }
  return code === '23503' && constraint?.endsWith('_project_id_fkey') === true
}

/** Whether an error means that Postgres refused a session or a pool because its telemetry destination is deleted. */
export function isDestinationGone(error: unknown): boolean {
  const { code, constraint } = error as { code?: string; constraint?: string }
  return code === '23503' && constraint === 'telemetry_exports_destination'
}
