// The database: connecting, the tables as types, migrations. One SQL dialect, Postgres.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Migrator, type Migration } from 'kysely/migration'
import pg from 'pg'
import type { Log } from '../base/log.ts'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>

// int8 comes back as text by default; none of ours passes 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

/** Connections a control plane holds at most; queries are short, so few serve many. */
const POOL_SIZE = 10
const CONNECT_MS = 10_000
const STATEMENT_MS = 15_000

/** Where Postgres is: a connection string, or a socket's folder. */
export type DbAddress = { connectionString: string } | { host: string; user: string; database: string }

/** Connects and brings the schema up to date. The caller ends it with `db.destroy()`. */
export async function openDb(address: DbAddress, log: Log): Promise<Db> {
  const pool = new pg.Pool({
    ...address,
    max: POOL_SIZE,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    idleTimeoutMillis: 0,
    application_name: 'cob',
  })
  // A connection in use tells its user, too; without a listener its error would end the process.
  // The pool does not wait for its connections to be closed, so the last of them may hear of the server's end: that is no news.
  const broke = (err: unknown) => pool.ending || log.warn({ err }, 'a database connection broke')
  pool.on('connect', (client) => client.on('error', broke))
  pool.on('error', broke)
  const db: Db = new Kysely({ dialect: new PostgresDialect({ pool }) })
  try {
    await migrate(db)
  } catch (error) {
    await db.destroy()
    throw error
  }
  return db
}

const MIGRATIONS = join(import.meta.dirname, 'migrations')

// The migrator takes an advisory lock, so several control planes may start at once.
async function migrate(db: Db): Promise<void> {
  const getMigrations = async () => {
    const names = readdirSync(MIGRATIONS)
      .filter((name) => name.endsWith('.ts'))
      .sort()
    return Object.fromEntries(await Promise.all(names.map(async (name) => [name.slice(0, -3), (await import(join(MIGRATIONS, name))) as Migration])))
  }
  const { error } = await new Migrator({ db, provider: { getMigrations } }).migrateToLatest()
  if (error) throw error
}

/** Whether the database answers. */
export async function isReachable(db: Db): Promise<boolean> {
  return sql`select 1`.execute(db).then(
    () => true,
    () => false,
  )
}

/** Whether an error is Postgres refusing a duplicate under the named constraint. */
export function isDuplicate(error: unknown, constraint: string): boolean {
  const { code, constraint: name } = error as { code?: string; constraint?: string }
  return code === '23505' && name === constraint
}
