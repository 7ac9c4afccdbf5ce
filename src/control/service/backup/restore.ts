// `cob restore`: makes a new service from a backup. Checks everything before the first write. Stores objects before the rows that name them. It can be stopped
// at any time and run again.
import { existsSync, mkdirSync, readdirSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import type { Config } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { dataPaths, type DataPaths } from '../../../base/paths.ts'
import { heldSockets, presenceIn } from '../../../base/presence.ts'
import { ConfigError } from '../../../base/setting.ts'
import { openConnection, type Connection } from '../../../store/copy-database.ts'
import { checkDatabaseUrl } from '../../../store/database-url.ts'
import { connectDb, type DbAddress } from '../../../store/db.ts'
import { migrationNames, presentNames, tooOld } from '../../../store/schema.ts'
import { startPostgres } from '../../../store/embedded.ts'
import { fillDatabase, madeAtIfAny, tablesThere } from '../../../store/fill-database.ts'
import { makeObjects } from '../../../store/make-objects.ts'
import { isKey, type Objects } from '../../../store/objects.ts'
import { belongTo, ownerName, ownerOf } from '../../../store/sweep.ts'
import { sayKeys } from '../key-notes.ts'
import { BadBackup, checkArchive, readArchive, whole } from './archive-reader.ts'
import { atMostEvery, counted, KEY_FILES, KEYS, listed, MAX_PIECE_BYTES, megabytes, OBJECTS, ROWS, SPOOL, type Manifest } from './format.ts'
import { isMarker, readMarker, removeMarker, writeMarker, type Marker } from './marker.ts'
import { changeRows, type Changes } from './restored-rows.ts'

const TELL_MS = 2_000
/** An object that marks a bucket with an incomplete restore. */
const BUCKET_MARKER = 'restoring'
const MAX_MARKER_BYTES = 1_000
const LOCK = 'cob:restore'
/** Files that a data directory may have before: keys from elsewhere, and folders of file systems. */
const HARMLESS = [...KEY_FILES, 'credential-files', 'lost+found']
const RECORDING = /^[\w-][\w.-]*$/
/** Disk space of the database in addition to its rows, in bytes: a new one has 40 MB. */
const DATABASE_BYTES = 100_000_000

const decompress = promisify(zstdDecompress)

export interface RestoreSettings {
  /** The settings of the new service: they name the data directory, the Postgres and the bucket. */
  config: Config
  file: string
  /** The service that was backed up is lost for good: the new one continues with its scope. */
  sameScope: boolean
  say: (line: string) => void
  tell: (line: string) => void
  signal: AbortSignal
}

/** @throws ConfigError, BadBackup, or an Error that says what to do first */
export async function restore({ config, file, sameScope, say, tell, signal }: RestoreSettings): Promise<void> {
  const tellSome = atMostEvery(TELL_MS, tell)
  tell('checking the whole backup')
  const manifest = await checkArchive(file, (bytes) => tellSome(`checking the whole backup: ${megabytes(bytes)}`), signal)
  const root = resolve(config.dataDir)
  const known = readMarker(root)
  const marker = known ?? { backup: manifest.id, scope: scopeFor(config, manifest, sameScope), made_at: new Date().toISOString() }
  assertTarget(root, config, manifest, known)
  await using opened = new AsyncDisposableStack()
  if (config.databaseUrl) await checkDatabaseUrl(config.databaseUrl, signal)
  if (config.databaseUrl) await assertEmpty(config.databaseUrl, manifest, marker, signal)
  using objects = await makeObjects(join(root, 'objects'), config.s3)
  if (config.s3) await assertBucket(objects, config.s3.prefix, manifest, marker, signal)

  // Everything after this line writes.
  writeMarker(root, marker)
  const paths = dataPaths(root)
  if (config.scope === undefined && !existsSync(paths.hostId)) secret(paths.hostId, marker.scope)
  if (config.s3) await objects.put(BUCKET_MARKER, Readable.from([Buffer.from(marker.backup)]), { maxBytes: MAX_MARKER_BYTES }, signal)
  await restoreFiles(file, manifest, { paths, objects, tell: tellSome, signal })
  const address = await databaseOf(config, paths, signal, opened)
  const changes = await restoreRows(file, manifest, marker, address, tellSome, signal)
  if (config.s3) {
    if (!(await belongTo(objects, new Date(marker.made_at), signal)))
      throw new ConfigError('COB_S3_PREFIX', 'another database has taken this part of the bucket meanwhile')
    await objects.delete(BUCKET_MARKER, signal)
  }
  removeMarker(root)
  for (const line of report(manifest, marker, changes, config)) say(line)
  const db = connectDb(address, silentLog)
  opened.defer(() => db.destroy())
  await sayKeys(config, db, paths, say)
}

function scopeFor({ scope }: Config, manifest: Manifest, sameScope: boolean): string {
  if (sameScope && scope !== undefined && scope !== manifest.scope)
    throw new ConfigError('COB_SCOPE', `is ${scope}, and the service of the backup has the scope ${manifest.scope}: set it to that, or leave out --same-scope`)
  if (sameScope) return manifest.scope
  if (scope !== undefined && manifest.scopes.includes(scope))
    throw new ConfigError(
      'COB_SCOPE',
      'is that of the service in the backup. Set another one; or, if that service is gone and will never run again, use --same-scope',
    )
  return scope ?? newId()
}

/** @throws when the data directory is in use or not empty, or the disk has too little space */
function assertTarget(root: string, config: Config, manifest: Manifest, known: Marker | undefined): void {
  if (existsSync(root) && presenceIn(root, heldSockets()) === 'running') throw new Error(`a service runs with ${root}; restore into another data directory`)
  if (known && known.backup !== manifest.id)
    throw new ConfigError('COB_DATA_DIR', `${root} has an incomplete restore of another backup (${known.backup}): run that again, or remove the folder`)
  if (known && config.scope !== undefined && config.scope !== known.scope)
    throw new ConfigError('COB_SCOPE', `the restore into ${root} was begun with the scope ${known.scope}: set it to that, or remove the folder`)
  const there = existsSync(root) && !known ? readdirSync(root).filter((name) => !HARMLESS.includes(name) && !isMarker(name)) : []
  if (there.length > 0)
    throw new ConfigError(
      'COB_DATA_DIR',
      `${root} is not empty (${there.slice(0, 5).join(', ')}): a backup is restored into a new data directory, never over another service`,
    )
  const both = known ? [] : manifest.keys.filter((name) => existsSync(join(root, name)))
  if (both.length > 0) throw new ConfigError('COB_DATA_DIR', `${root} has ${both.join(', ')}, which the backup has as well: remove what is not wanted`)
  assertKnownVersion(manifest)
  const needed = (config.s3 ? 0 : manifest.objects.bytes) + (config.databaseUrl ? 0 : DATABASE_BYTES)
  let parent = root
  while (!existsSync(parent)) parent = resolve(parent, '..')
  const { bavail, bsize } = statfsSync(parent)
  if (!known && bavail * bsize < needed)
    throw new ConfigError('COB_DATA_DIR', `the disk of ${root} has ${megabytes(bavail * bsize)} free, and the backup needs at least ${megabytes(needed)}`)
}

function assertKnownVersion({ migrations, version }: Manifest): void {
  const [names, had] = [migrationNames(), presentNames(migrations)]
  const old = tooOld(had)
  if (old !== undefined) throw new Error(`the backup ${old}. Restore it with that version, start the service once, and make a backup of it`)
  if (!had.every((name, at) => names[at] === name))
    throw new Error(`the backup is of Cob ${version}, whose database has a newer form than this version knows; use the command of that version`)
}

async function assertEmpty(connectionString: string, manifest: Manifest, marker: Marker, signal: AbortSignal): Promise<void> {
  await using to = await openConnection({ connectionString }, signal)
  await hasRows(to, manifest, marker, signal)
}

/** Whether the database already has the rows of this restore. @throws when it has tables of another service */
async function hasRows(to: Connection, manifest: Manifest, marker: Marker, signal: AbortSignal): Promise<boolean> {
  const there = await tablesThere(to, manifest, signal)
  if (there.length === 0) return false
  if ((await madeAtIfAny(to)) === marker.made_at) return true
  throw new ConfigError(
    'DATABASE_URL',
    `the database is in use: it has tables of a service already (${there.slice(0, 5).join(', ')}). Give an empty one, for example by "create database cob encoding 'UTF8' template template0"`,
  )
}

/** @throws when the bucket has objects from elsewhere */
async function assertBucket(bucket: Objects, prefix: string, { kinds }: Manifest, marker: Marker, signal: AbortSignal): Promise<void> {
  const found = await bucket.get(BUCKET_MARKER, undefined, signal)
  const owner = await ownerOf(bucket, signal)
  if (owner === ownerName(new Date(marker.made_at)) || (found && (await text(found.content)) === marker.backup)) return
  let isEmpty = owner === undefined && !found
  for (const kind of kinds)
    for await (const _ of bucket.list(kind, signal)) {
      isEmpty = false
      break
    }
  if (!isEmpty) throw new ConfigError('COB_S3_PREFIX', `the bucket has objects below "${prefix}/" already: a backup is restored below a prefix of its own`)
}

interface FilesSettings {
  paths: DataPaths
  objects: Objects
  tell: (line: string) => void
  signal: AbortSignal
}

/** Restores everything but the rows. Existing files are from an earlier run and complete: objects and files appear only when they are whole. */
async function restoreFiles(file: string, manifest: Manifest, { paths, objects, tell, signal }: FilesSettings): Promise<void> {
  const there = new Map<string, number>()
  for (const kind of manifest.kinds) for await (const { key, bytes } of objects.list(kind, signal)) there.set(key, bytes)
  let [count, bytes] = [0, 0]
  for await (const entry of readArchive(file, signal)) {
    if (entry.name.startsWith(OBJECTS)) {
      const key = entry.name.slice(OBJECTS.length)
      if (!isKey(key)) throw new BadBackup(`"${entry.name}" in the backup is not an object`)
      if (there.get(key) !== entry.bytes) await objects.put(key, entry.content, { maxBytes: entry.bytes }, signal)
      bytes += entry.bytes
      tell(`objects: ${++count} of ${manifest.objects.count}, ${megabytes(bytes)} of ${megabytes(manifest.objects.bytes)}`)
    } else if (entry.name.startsWith(SPOOL)) {
      const name = entry.name.slice(SPOOL.length)
      if (!RECORDING.test(name)) throw new BadBackup(`"${entry.name}" in the backup is not a recording`)
      mkdirSync(paths.spool, { recursive: true, mode: 0o700 })
      await writeSpool(join(paths.spool, name), entry.content)
    } else if (entry.name.startsWith(KEYS)) {
      const name = KEY_FILES.find((known) => KEYS + known === entry.name)
      if (!name) throw new BadBackup(`"${entry.name}" in the backup is not a file of keys`)
      secret(join(paths.root, name), (await whole(entry.content, entry.bytes)).toString().trimEnd())
    }
  }
}

async function writeSpool(path: string, content: AsyncIterable<Buffer>): Promise<void> {
  const fresh = join(resolve(path, '..'), `.${path.slice(path.lastIndexOf('/') + 1)}.new`)
  await writeFile(fresh, content, { mode: 0o600, flush: true })
  renameSync(fresh, path)
}

/** Writes a small file that only its owner may read, completely or not at all. */
function secret(path: string, value: string): void {
  writeFileSync(`${path}.new`, `${value}\n`, { mode: 0o600, flush: true })
  renameSync(`${path}.new`, path)
}

/** The database of the settings, started if it is the embedded one. */
async function databaseOf(config: Config, paths: DataPaths, signal: AbortSignal, opened: AsyncDisposableStack): Promise<DbAddress> {
  if (config.databaseUrl) return { connectionString: config.databaseUrl }
  const postgres = await startPostgres(paths, silentLog, signal)
  opened.defer(() => postgres.stop())
  return postgres.address
}

/** Undefined when an earlier run has committed the rows. */
async function restoreRows(
  file: string,
  manifest: Manifest,
  marker: Marker,
  address: DbAddress,
  tell: (line: string) => void,
  signal: AbortSignal,
): Promise<Changes | undefined> {
  await using to = await openConnection(address, signal)
  const { rows } = await to.client.query<{ locked: boolean }>('select pg_try_advisory_lock(hashtextextended($1, 0)) as locked', [LOCK])
  if (!rows[0]!.locked) throw new Error('another restore works with this database; wait until it has ended')
  if (await hasRows(to, manifest, marker, signal)) return undefined
  let changes: Changes | undefined
  const others = manifest.scopes.filter((scope) => scope !== manifest.scope)
  const as = { scope: { from: manifest.scope, to: marker.scope }, others, madeAt: marker.made_at }
  await fillDatabase(to, manifest, { rows: pieces(file, manifest, signal), adjust: async (db) => void (changes = await changeRows(db, as)), tell, signal })
  return changes
}

/** The rows come before the objects, so the rest of the file is not read a third time. */
async function* pieces(file: string, { tables }: Manifest, signal: AbortSignal): AsyncGenerator<{ table: string; piece: Buffer }> {
  for await (const { name, bytes, content } of readArchive(file, signal)) {
    if (name.startsWith(OBJECTS)) return
    if (!name.startsWith(ROWS)) continue
    const table = name.slice(ROWS.length).split('/')[0]!
    if (!tables.some((one) => one.name === table)) throw new BadBackup(`"${name}" in the backup is of a table that its manifest does not name`)
    yield { table, piece: await decompress(await whole(content, bytes), { maxOutputLength: MAX_PIECE_BYTES }) }
  }
}

function report(manifest: Manifest, marker: Marker, changes: Changes | undefined, config: Config): string[] {
  const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
  const { sessions = 0, runs = 0, builds = 0, logins = 0, scopes = [], outward } = changes ?? {}
  const ended = listed(
    [sessions, 'session or warm browser', 'sessions or warm browsers'],
    [runs, 'run of an app', 'runs of apps'],
    [builds, 'build'],
    [logins, 'login'],
  )
  const goesOn = listed(
    [outward?.connections ?? 0, 'managed login that is renewed or checked', 'managed logins that are renewed or checked'],
    [outward?.telemetry ?? 0, 'telemetry destination'],
    [outward?.auditLog ?? 0, 'active audit log destination'],
  )
  return [
    `restored ${counted(rows, 'row')} and ${counted(manifest.objects.count, 'object')} of ${manifest.made_at} (Cob ${manifest.version}) into ${config.databaseUrl ? 'the database in DATABASE_URL' : config.dataDir}${config.s3 ? ` and the bucket "${config.s3.bucket}"` : ''}`,
    ...(ended ? [`ended   ${ended}: they were running, and belong to the service that was backed up`] : []),
    ...scopes.map(({ from, to }) => `note    the database has rows of another service, with the scope ${from}; that scope is ${to} now (COB_SCOPE)`),
    ...(manifest.missing.count > 0
      ? [`note    ${counted(manifest.missing.count, 'object')} that rows name ${manifest.missing.count === 1 ? 'was' : 'were'} not in the backup: gone before`]
      : []),
    ...(goesOn ? [`note    when it is started, the service works with ${goesOn}. If the one that was backed up still runs, both do`] : []),
    `start it with the same settings${config.scope === undefined ? '' : ` and COB_SCOPE=${marker.scope}`}`,
  ]
}
