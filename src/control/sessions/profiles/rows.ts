// The profiles' rows, those of their versions, and what the sessions' rows say of profiles: all queries on them.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor } from '../../../store/names.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import type { ProfileEnd, Tables } from '../../../store/tables.ts'

/** So many versions are kept, besides the one that sessions load. */
const KEPT = 10

export type ProfileRow = Selectable<Tables['profiles']> & { is_saving: boolean }
export type VersionRow = Selectable<Tables['profile_versions']>

/** The step of a session's end that saves its profile, as `ended_steps` names it. */
export const STEP = 'profile'

/** Creates do not wait for a session that ended longer ago: the machine that could save it may be gone for ever. */
const FORGET_MS = 15 * 60_000

/** Whether a session's row (`b`) says that its profile is still to be saved. One that its caller never got is not saved. */
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

/** A profile of a project, by id or name. No name has the form of an id. */
export const findProfile = (db: Db, project: string, { id, name }: { id?: string | undefined; name?: string | undefined }): Promise<ProfileRow | undefined> =>
  select(db)
    .where('p.project_id', '=', project)
    .where('p.deleted_at', 'is', null)
    .where(id === undefined ? 'p.name' : 'p.id', '=', id ?? name ?? null)
    .executeTakeFirst()

/** Profiles by their ids, also deleted ones, for sessions that name them. */
export const profilesById = (db: Db, ids: readonly string[]): Promise<ProfileRow[]> => select(db).where('p.id', 'in', ids).execute()

/** One page of profiles, newest first, with one row more than `limit` when there are more. */
export const listProfiles = (db: Db, project: string, filter: Asked): Promise<ProfileRow[]> =>
  select(db).where('p.project_id', '=', project).where('p.deleted_at', 'is', null).where(isAskedFor('p', filter)).$call(newest('p', filter)).execute()

/** Undefined when it is gone. */
export async function renameProfile(db: Db, id: string, name: string): Promise<ProfileRow | undefined> {
  const { rows } = await sql<ProfileRow>`
    update profiles p set name = ${name}, updated_at = now() where p.id = ${id} and p.deleted_at is null
    returning p.*, ${isSaving(sql.ref('p.id'))} as is_saving`.execute(db)
  return rows[0]
}

/** Deletes a profile and its versions. Returns the keys of their objects; undefined when it is gone already. A save that is under way waits, and then finds no profile. */
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

/** The version that sessions load, and the number of the newest one; undefined when nothing has been saved yet. */
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

/** Undefined when the profile has no such version. The profile first, as a save does: otherwise each could wait for the other. */
export const restoreVersion = (db: Db, profile: string, version: string): Promise<ProfileRow | undefined> =>
  db.transaction().execute(async (tx) => {
    await tx.selectFrom('profiles').select('id').where('id', '=', profile).forUpdate().execute()
    const { rows } = await sql<ProfileRow>`
      update profiles p set version_id = ${version}, updated_at = now() where p.id = ${profile} and p.deleted_at is null
      and exists (select from profile_versions v where v.id = ${version} and v.profile_id = p.id)
      returning p.*, ${isSaving(sql.ref('p.id'))} as is_saving`.execute(tx)
    return rows[0]
  })

/** What a session's row says of its profile. */
export interface SessionRow {
  id: string
  profile_id: string | null
  profile_save: boolean
  profile_base: number | null
  profile_end: ProfileEnd | null
}

export const sessionRow = (db: Db, id: string): Promise<SessionRow | undefined> =>
  db.selectFrom('browsers').select(['id', 'profile_id', 'profile_save', 'profile_base', 'profile_end']).where('id', '=', id).executeTakeFirst()

/** The ended sessions whose state is still to be saved into a profile. */
export const savingSessions = async (db: Db, profile: string): Promise<string[]> =>
  (await sql<{ id: string }>`select b.id from browsers b where b.profile_id = ${profile} and ${IS_SAVING}`.execute(db)).rows.map(({ id }) => id)

/** Sessions of this scope that are saved when they end, and of which something is left. */
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
  /** The version that it has loaded; undefined if there was none. */
  version: string | undefined
  save: boolean
  /** The number of the newest version at that time; 0 if there was none. */
  base: number
}

/** Records what a session has loaded, or a browser that is being made for a pool; false when it has ended. */
export async function attachProfile(db: Db, session: string, { profile, version, save, base }: Attached): Promise<boolean> {
  const { rows } = await sql`
    with used as (update profiles set last_used_at = now() where id = ${profile})
    update browsers set profile_id = ${profile}, profile_version = ${version ?? null}, profile_save = ${save}, profile_base = ${base}
    where id = ${session} and state in ('running', 'starting') returning id`.execute(db)
  return rows.length === 1
}

/** A session, and which caller of its pool has it. */
interface Leased {
  id: string
  lease: number
}

/** Gives a running session without a profile this one, which is still to be loaded; false when it has one, or belongs to another caller. */
export async function reserveProfile(db: Db, { id, lease }: Leased, profile: string): Promise<boolean> {
  const running = db.updateTable('browsers').set({ profile_id: profile }).where('id', '=', id).where('lease', '=', lease).where('state', '=', 'running')
  const rows = running.where('profile_id', 'is', null)
  return (await rows.returning('id').executeTakeFirst()) !== undefined
}

/**
 * Takes the profile away again, which could not be loaded. `wasSent`: its browser may load it nevertheless. Then a browser of a pool keeps it in its row, so that no other caller gets it.
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

/** Changes whether a running session is saved; false when it has no profile, or has ended. */
export async function changeSave(db: Db, session: string, save: boolean): Promise<boolean> {
  const rows = db
    .updateTable('browsers')
    .set({ profile_save: save })
    .where('id', '=', session)
    .where('state', '=', 'running')
    .where('profile_id', 'is not', null)
  return (await rows.returning('id').executeTakeFirst()) !== undefined
}

/** Writes how a save ended, once: false when that is written already. */
async function writeEnd(db: Db, session: string, end: ProfileEnd): Promise<boolean> {
  const row = db
    .updateTable('browsers')
    .set({ profile_end: JSON.stringify(end) })
    .where('id', '=', session)
    .where('profile_end', 'is', null)
  return (await row.returning('id').executeTakeFirst()) !== undefined
}

/** Nothing of a session was saved. */
export const markUnsaved = async (db: Db, session: string, why: string): Promise<void> => void (await writeEnd(db, session, { saved: 'not', message: why }))

type NewVersion = Pick<VersionRow, 'object' | 'bytes' | 'sha256' | 'chromium' | 'is_whole' | 'scope'> & { id: string }

/** What {@link commitVersion} has done. */
type Committed =
  /** `removed`: the objects of versions that are not kept any more. */
  | { is: 'saved'; removed: string[] }
  /** The profile has been deleted. */
  | { is: 'gone' }
  /** Another service has saved this session before. */
  | { is: 'done' }

/**
 * Makes a stored object the version that sessions load, and tells it to the session's row. If another session has saved since this one loaded the profile, both rows
 * say so: that state is not loaded any more, and stays a version. `leftOut`: how many entries of its folder are not in it.
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

/** The key of a version's object. It holds the version's id, by which the sweep finds the row. */
export const versionKey = (id: string): string => `${PREFIX}/${id}`

/** The objects of versions, for the removal of what no row names. */
export const profileObjects = (db: Db, scope: string): ObjectOwner => ({
  prefix: PREFIX,
  named: async (ids) => (await db.selectFrom('profile_versions').select('object').where('id', 'in', ids).execute()).map(({ object }) => object),
  async expected(after, limit) {
    const rows = db.selectFrom('profile_versions').select(['id', 'object']).where('scope', '=', scope)
    return (await rows.where('id', '>', after).orderBy('id').limit(limit).execute()).map(({ id, object }) => ({ id, keys: [object] }))
  },
})
