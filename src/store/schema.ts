// The form of the tables, and whether this version can work with it: a version works with every later form that only added to its own.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { sql, type Kysely } from 'kysely'
import type { Tables } from './tables.ts'

type Db = Kysely<Tables>

export const MIGRATIONS = join(import.meta.dirname, 'migrations')

/** The names of all migrations of this version, in their order. */
export const migrationNames = (): string[] =>
  readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -4))
    .sort()

/** Before the first release, the migrations 0001 to 0038 made these tables. A database with all of them has the form of the first migration of this version. */
const [SCHEMA, FIRST_BEFORE, LAST_BEFORE] = ['0001-schema', '0001-foundation', '0038-build-sandboxes'] as const

/** The applied migrations of a database, by their present names. */
export const presentNames = (had: string[]): string[] => (had.includes(LAST_BEFORE) ? [SCHEMA, ...had.filter((name) => name > LAST_BEFORE)] : had)

/** Writes the present names into the database. The earliest time stays, because it identifies the database (sweep.ts). */
export async function renameMigrations(db: Db): Promise<void> {
  await sql`
    with had as (
      delete from kysely_migration where name <= ${LAST_BEFORE} collate "C" and exists (select from kysely_migration where name = ${LAST_BEFORE}) returning timestamp)
    insert into kysely_migration select ${SCHEMA}, min(timestamp) from had having count(*) > 0`.execute(db)
}

/** Why this version cannot bring tables with these migrations up to date; undefined when it can. */
export const tooOld = (names: readonly string[]): string | undefined =>
  names.includes(FIRST_BEFORE)
    ? `is of a version before the first release (its last migration is ${names.at(-1)!}), which only the last version before it, with ${LAST_BEFORE}, brings up to date`
    : undefined

/**
 * The end of the name of a migration that does more than add to the tables: versions without it cannot work with them. The mark is in the name, because the
 * database keeps the name, and an earlier version finds it there.
 */
const BREAKS = '.breaks'
export const breaks = (migration: string): boolean => migration.endsWith(BREAKS)

export interface Schema {
  /** The applied migrations of a database, the missing ones, and those that are applied and unknown to this version. */
  done: string[]
  pending: string[]
  unknown: string[]
}

/** The form of the tables. */
export async function schemaOf(db: Db): Promise<Schema> {
  const { rows: there } = await sql<{ is: string | null }>`select to_regclass('kysely_migration')::text as is`.execute(db)
  const { rows } = there[0]!.is === null ? { rows: [] } : await sql<{ name: string }>`select name from kysely_migration order by name collate "C"`.execute(db)
  const [names, had] = [migrationNames(), presentNames(rows.map(({ name }) => name))]
  return {
    done: names.filter((name) => had.includes(name)),
    pending: names.filter((name) => !had.includes(name)),
    unknown: had.filter((name) => !names.includes(name)),
  }
}

/** Why this version does not start with such tables; undefined when it does. `replicas`: the number of other replicas that work with them now. */
export function whyNot({ pending, unknown }: Schema, replicas: number): string | undefined {
  const old = tooOld(unknown)
  if (old !== undefined) return `the database ${old}. Start that version once, and then this one`
  const broken = unknown.filter(breaks)
  if (broken.length > 0)
    return `the database was upgraded by a newer version of Cob, and this one cannot work with its tables (${broken.join(', ')}). Use that version, or restore a backup of this one`
  if (unknown.length > 0 && pending.length > 0)
    return `the database has migrations that this version does not know (${unknown.join(', ')}), and lacks others (${pending.join(', ')}). Use the version that has both`
  const breaking = pending.filter(breaks)
  if (breaking.length > 0 && replicas > 0)
    return `${replicas === 1 ? 'another replica works' : `${replicas} other replicas work`} with the tables, and this version changes them so that older ones cannot (${breaking.join(', ')}). Stop all replicas, then start this version (in Kubernetes: strategy=Recreate)`
  return undefined
}

/** The beginning of the name of the lease by which a replica counts as alive (leases.ts). */
export const PRESENCE = 'replica '

/** The number of replicas that work with the database now, of all scopes. */
export async function replicasThere(db: Db): Promise<number> {
  const { rows: there } = await sql<{ is: string | null }>`select to_regclass('leases')::text as is`.execute(db)
  if (there[0]!.is === null) return 0
  const { rows } = await sql<{ count: number }>`select count(*)::int as count from leases where starts_with(duty, ${PRESENCE}) and until > now()`.execute(db)
  return rows[0]!.count
}

/**
 * Why a database from before the first release is not taken over: its version has not packed all code yet, and this one cannot. Undefined when it is taken
 * over.
 */
async function notPacked(db: Db): Promise<string | undefined> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from deployments
    where state = 'running' and deletion = 'kept' and code_key is null and exists (select from kysely_migration where name = ${LAST_BEFORE})`.execute(db)
  const { count } = rows[0]!
  if (count === 0) return undefined
  return `the database is of the last version before the first release, which has not packed the code of ${count} deployments yet. Start that version and wait until it has (its log names each), or delete these deployments there. Then start this one`
}

/** The result of {@link whyNot} for a database, with the form of its tables. */
export async function standingOf(db: Db): Promise<{ schema: Schema; why: string | undefined }> {
  // In this order: a replica of this version has its lease only after it has upgraded the tables.
  const replicas = await replicasThere(db)
  const schema = await schemaOf(db)
  return { schema, why: whyNot(schema, replicas) ?? (schema.done.includes(SCHEMA) ? await notPacked(db) : undefined) }
}
