// Moves what a stopped service has in its data directory, the database and the objects, into a Postgres and a bucket. Objects come first: the rows that
// name them are the commit point. The data directory is only read.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { Config } from '../../base/config.ts'
import type { S3Settings } from '../../base/s3-settings.ts'
import { silentLog } from '../../base/log.ts'
import { dataPaths, type DataPaths } from '../../base/paths.ts'
import { heldSockets, presenceIn } from '../../base/presence.ts'
import { ConfigError } from '../../base/setting.ts'
import { compareObjects, copyObjects, countObjects } from '../../store/copy-objects.ts'
import { copyDatabase, countRows, openConnection, targetState } from '../../store/copy-database.ts'
import { checkDatabaseUrl } from '../../store/database-url.ts'
import { connectDb, migratorOf, type Db, type DbAddress } from '../../store/db.ts'
import { postgresRuns, startPostgres } from '../../store/embedded.ts'
import { makeObjects } from '../../store/make-objects.ts'
import { holdScope } from '../../store/scope-lock.ts'
import type { Objects } from '../../store/objects.ts'
import { belongTo, belongToAnother, madeAt, type ObjectOwner } from '../../store/sweep.ts'
import { assertRestored } from './backup/marker.ts'
import { objectOwners } from '../modules.ts'
import { sayKeys } from './key-notes.ts'

/** What may be moved alone. */

export type Part = 'database' | 'objects'

/** Time between two lines about the progress. */
const TELL_MS = 2_000
/** Objects that a message names. */
const NAMED = 5

export interface MigrateSettings {
  /** The settings of the service to come: they name the data directory, the Postgres and the bucket. */
  config: Config
  /** Only this part; undefined: whatever the settings have a place for. */
  only: Part | undefined
  isDryRun: boolean
  /** A line for people: a finding or a result. */
  say: (line: string) => void
  /** A line about the progress. */
  tell: (line: string) => void
  signal: AbortSignal
}

/**
 * Moves the database and the objects, or says what it would move. It can be ended at any time and run again; until its transaction commits, the target
 * database is as it was.
 * @throws ConfigError or Error that says what has to be done first
 */
export async function migrate(settings: MigrateSettings): Promise<void> {
  const { config, only, isDryRun, say, tell, signal } = settings
  const { databaseUrl, s3 } = targets(config, only)
  const { paths, scope } = source(config, databaseUrl !== undefined)
  await using opened = new AsyncDisposableStack()
  if (config.databaseUrl) await checkDatabaseUrl(config.databaseUrl, signal)
  // When only objects are moved, the service's database is the one that its settings name.
  const postgres = databaseUrl !== undefined || config.databaseUrl === undefined ? await embedded(paths, signal, opened) : undefined
  const address: DbAddress = postgres?.address ?? { connectionString: config.databaseUrl! }
  const db = connectDb(address, silentLog)
  opened.defer(() => db.destroy())
  const lock = await holdScope(db, scope)
  opened.defer(() => lock.release())
  await assertVersion(db, postgres === undefined)
  await assertScope(db, scope)
  await assertEnded(db, paths)

  say(`from    ${paths.root} (scope ${scope})`)
  using bucket = s3 && (await makeObjects(paths.objects, s3))
  const moving = { dir: paths.objects, owners: objectOwners(db, scope), madeAt: await madeAt(db), bucket, s3, say, tell, signal }
  const objects = await announceObjects(moving)
  const isComplete = await announceRows(address, databaseUrl, say, signal)
  await sayKeys(config, db, paths, say)
  if (isDryRun) return say('nothing was moved (--dry-run)')

  if (bucket) await moveObjects({ ...moving, bucket }, objects)
  await lock.ensure()
  if (isComplete) say('rows: the database has all of them already')
  else if (databaseUrl !== undefined) {
    await using from = await openConnection(address, signal)
    await using to = await openConnection({ connectionString: databaseUrl }, signal)
    const { tables } = await copyDatabase(from, to, { lock: `cob:${scope}`, tell, signal })
    say(`rows: ${sumOf(tables.map(({ rows }) => rows))} in ${tables.length} tables moved; each table was compared, row by row`)
  }
  if (databaseUrl !== undefined) postgres?.stopLater()
  for (const line of whatToCarry(paths, config, { databaseUrl, s3 })) say(line)
}

interface Moving extends Pick<MigrateSettings, 'say' | 'tell' | 'signal'> {
  /** The folder of the objects. */
  dir: string
  owners: readonly ObjectOwner[]
  /** When the database was made, which names it as the owner of a bucket. */
  madeAt: Date
  bucket: Objects | undefined
  s3: S3Settings | undefined
}

/** Says which objects there are to move. @throws when the bucket is not for them, or does not answer */
async function announceObjects({ dir, owners, madeAt: at, bucket, s3, say, signal }: Moving): Promise<{ objects: number; bytes: number }> {
  const { kinds, unnamed } = await countObjects(dir, owners, signal)
  const all = { objects: sumOf(kinds.map(({ objects }) => objects)), bytes: sumOf(kinds.map(({ bytes }) => bytes)) }
  if (!bucket || !s3) {
    say(`objects stay: ${counted(all.objects, 'object')} in ${dir}`)
    return all
  }
  if (await belongToAnother(bucket, at, signal))
    throw new ConfigError('COB_S3_PREFIX', `the objects of another database are in the bucket below "${s3.prefix}/": set another prefix`)
  say(`objects ${counted(all.objects, 'object')}, ${megabytes(all.bytes)}, to the bucket "${s3.bucket}", below "${s3.prefix}/"`)
  for (const { prefix, objects, bytes } of kinds) if (objects > 0) say(`        ${prefix}: ${objects}, ${megabytes(bytes)}`)
  if (unnamed > 0) say(`        not moved, because no row names them: ${counted(unnamed, 'file')}`)
  return all
}

async function moveObjects(
  { dir, owners, madeAt: at, bucket, say, tell, signal }: Moving & { bucket: Objects },
  all: { objects: number; bytes: number },
): Promise<void> {
  if (!(await belongTo(bucket, at, signal))) throw new ConfigError('COB_S3_PREFIX', 'another database has taken this part of the bucket just now')
  const tellSome = atMostEvery(TELL_MS, tell)
  const { copied, there } = await copyObjects(dir, bucket, owners, {
    signal,
    tell: (done) => tellSome(`objects: ${done.copied + done.there} of ${all.objects}, ${megabytes(done.bytes)} of ${megabytes(all.bytes)}`),
  })
  const { lacking, gone } = await compareObjects(dir, bucket, owners, signal)
  if (lacking.length > 0) throw new Error(`the bucket lacks objects that were stored in it: ${some(lacking)}; run this again`)
  say(`objects: ${copied} moved, ${there} were there already; all are there that rows name${gone.length > 0 ? ', but:' : ''}`)
  if (gone.length > 0) say(`        ${counted(gone.length, 'object')} that rows name were gone from the data directory before: ${some(gone)}`)
}

/** Where to. @throws ConfigError when the settings name no place for what is wanted */
function targets({ databaseUrl, s3 }: Config, only: Part | undefined): { databaseUrl: string | undefined; s3: S3Settings | undefined } {
  if (only !== 'objects' && databaseUrl === undefined && (only === 'database' || s3 === undefined))
    throw new ConfigError('DATABASE_URL', `must be set${only ? '' : ', or COB_S3_BUCKET, or both'}: it says where the database is moved to`)
  if (only === 'objects' && s3 === undefined) throw new ConfigError('COB_S3_BUCKET', 'must be set: it says where the objects are moved to')
  return { databaseUrl: only === 'objects' ? undefined : databaseUrl, s3: only === 'database' ? undefined : s3 }
}

/** The data directory and its scope. @throws when it is none, has no database where one is needed, or a service works with it */
function source({ dataDir, scope, databaseUrl }: Config, isDatabaseMoved: boolean): { paths: DataPaths; scope: string } {
  const hasDatabase = existsSync(join(dataDir, 'postgres', 'PG_VERSION'))
  if (!existsSync(join(dataDir, 'host-id')) && !(scope !== undefined && existsSync(dataDir)))
    throw new ConfigError('COB_DATA_DIR', `${dataDir} is not the data directory of a service`)
  if (!hasDatabase && isDatabaseMoved)
    throw new ConfigError('COB_DATA_DIR', `${dataDir} has no database of its own. If only its objects are to be moved, say so with --only objects`)
  if (!hasDatabase && databaseUrl === undefined)
    throw new ConfigError('DATABASE_URL', `must be set: ${dataDir} has no database of its own, and the database names the objects`)
  assertRestored(dataDir)
  const paths = dataPaths(dataDir)
  if (presenceIn(paths.root, heldSockets()) === 'running') throw new Error(`a service runs with ${paths.root}; stop it first`)
  return { paths, scope: scope ?? readFileSync(paths.hostId, 'utf8').trim() }
}

/** The Postgres of the data directory. One that a killed service or command has left goes on at the end, unless `stopLater` was called. */
async function embedded(paths: DataPaths, signal: AbortSignal, opened: AsyncDisposableStack): Promise<{ address: DbAddress; stopLater: () => void }> {
  let isToStop = !postgresRuns(paths)
  const postgres = await startPostgres(paths, silentLog, signal)
  opened.defer(async () => {
    if (isToStop) await postgres.stop()
  })
  return { address: postgres.address, stopLater: () => void (isToStop = true) }
}

async function assertVersion(db: Db, isOwn: boolean): Promise<void> {
  const migrations = await migratorOf(db).getMigrations()
  if (isOwn && migrations.every(({ executedAt }) => executedAt === undefined))
    throw new ConfigError(
      'DATABASE_URL',
      'its database has no tables of a service, so it does not name the objects. While the database is in the data directory, move it first, or leave this setting out',
    )
  if (migrations.some(({ executedAt }) => executedAt === undefined))
    throw new Error('the database is of an older version of Cob; start the service of this version once with it, and stop it, which brings it up to date')
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  if (rows.length > migrations.length) throw new Error('the database is of a newer version of Cob; use the command of that version')
}

/** Each start of a service leaves a key of its scope. With another scope the next service would find nothing of what is moved. */
async function assertScope(db: Db, scope: string): Promise<void> {
  const { rows } = await sql<{ scope: string }>`select distinct scope from api_keys where scope <> ''`.execute(db)
  if (rows.some((row) => row.scope === scope)) return
  throw new ConfigError(
    'COB_SCOPE',
    rows.length === 0
      ? 'no service has used this database yet, so there is nothing to move'
      : `no service with the scope ${scope} has used this database: set it as the service had it (${rows.map((row) => row.scope).join(', ')})`,
  )
}

/** What still runs belongs to this machine, and would be lost with its row. */
async function assertEnded(db: Db, paths: DataPaths): Promise<void> {
  const { rows } = await sql<{ sessions: number; runs: number }>`
    select (select count(*) from browsers where state <> 'deleted') as sessions, (select count(*) from invocations where finished_at is null) as runs`.execute(
    db,
  )
  const { sessions, runs } = rows[0]!
  const sandboxes = [paths.instances, paths.appSandboxes].flatMap((folder) => readdirSync(folder)).length
  const left = [
    ...(sessions > 0 ? [counted(sessions, 'session or warm browser', 'sessions or warm browsers')] : []),
    ...(runs > 0 ? [counted(runs, 'run of an app', 'runs of apps')] : []),
    ...(sandboxes > 0 ? [`${counted(sandboxes, 'folder')} of such below instances/ and runs/`] : []),
  ]
  if (left.length > 0)
    throw new Error(
      `something has not ended: ${left.join(', ')}. Start the service with this data directory (without COB_REPLICAS), and stop it with SIGTERM, which ends all of it`,
    )
}

/** Says what is in the database, if it is to be moved. True when the target has all of it already. */
async function announceRows(address: DbAddress, databaseUrl: string | undefined, say: (line: string) => void, signal: AbortSignal): Promise<boolean> {
  if (databaseUrl === undefined) {
    say('rows    stay: the database is not moved')
    return false
  }
  await using from = await openConnection(address, signal)
  await using to = await openConnection({ connectionString: databaseUrl }, signal)
  const state = await targetState(from, to, signal)
  const { tables, bytes } = await countRows(from, signal)
  const { database, host, port } = to.client
  say(`rows    ${sumOf(tables.map(({ rows }) => rows))} in ${tables.length} tables, ${megabytes(bytes)}, to the database "${database}" at ${host}:${port}`)
  for (const { name, rows } of tables) if (rows > 0) say(`        ${name}: ${rows}`)
  return state === 'complete'
}

/** What the next service needs and no store has. */
function whatToCarry(paths: DataPaths, config: Config, moved: { databaseUrl: string | undefined; s3: S3Settings | undefined }): string[] {
  const places = [...(moved.databaseUrl ? ['DATABASE_URL'] : []), ...(moved.s3 ? ['COB_S3_…'] : [])].join(' and ')
  const unused = [...(moved.databaseUrl ? ['postgres/'] : []), ...(moved.s3 ? ['objects/'] : [])].join(' and ')
  const files = [
    ...(existsSync(paths.hostId) && config.scope === undefined ? ['host-id (rows belong to it)'] : []),
    ...(existsSync(paths.secretKey) && config.secretKey === undefined ? ['secret-key'] : []),
    ...(existsSync(paths.sealingKeys) ? ['sealing-keys'] : []),
    ...(existsSync(paths.apiKey) && config.apiKey === undefined ? ['api-key'] : []),
    ...(moved.s3 ? [] : ['objects/']),
    ...(hasFiles(paths.spool) ? ['spool/ (recordings that are not stored yet)'] : []),
    ...(hasFiles(paths.audit) ? ['audit/ (entries that are not in the database yet)'] : []),
    // Code of a version that did not store it as objects. A copy of an object has a dot in its name.
    ...(namesIn(paths.apps).some((name) => !name.includes('.') && !name.startsWith('by-')) ? ['apps/ (code that is no object yet)'] : []),
    ...(hasFiles(config.credentialFilesDir) ? [`${config.credentialFilesDir} (files of credential providers)`] : []),
  ]
  const settings = [
    ...(config.scope === undefined ? [] : ['COB_SCOPE']),
    ...(config.secretKey === undefined ? [] : ['COB_SECRET_KEY']),
    ...(config.sealingKeys.length === 0 ? [] : ['COB_SEALING_KEYS']),
    ...(config.apiKey === undefined ? [] : ['COB_API_KEY']),
  ]
  return [
    `Start the service with ${places} from now on${settings.length > 0 ? `, and ${settings.join(', ')} as here` : ''}. The data directory was not changed.`,
    `With the same COB_DATA_DIR nothing else is needed. What it has below ${unused} is not used any more: remove that when you have seen that all is there.`,
    ...(files.length > 0
      ? [
          `With another COB_DATA_DIR, copy these into it before the first start: ${files.join(', ')}. Without them secrets cannot be read, and the history is not found.`,
        ]
      : []),
  ]
}

const namesIn = (dir: string): string[] => (existsSync(dir) ? readdirSync(dir) : [])

const hasFiles = (dir: string): boolean => existsSync(dir) && readdirSync(dir, { recursive: true, withFileTypes: true }).some((entry) => entry.isFile())

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0)

const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`

const some = (keys: readonly string[]): string => keys.slice(0, NAMED).join(', ') + (keys.length > NAMED ? ` and ${keys.length - NAMED} more` : '')

/** Leaves out lines that come sooner after the one before. */
function atMostEvery(ms: number, tell: (line: string) => void): (line: string) => void {
  let last = -Infinity
  return (line) => {
    if (performance.now() - last < ms) return
    last = performance.now()
    tell(line)
  }
}
