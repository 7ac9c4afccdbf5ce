// The rules of profiles: create, find, rename, delete, download, restore a version; choose and load the profile of a session.
import { pipeline, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { createZstdDecompress } from 'node:zlib'
import { profile as agentProfile } from '../../../agent/profile/contract.ts'
import type { Log } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { call, CallFailed } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'
import { asFault, Fault, fault } from '../../../http/fault.ts'
import type { Bytes, Page } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { byIdOrName } from '../../../store/names.ts'
import { measured, type Objects } from '../../../store/objects.ts'
import { written } from '../../service/written.ts'
import type { Chosen, SessionProfiles } from '../browsers/session-profiles.ts'
import { Name, type Profile, type Selected, type Version } from './contract.ts'
import {
  attachProfile,
  changeSave,
  currentVersion,
  findProfile,
  insertProfile,
  listProfiles,
  profilesById,
  releaseProfile,
  removeProfile,
  renameProfile,
  reserveProfile,
  restoreVersion,
  savingSessions,
  versionsOf,
  type ProfileRow,
  type VersionRow,
} from './rows.ts'
import { removeObjects, UNPACKED, type Saves } from './saves.ts'

/** How long a create waits for a running save into the profile that it names. Most take less than a second. */
const SAVED_MS = 30_000
const SAVED_LOOK_MS = 50
const SAVED_RETRY_SECONDS = 5
/** Limit on loading a profile into a browser. One of 50 MB takes half a second. */
const LOAD_MS = 60_000

interface ProfilesSettings {
  db: Db
  objects: Objects
  /** Learns which sessions are saved when they end. */
  saves: Pick<Saves, 'add'>
  /** Limit on the size of an archive, in bytes. */
  maxBytes: number
  /** Removes references to a deleted profile. */
  onDeleted: (id: string) => Promise<void>
  /** Replaces {@link SAVED_MS} in tests. */
  savedMs?: number
  log: Log
}

export type Profiles = ReturnType<typeof makeProfiles>

export function makeProfiles(settings: ProfilesSettings) {
  const { db, objects, saves, maxBytes, onDeleted, savedMs = SAVED_MS, log } = settings
  const named = <T>(project: string, name: string | undefined, work: Promise<T>): Promise<T> =>
    written(work, { table: 'profiles', one: 'a profile' }, name, project)

  async function find(project: string, idOrName: string): Promise<ProfileRow> {
    const row = await findProfile(db, project, byIdOrName(idOrName))
    if (!row) throw fault.notFound('profile', idOrName)
    return row
  }

  async function chosenRow(project: string, given: Pick<Selected, 'id' | 'name'>): Promise<ProfileRow> {
    const row = await findProfile(db, project, given)
    if (!row) throw fault.field(given.id === undefined ? 'profile.name' : 'profile.id', `there is no profile "${given.id ?? given.name}"`)
    return row
  }

  return {
    create: async (project: string, name: string | undefined): Promise<Profile> => record(await named(project, name, insertProfile(db, project, name))),
    /** The id of the profile of this name. Creates the profile if there is none. @throws 400 naming `field` for an invalid name */
    async idOfNamed(project: string, given: string, field: string): Promise<string> {
      const { data: name, error } = Name.safeParse(given)
      if (name === undefined) throw fault.field(field, error?.issues[0]?.message ?? 'is no name of a profile')
      const known = await findProfile(db, project, { name })
      if (known) return known.id
      try {
        return (await named(project, name, insertProfile(db, project, name))).id
      } catch (error) {
        // Another caller may just have created it.
        const other = error instanceof Fault && error.code === 'conflict' ? await findProfile(db, project, { name }) : undefined
        if (!other) throw error
        return other.id
      }
    },
    async list(project: string, filter: Asked): Promise<Page<Profile>> {
      return pageOf(await listProfiles(db, project, filter), filter, record)
    },
    get: async (project: string, idOrName: string): Promise<Profile> => record(await find(project, idOrName)),
    async rename(project: string, idOrName: string, name: string): Promise<Profile> {
      const { id } = await find(project, idOrName)
      const row = await named(project, name, renameProfile(db, id, name))
      if (!row) throw fault.notFound('profile', idOrName)
      return record(row)
    },
    async delete(project: string, idOrName: string): Promise<void> {
      const { id } = await find(project, idOrName)
      const keys = await removeProfile(db, id)
      if (!keys) throw fault.notFound('profile', idOrName)
      await onDeleted(id)
      await removeObjects(objects, keys, log)
    },
    async download(project: string, idOrName: string, format: 'tar.zst' | 'tar'): Promise<Bytes> {
      const { id, name } = await find(project, idOrName)
      const version = await currentVersion(db, id)
      const headers = { 'cache-control': 'no-store' }
      if (!version) return { status: 202, headers: { ...headers, 'retry-after': '5' }, body: Buffer.alloc(0) }
      const { bytes, content } = await archive(objects, version)
      const disposition = { 'content-disposition': `attachment; filename="${name ?? id}.${format}"` }
      if (format === 'tar.zst') return { headers: { ...headers, ...disposition, 'content-length': String(bytes), etag: `"${version.sha256}"` }, body: content }
      return { headers: { ...headers, ...disposition }, body: unpacked(content, UNPACKED * maxBytes) }
    },
    async versions(project: string, idOrName: string): Promise<Version[]> {
      const { id, version_id: current } = await find(project, idOrName)
      return (await versionsOf(db, id)).map((row) => versionRecord(row, current))
    },
    async restore(project: string, idOrName: string, versionId: string): Promise<Profile> {
      const { id } = await find(project, idOrName)
      const row = await restoreVersion(db, id, versionId)
      if (!row) throw fault.notFound('version', versionId)
      return record(row)
    },
    /** The profile that an option names, without waiting for a save. @throws 400 when there is none */
    chosen: async (project: string, given: Pick<Selected, 'id' | 'name'>): Promise<Pick<Chosen, 'id' | 'called'>> => naming(await chosenRow(project, given)),
    async choose(project, given, signal) {
      if (!given) return undefined
      const row = await chosenRow(project, given)
      const chosen = { ...naming(row), save: given.save ?? false }
      if (row.is_saving) await saved(db, chosen, savedMs, signal)
      return chosen
    },
    async load(session, chosen, { keepTabs, isUpdate }, signal) {
      if (chosen.save) assertOffered(session.endpoint, agentProfile.saveProfile.id)
      // Reserve the profile first: of two concurrent updates, only one may load a profile.
      let wasSent = false
      if (isUpdate && !(await reserveProfile(db, session, chosen.id))) throw fault.conflict('this session has a profile already, or has ended')
      try {
        const version = await currentVersion(db, chosen.id)
        const base = version?.newest ?? 0
        if (version) await send(settings, session, chosen, version, keepTabs, () => (wasSent = true), signal)
        if (chosen.save) saves.add(session.id)
        if (!(await attachProfile(db, session.id, { profile: chosen.id, version: version?.id, save: chosen.save, base })))
          throw fault.notFound('browser', session.id)
        return { profile_id: chosen.id, profile_save: chosen.save, profile_base: base }
      } catch (error) {
        if (isUpdate) await releaseProfile(db, session, wasSent)
        throw error
      }
    },
    async changeSave({ id, endpoint }, save) {
      if (save) assertOffered(endpoint, agentProfile.saveProfile.id)
      if (save) saves.add(id)
      if (!(await changeSave(db, id, save))) throw fault.field('profile_save_changes', 'this session has no profile')
      return { profile_save: save }
    },
    async shown(rows) {
      const ids = [...new Set(rows.map(({ profile_id: id }) => id).filter((id) => id !== null))]
      return new Map(ids.length === 0 ? [] : (await profilesById(db, ids)).map((row) => [row.id, record(row)]))
    },
  } satisfies SessionProfiles & Record<string, unknown>
}

/** The content of a version. @throws 503 when the object is missing */
async function archive(objects: Objects, { object }: VersionRow, signal?: AbortSignal): Promise<{ bytes: number; content: Readable }> {
  const stored = await objects.get(object, undefined, signal)
  if (!stored) throw fault.broken(`the saved state is gone from the object store of this service; restore another version`)
  return stored
}

/** Resolves when no ended session is being saved into the profile. @throws Unavailable after `ms` */
async function saved(db: Db, { id, called }: Chosen, ms: number, signal: AbortSignal): Promise<void> {
  const end = performance.now() + ms
  for (;;) {
    const sessions = await savingSessions(db, id)
    if (sessions.length === 0) return
    if (performance.now() >= end)
      throw new Unavailable(`the profile "${called}" is still being saved by session ${sessions[0]}, which has ended; try again`, SAVED_RETRY_SECONDS)
    await sleep(SAVED_LOOK_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

/** Sends a version to the browser of a session. @throws 409 when the browser refuses it; 503 */
async function send(
  { objects, maxBytes, log }: Pick<ProfilesSettings, 'objects' | 'maxBytes' | 'log'>,
  { id, endpoint }: { id: string; endpoint: Endpoint },
  chosen: Chosen,
  version: VersionRow,
  keepTabs: boolean,
  onSend: () => void,
  signal: AbortSignal,
): Promise<void> {
  assertOffered(endpoint, agentProfile.loadProfile.id)
  const limited = AbortSignal.any([signal, AbortSignal.timeout(LOAD_MS)])
  let content: Readable | undefined
  const query = { keep_tabs: keepTabs ? ('true' as const) : ('false' as const), max_bytes: UNPACKED * maxBytes }
  try {
    content = (await archive(objects, version, limited)).content
    onSend()
    await call(endpoint, agentProfile.loadProfile, { query, body: content }, { signal: limited })
  } catch (error) {
    signal.throwIfAborted()
    // Errors of the object store already have a text for callers.
    if (error instanceof Fault || error instanceof Unavailable) throw asFault(error)
    log.warn({ err: error, browser: id, profile: chosen.id, version: version.id }, 'a profile could not be loaded')
    const what = `the profile "${chosen.called}" (version ${version.id}) could not be loaded`
    if (error instanceof CallFailed && error.status !== undefined && error.status < 500) throw fault.conflict(`${what}: ${error.reason.slice(0, 500)}`)
    throw fault.unavailable(what, error)
  } finally {
    content?.destroy()
  }
}

/** The tar stream of a version. A sandbox made the archive, so the stream fails when it is longer than `maxBytes`. */
function unpacked(content: Readable, maxBytes: number): Readable {
  const limit = (source: AsyncIterable<Uint8Array>) => measured(source, maxBytes, new AbortController().signal).chunks
  // An error of any part ends the answer. Its length is not announced, so the reader sees that it is incomplete.
  return pipeline(content, createZstdDecompress(), limit, () => {}) as unknown as Readable
}

const naming = ({ id, name }: ProfileRow) => ({ id, called: name ?? id })

const record = (row: ProfileRow): Profile => ({
  id: row.id,
  created_at: row.created_at.toISOString(),
  ...(row.name !== null && { name: row.name }),
  ...(row.last_used_at && { last_used_at: row.last_used_at.toISOString() }),
  ...(row.updated_at && { updated_at: row.updated_at.toISOString() }),
  ...(row.is_saving && { saving: true as const }),
})

const versionRecord = (row: VersionRow, current: string | null): Version => ({
  id: row.id,
  created_at: row.created_at.toISOString(),
  session_id: row.session_id,
  bytes: row.bytes,
  sha256: row.sha256,
  ...(row.chromium !== null && { chromium: row.chromium }),
  whole: row.is_whole,
  current: row.id === current,
})
