// All queries on the tables of profiles and versions, and on the profile columns of sessions.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor } from '../../../store/names.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import type { ProfileEnd, Tables } from '../../../store/tables.ts'

/** Number of versions that are kept, in addition to the current one. */
const KEPT = 10

export type ProfileRow = Selectable<Tables['profiles']> & { is_saving: boolean }
export type VersionRow = Selectable<Tables['profile_versions']>

/** The name of the step of a session's end that saves its profile, as `ended_steps` has it. */
export const STEP = 'profile'

/** Creates do not wait for a session that ended longer ago than this: the machine that could save it may never come back. */
const FORGET_MS = 15 * 60_000

/** Whether a session's row (`b`) has a save that is still to come. A session that its caller never got is not saved. */
const IS_SAVING = sql<SqlBool>`b.profile_save and b.state in ('stopping', 'failed') and b.profile_end is null and b.end_reason <> 'abandoned'
  and not ${STEP} = any(b.ended_steps) and b.deleted_at > now() - ${FORGET_MS} * interval '1 millisecond'`

const isSaving = (profile: RawBuilder<string>) => sql<boolean>`exists (select from browsers b where b.profile_id = ${profile} and ${IS_SAVING})`

const select = (db: Db) =>
  db
    .selectFrom('profiles as p')
    .selectAll('p')
    .select(isSaving(sql.ref('p.id')).as('is_saving'))

export const insertProfile = async (db: Db, project: string, name: string | undefined): Promise<ProfileRow> => {
  const row = await db
    .insertInto('profiles')
    .values({ id: newId(), project_id: project, name: name ?? null })
    .returningAll()
    .executeTakeFirstOrThrow()
  return { ...row, is_saving: false }
}

/** A profile of a project, by id or name. A text in the form of an id is compared with ids only. */
export const findProfile = (db: Db, project: string, { id, name }: { id?: string | undefined; name?: string | undefined }): Promise<ProfileRow | undefined> =>
  select(db)
    .where('p.project_id', '=', project)
    .where('p.deleted_at', 'is', null)
    .where(id === undefined ? 'p.name' : 'p.id', '=', id ?? name ?? null)
    .executeTakeFirst()

/** Profiles by their ids, including deleted ones, for sessions that name them. */
export const profilesById = (db: Db, ids: readonly string[]): Promise<ProfileRow[]> => select(db).where('p.id', 'in', ids).execute()

/** One page of profiles, newest first, with one row more than `limit` when there are more. */
export const listProfiles = (db: Db, project: string, filter: Asked): Promise<ProfileRow[]> =>
  select(db).where('p.project_id', '=', project).where('p.deleted_at', 'is', null).where(isAskedFor('p', filter)).$call(newest('p', filter)).execute()

/** Undefined when it was deleted. */
export async function renameProfile(db: Db, id: string, name: string): Promise<ProfileRow | undefined> {
  const { rows } = await sql<ProfileRow>`
    update profiles p set name = ${name}, updated_at = now() where p.id = ${id} and p.deleted_at is null
    returning p.*, ${isSaving(sql.ref('p.id'))} as is_saving`.execute(db)
  return rows[0]
}

/**
 * Deletes a profile and its versions. Returns the keys of their objects; undefined when it was already deleted. A save that is under way waits for this, and
 * then finds no profile.
 */
export const removeProfile = (db: Db, id: string): Promise<string[] | undefined> =>
  db.transaction().execute(async (tx) => {
    const gone = tx
      .updateTable('profiles')
      .set({ deleted_at: sql`now()`, version_id: null })
      .where('id', '=', id)
      .where('deleted_at', 'is', null)
    if (!(await gone.returning('id').executeTakeFirst())) return undefined
    return (await tx.deleteFrom('profile_versions').where('profile_id', '=', id).returning('object').execute()).map(({ object }) => object)
  })

/** The current version, which sessions load, and the number of the newest one; undefined when nothing has been saved yet. */
export const currentVersion = (db: Db, profile: string): Promise<(VersionRow & { newest: number }) | undefined> =>
  db
    .selectFrom('profile_versions as v')
    .innerJoin('profiles as p', 'p.version_id', 'v.id')
    .selectAll('v')
    .select(sql<number>`(select max(number) from profile_versions where profile_id = p.id)`.as('newest'))
    .where('p.id', '=', profile)
    .executeTakeFirst()

/** All versions that are kept, newest first. */
export const versionsOf = (db: Db, profile: string): Promise<VersionRow[]> =>
  db.selectFrom('profile_versions').selectAll().where('profile_id', '=', profile).orderBy('number', 'desc').execute()

/** Undefined when the profile has no such version. Locks the profile first, in the same order as a save: otherwise there could be a deadlock. */
export const restoreVersion = (db: Db, profile: string, version: string): Promise<ProfileRow | undefined> =>
  db.transaction().execute(async (tx) => {
    await tx.selectFrom('profiles').select('id').where('id', '=', profile).forUpdate().execute()
    const { rows } = await sql<ProfileRow>`
      update profiles p set version_id = ${version}, updated_at = now() where p.id = ${profile} and p.deleted_at is null
      and exists (select from profile_versions v where v.id = ${version} and v.profile_id = p.id)
      returning p.*, ${isSaving(sql.ref('p.id'))} as is_saving`.execute(tx)
    return rows[0]
  })

/** The profile columns of a session's row. */
export interface SessionRow {
  id: string
  profile_id: string | null
  profile_save: boolean
  profile_base: number | null
  profile_end: ProfileEnd | null
}

export const sessionRow = (db: Db, id: string): Promise<SessionRow | undefined> =>
  db.selectFrom('browsers').select(['id', 'profile_id', 'profile_save', 'profile_base', 'profile_end']).where('id', '=', id).executeTakeFirst()

/** The ended sessions whose state has not been saved into a profile yet. */
export const savingSessions = async (db: Db, profile: string): Promise<string[]> =>
  (await sql<{ id: string }>`select b.id from browsers b where b.profile_id = ${profile} and ${IS_SAVING}`.execute(db)).rows.map(({ id }) => id)

/** Sessions of this scope with a profile to save, whose end is not complete. */
export const sessionsToSave = async (db: Db, scope: string): Promise<string[]> =>
  (
    await db
      .selectFrom('browsers')
      .select('id')
      .where('profile_id', 'is not', null)
      .where('scope', '=', scope)
      .where('profile_save', '=', true)
      .where('state', '<>', 'deleted')
      .execute()
  ).map(({ id }) => id)

interface Attached {
  profile: string
  /** The version that was loaded; undefined if there was none. */
  version: string | undefined
  save: boolean
  /** The number of the newest version at that time; 0 if there was none. */
  base: number
}

/** Records the profile that a session, or a browser that is starting for a pool, has loaded; false when it has ended. */
export async function attachProfile(db: Db, session: string, { profile, version, save, base }: Attached): Promise<boolean> {
  const { rows } = await sql`
    with used as (update profiles set last_used_at = now() where id = ${profile})
    update browsers set profile_id = ${profile}, profile_version = ${version ?? null}, profile_save = ${save}, profile_base = ${base}
    where id = ${session} and state in ('running', 'starting') returning id`.execute(db)
  return rows.length === 1
}

/** A session, and its acquisition if it is of a pool. */
interface Leased {
  id: string
  lease: number
}

/** Reserves a running session without a profile for this one, which is loaded later; false when it has one, or belongs to another caller. */
export async function reserveProfile(db: Db, { id, lease }: Leased, profile: string): Promise<boolean> {
  const running = db.updateTable('browsers').set({ profile_id: profile }).where('id', '=', id).where('lease', '=', lease).where('state', '=', 'running')
  const rows = running.where('profile_id', 'is', null)
  return (await rows.returning('id').executeTakeFirst()) !== undefined
}

/**
 * Removes a profile that could not be loaded from the row. `wasSent`: the browser may still load it. Then the row of a browser of a pool keeps the profile, so
 * that no other caller gets the browser.
 */
export const releaseProfile = async (db: Db, { id, lease }: Leased, wasSent: boolean): Promise<void> =>
  void (await db
    .updateTable('browsers')
    .set({ profile_id: null })
    .where('id', '=', id)
    .where('lease', '=', lease)
    .where('profile_save', '=', false)
    .where(sql<SqlBool>`(pool_id is null or ${!wasSent})`)
    .execute())

/** Changes whether the profile of a running session is saved; false when it has no profile, or has ended. */
export async function changeSave(db: Db, session: string, save: boolean): Promise<boolean> {
  const rows = db
    .updateTable('browsers')
    .set({ profile_save: save })
    .where('id', '=', session)
    .where('state', '=', 'running')
    .where('profile_id', 'is not', null)
  return (await rows.returning('id').executeTakeFirst()) !== undefined
}

/** Records the result of a save, once: false when there is a result already. */
async function writeEnd(db: Db, session: string, end: ProfileEnd): Promise<boolean> {
  const row = db
    .updateTable('browsers')
    .set({ profile_end: JSON.stringify(end) })
    .where('id', '=', session)
    .where('profile_end', 'is', null)
  return (await row.returning('id').executeTakeFirst()) !== undefined
}

/** Records that nothing of a session was saved. */
export const markUnsaved = async (db: Db, session: string, why: string): Promise<void> => void (await writeEnd(db, session, { saved: 'not', message: why }))

type NewVersion = Pick<VersionRow, 'object' | 'bytes' | 'sha256' | 'chromium' | 'is_whole' | 'scope'> & { id: string }

/** The result of {@link commitVersion}. */
type Committed =
  /** `removed`: the objects of versions that are not kept any more. */
  | { is: 'saved'; removed: string[] }
  /** The profile has been deleted. */
  | { is: 'gone' }
  /** Another service has already saved this session. */
  | { is: 'done' }

/**
 * Makes a stored object the current version, which sessions load, and records it in the session's row. If another session has saved since this one loaded the
 * profile, both rows record that the earlier state stays as a version that sessions do not load. `leftOut`: number of entries of the profile's folder that are not in the
 * archive.
 */
export const commitVersion = (
  db: Db,
  { id: session, profile_id: profile, profile_base: base }: SessionRow,
  version: NewVersion,
  leftOut = 0,
): Promise<Committed> =>
  db.transaction().execute(async (tx) => {
    const held = await tx.selectFrom('profiles').select('id').where('id', '=', profile).where('deleted_at', 'is', null).forUpdate().executeTakeFirst()
    if (!held) return { is: 'gone' }
    const others = tx
      .selectFrom('profile_versions')
      .select(['id', 'session_id'])
      .where('profile_id', '=', profile)
      .where('number', '>', base ?? 0)
    const before = await others.orderBy('number', 'desc').limit(1).executeTakeFirst()
    const how = version.is_whole
      ? { saved: 'whole' as const, message: 'saved' }
      : { saved: 'in_part' as const, message: 'saved without the last seconds: Chromium had not been closed properly' }
    const odd =
      leftOut > 0
        ? `; left out: ${leftOut} links, special files, unreadable files or names that are not UTF-8, which a program of the session has put there`
        : ''
    const also = before ? `; session ${before.session_id} had saved the profile meanwhile, and that state is kept as version ${before.id}` : ''
    if (!(await writeEnd(tx, session, { ...how, version_id: version.id, message: how.message + odd + also }))) return { is: 'done' }
    await tx
      .insertInto('profile_versions')
      .values({ ...version, profile_id: profile!, session_id: session })
      .execute()
    await tx
      .updateTable('profiles')
      .set({ version_id: version.id, updated_at: sql`now()` })
      .where('id', '=', profile)
      .execute()
    if (before) {
      const text = `; session ${session} has saved the profile after it, and this state is kept as version ${before.id}`
      await sql`
        update browsers set profile_end = jsonb_set(profile_end, '{message}', to_jsonb((profile_end->>'message') || ${text}::text))
        where id = ${before.session_id} and profile_end->>'version_id' = ${before.id}`.execute(tx)
    }
    const { rows } = await sql<{ object: string }>`
      delete from profile_versions where profile_id = ${profile} and id <> ${version.id} and number <= (
        select number from profile_versions where profile_id = ${profile} order by number desc offset ${KEPT} limit 1) returning object`.execute(tx)
    return { is: 'saved', removed: rows.map(({ object }) => object) }
  })

const PREFIX = 'profiles'

/** The key of a version's object. It contains the version's id, by which the sweep finds the row. */
export const versionKey = (id: string): string => `${PREFIX}/${id}`

/** The objects of versions; the sweep removes objects that no row names. */
export const profileObjects = (db: Db, scope: string): ObjectOwner => ({
  prefix: PREFIX,
  named: async (ids) => (await db.selectFrom('profile_versions').select('object').where('id', 'in', ids).execute()).map(({ object }) => object),
  async expected(after, limit) {
    const rows = db.selectFrom('profile_versions').select(['id', 'object']).where('scope', '=', scope)
    return (await rows.where('id', '>', after).orderBy('id').limit(limit).execute()).map(({ id, object }) => ({ id, keys: [object] }))
  },
})
