// `cob backup`: one file with all rows of one moment, the objects that they name, and recordings that are not stored yet. The service may run meanwhile.
import { existsSync, readFileSync } from 'node:fs'
import { open, readdir, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { promisify } from 'node:util'
import { zstdCompress } from 'node:zlib'
import { sql } from 'kysely'
import type { Config } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import { VERSION } from '../../../base/version.ts'
import type { DataPaths } from '../../../base/paths.ts'
import { abortable, sleep } from '../../../base/wait.ts'
import { openConnection } from '../../../store/copy-database.ts'
import type { Db, DbAddress } from '../../../store/db.ts'
import { holdObjects } from '../../../store/held-objects.ts'
import { makeObjects } from '../../../store/make-objects.ts'
import type { Objects } from '../../../store/objects.ts'
import { isNamed, type ObjectOwner } from '../../../store/sweep.ts'
import { beginSnapshot, countsOf, keysOf, rowsOf } from '../../../store/snapshot.ts'
import { archiveWriter, type ArchiveWriter } from './archive-writer.ts'
import { atMostEvery, counted, FORMAT, HEAD, KEY_FILES, KEYS, megabytes, OBJECTS, ROWS, SPOOL, type Head, type Manifest } from './format.ts'

/** Time between two lines about the progress. */
const TELL_MS = 2_000
/** A missing object may have been removed just before the backup started to hold objects: then its row is removed within this time. */
const REMOVAL_MS = 3_000
const LOOK_MS = 200
/** Most missing objects that the manifest names. */
const NAMED = 1_000
/** The form of names of recordings in the spool. */
const RECORDING = /^[\w-][\w.-]*$/

const compress = promisify(zstdCompress)

export interface BackupSettings {
  config: Config
  paths: DataPaths
  /** The database of the service, of this version. */
  db: Db
  address: DbAddress
  output: Writable
  /** The kinds of rows that name objects (modules.ts). */
  objectOwners: (db: Db, scope: string) => readonly ObjectOwner[]
  /** Whether the backup contains the files of keys. */
  withKeys: boolean
  tell: (line: string) => void
  signal: AbortSignal
}

/** Writes a backup to `output`. @throws when another backup runs, or when something that exists cannot be read */
export async function backup({ config, paths, db, address, output, objectOwners, withKeys, tell, signal }: BackupSettings): Promise<Manifest> {
  const head: Head = { format: FORMAT, id: newId(), made_at: new Date().toISOString(), version: VERSION }
  const scope = config.scope ?? readFileSync(paths.hostId, 'utf8').trim()
  const keys = withKeys ? KEY_FILES.filter((name) => existsSync(join(paths.root, name))) : []
  const writer = archiveWriter(output, signal)
  const tellSome = atMostEvery(TELL_MS, tell)
  using objects = await makeObjects(paths.objects, config.s3)
  await using recordings = new Recordings(paths.spool)
  await using connection = await openConnection(address, signal)
  // Hold the objects before the snapshot begins: then all objects that its rows name stay until the end.
  await holdObjects(connection.client)
  await recordings.open()
  const snapshot = await beginSnapshot(connection, signal)
  await recordings.open()

  await addText(writer, HEAD, JSON.stringify(head))
  for (const table of snapshot.tables) {
    let count = 0
    let bytes = 0
    for await (const piece of rowsOf(connection, table, signal)) {
      const packed = await compress(piece)
      bytes += piece.length
      await writer.add(`${ROWS}${table.name}/${String(++count).padStart(6, '0')}.zst`, packed.length, [packed])
      tellSome(`database: ${table.name}, ${megabytes(bytes)}`)
    }
  }
  tell('database: checksums of all tables')
  const sums = await countsOf(connection, snapshot.tables, signal)
  const unfinished = await recordings.add(writer, snapshot.db, tellSome)
  for (const name of keys) await addText(writer, `${KEYS}${name}`, readFileSync(join(paths.root, name), 'utf8'))

  const scopes = await scopesOf(snapshot.db)
  const kinds = objectOwners(snapshot.db, scope).map(({ prefix }) => prefix)
  const named: { of: string; keys: string[] }[] = []
  for (const of of scopes) {
    const all: string[] = []
    for await (const key of keysOf(objectOwners(snapshot.db, of), signal)) all.push(key)
    named.push({ of, keys: all })
  }
  // Copying objects may take hours. An upgrade would wait for an open snapshot, and block every other query meanwhile.
  await snapshot.end()

  const copied = { count: 0, bytes: 0 }
  const missing: Manifest['missing'] = { count: 0, keys: [] }
  for (const { of, keys: all } of named)
    for (const key of all) {
      const bytes = await addObject(writer, objects, key, signal)
      if (bytes !== undefined) {
        copied.count++
        copied.bytes += bytes
        tellSome(`objects: ${copied.count}, ${megabytes(copied.bytes)}`)
        continue
      }
      // Either another service on another machine has the object in its own files, or the row is being removed, too.
      if (await isRemoved(async () => !(await isNamed(objectOwners(db, of), key)), signal)) continue
      missing.count++
      if (missing.keys.length < NAMED) missing.keys.push(key)
    }

  // The objects were held if this connection still lives. If it is broken, the database has restarted: objects may have been removed unnoticed.
  await abortable(connection.client.query('select 1'), signal).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw new Error('the connection to the database broke while objects were copied, and some may have been removed meanwhile; begin again', { cause })
  })
  const { tables, sequences, migrations } = snapshot
  return writer.complete({
    ...head,
    scope,
    scopes: [...new Set([scope, ...scopes])],
    migrations,
    tables: tables.map((table, at) => ({ ...table, ...sums[at]! })),
    sequences,
    kinds,
    objects: copied,
    missing,
    recordings: unfinished,
    keys,
  })
}

async function addText(writer: ArchiveWriter, name: string, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  await writer.add(name, bytes.length, [bytes])
}

/** Adds an object. Returns its length; undefined when it is missing. */
async function addObject(writer: ArchiveWriter, objects: Objects, key: string, signal: AbortSignal): Promise<number | undefined> {
  const found = await objects.get(key, undefined, signal)
  if (!found) return undefined
  try {
    await writer.add(OBJECTS + key, found.bytes, found.content as AsyncIterable<Buffer>)
  } finally {
    found.content.destroy()
  }
  return found.bytes
}

async function isRemoved(isGone: () => Promise<boolean>, signal: AbortSignal): Promise<boolean> {
  for (const end = performance.now() + REMOVAL_MS; performance.now() < end; await sleep(LOOK_MS, signal)) if (await isGone()) return true
  return false
}

/** Each service that has worked with the database has a scope, and its own key there. */
async function scopesOf(db: Db): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`select distinct scope from api_keys where scope <> '' order by scope`.execute(db)
  return rows.map(({ scope }) => scope)
}

/** The files of recordings that are not objects yet. They are kept open, because the service removes each file when it has become an object. */
class Recordings implements AsyncDisposable {
  readonly #dir: string
  readonly #files = new Map<string, FileHandle>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Opens the present files that are not open yet. */
  async open(): Promise<void> {
    const entries = existsSync(this.#dir) ? await readdir(this.#dir, { withFileTypes: true }) : []
    for (const { name } of entries.filter((entry) => entry.isFile() && RECORDING.test(entry.name) && !this.#files.has(entry.name))) {
      const file = await open(join(this.#dir, name), 'r').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw error
      })
      if (file) this.#files.set(name, file)
    }
  }

  /** Adds the recordings that rows name and that are not objects. Returns their number. */
  async add(writer: ArchiveWriter, db: Db, tell: (line: string) => void): Promise<number> {
    const rows = await db.selectFrom('replays').select('id').where('ready_at', 'is', null).execute()
    let count = 0
    for (const { id } of rows) {
      const file = this.#files.get(id)
      if (!file) continue
      // The file may still grow. Later data is not part of the backup.
      const { size } = await file.stat()
      const content = size === 0 ? [] : file.createReadStream({ start: 0, end: size - 1, autoClose: false })
      await writer.add(SPOOL + id, size, content as AsyncIterable<Buffer>)
      tell(`recordings: ${++count}`)
    }
    return count
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#files.values()].map((file) => file.close()))
  }
}

/** Remarks for a person about a complete backup. */
export function remarks(manifest: Manifest, config: Config, paths: DataPaths): string[] {
  const { tables, objects, missing, recordings, keys } = manifest
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const files = KEY_FILES.filter((name) => existsSync(join(paths.root, name)))
  const settings = [...(config.secretKey === undefined ? [] : ['COB_SECRET_KEY']), ...(config.sealingKeys.length === 0 ? [] : ['COB_SEALING_KEYS'])]
  return [
    `${counted(rows, 'row')} in ${counted(tables.length, 'table')}, ${counted(objects.count, 'object')} (${megabytes(objects.bytes)}), ${counted(recordings, 'recording')} that ${recordings === 1 ? 'is' : 'are'} not stored yet, as of ${manifest.made_at}`,
    ...(missing.count > 0
      ? [
          `WARNING: ${counted(missing.count, 'object')} that rows name ${missing.count === 1 ? 'was' : 'were'} gone before: ${missing.keys.slice(0, 5).join(', ')}${missing.count > 5 ? ', …' : ''} (cob doctor)`,
        ]
      : []),
    ...(keys.length > 0 ? [`WARNING: the keys are in it (${keys.join(', ')}): whoever has this file can read every stored secret and use the API`] : []),
    ...(keys.length === 0 && files.length > 0
      ? [
          `WARNING: the keys are NOT in it. Keep ${files.map((name) => join(paths.root, name)).join(', ')} elsewhere: without them no stored secret can be read after a restore (--with-keys includes them)`,
        ]
      : []),
    ...(settings.length > 0
      ? [
          `WARNING: ${settings.join(' and ')} ${settings.length === 1 ? 'is' : 'are'} not in it. Without ${settings.length === 1 ? 'it' : 'them'} no stored secret can be read after a restore`,
        ]
      : []),
  ]
}
