// The table of replays. Each time is written once, with the move to the state that it begins. A replay's objects have fresh keys; the move to `ready`
// names them.
import { sql, type Selectable } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { firstMover } from '../../../store/moves.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import type { Tables } from '../../../store/tables.ts'
import { moveReplay, moving, type ReplayState } from './lifecycle.ts'

export type ReplayRow = Omit<Selectable<Tables['replays']>, 'state'> & { state: ReplayState }

/** Moves one of several replays, and returns its row. */
const moveFirstReplay = firstMover<ReplayRow, ReplayState>(moving)

interface NewReplay {
  id: string
  browserId: string
  framerate: number
  maxDurationSeconds: number | undefined
  recordAudio: boolean
}

const PREFIX = 'replays'

/** A key that no object has. Beside it, the video's header has the same key with `.head`. */
export const freshKey = (id: string): string => `${PREFIX}/${id}.${newId()}`

export const headKey = (object: string): string => `${object}.head`

export async function insertReplay(db: Db, { id, browserId, framerate, maxDurationSeconds, recordAudio }: NewReplay): Promise<void> {
  await sql`
    with made as (
      insert into replays (id, state, browser_id, framerate, max_duration_seconds, record_audio, object)
      values (${id}, 'starting', ${browserId}, ${framerate}, ${maxDurationSeconds ?? null}, ${recordAudio}, ${`${PREFIX}/${id}`})
      returning id)
    insert into replay_events (replay_id, state) select id, 'starting' from made`.execute(db)
}

/**
 * Records the time of the first picture, and the same on the session's clock. In a pool that is not before its caller got the browser,
 * whatever the agent says: events of the caller before are not this one's. Nor is it later than now, or those of the next one would be.
 * @throws when the replay was removed
 */
export async function markStarted(db: Db, id: string, at: Date, clock: number): Promise<ReplayRow> {
  const since = sql`(select (extract(epoch from b.created_at) * 1000000)::bigint from browsers b where b.id = t.browser_id and b.lease > 0)`
  const now = sql`(extract(epoch from now()) * 1000000)::bigint`
  const columns = { started_at: at, clock_started_at: sql`least(greatest(${clock}::bigint, ${since}), ${now})` }
  const row = await moveFirstReplay(db, sql`t.id = ${id}`, sql`t.id`, 'recording', null, columns)
  if (!row) throw new Error(`the replay ${id} was removed while it began`)
  return row
}

/** Sets the end, unless it is set already. */
export async function markFinished(db: Db, id: string, at: Date, reason: string): Promise<void> {
  await moveReplay(db, id, 'finished', reason, { finished_at: at, end_reason: reason })
}

/** Names the objects of the video, unless they are named already. */
export async function markReady(db: Db, id: string, video: { object: string; bytes: number; headBytes: number; activity: number[] }): Promise<void> {
  const set = { ready_at: new Date(), object: video.object, bytes: video.bytes, head_bytes: video.headBytes, activity: JSON.stringify(video.activity) }
  await moveReplay(db, id, 'ready', null, set)
}

export const removeReplay = async (db: Db, id: string): Promise<void> => void (await db.deleteFrom('replays').where('id', '=', id).execute())

const ofScope = (db: Db, scope: string) =>
  db.selectFrom('replays').innerJoin('browsers', 'browsers.id', 'replays.browser_id').where('browsers.scope', '=', scope).selectAll('replays')

const one = (row: Selectable<Tables['replays']>): ReplayRow => row as ReplayRow

/** A replay and its project. */
export type FoundReplay = ReplayRow & { project: string }

/** A replay that a caller can see. Nobody sees what a deleted project has left. */
export async function findReplay(db: Db, scope: string, id: string): Promise<FoundReplay | undefined> {
  const row = await ofScope(db, scope)
    .where('replays.id', '=', id)
    .where('replays.state', '<>', 'starting')
    .where('browsers.project_id', 'is not', null)
    .select('browsers.project_id as project')
    .executeTakeFirst()
  return row as FoundReplay | undefined
}

export async function listReplays(db: Db, browserId: string): Promise<ReplayRow[]> {
  const mine = db.selectFrom('replays').selectAll().where('browser_id', '=', browserId).where('state', '<>', 'starting')
  return (await mine.orderBy('started_at').orderBy('id').execute()).map(one)
}

/** Unfinished replays of the sessions that this replica watches, or has watched. */
export async function unfinishedReplays(db: Db, scope: string, { replica }: Pick<Leases, 'replica'>): Promise<UnfinishedReplay[]> {
  const rows = await ofScope(db, scope)
    .where('replays.state', '<>', 'ready')
    .where('browsers.replica', '=', replica)
    .select(sql<boolean>`browsers.deleted_at is null`.as('isLive'))
    .execute()
  return rows.map((row) => ({ ...one(row), isLive: row.isLive }))
}

/** `isLive`: the row of its session does not say that it has ended. */
export type UnfinishedReplay = ReplayRow & { isLive: boolean }

/**
 * Makes this replica the one that finishes the replays of ended sessions that dead replicas have watched. Those of live sessions come with their
 * session.
 */
export async function takeOverReplays(db: Db, scope: string, { replica, isDead }: Leases): Promise<void> {
  await sql`
    update browsers b set replica = ${replica}
    where b.scope = ${scope} and b.state = 'deleted' and b.id in (select browser_id from replays where state <> 'ready') and ${isDead(sql.ref('b.replica'))}`.execute(
    db,
  )
}

/** Removes replays whose retention has passed, the oldest first, and returns where they were stored. */
export async function removeExpired(db: Db, scope: string, days: number, limit: number): Promise<string[]> {
  const { rows } = await sql<{ object: string }>`
    delete from replays where id in (
      select r.id from replays r join browsers b on b.id = r.browser_id
      where b.scope = ${scope} and r.state = 'ready' and r.finished_at < now() - ${days} * interval '1 day'
      order by r.finished_at limit ${limit})
    returning object`.execute(db)
  return rows.map(({ object }) => object)
}

/** Which of these replays are ready. */
export const readyReplays = async (db: Db, ids: readonly string[]): Promise<string[]> =>
  ids.length === 0 ? [] : (await db.selectFrom('replays').select('id').where('id', 'in', ids).where('state', '=', 'ready').execute()).map(({ id }) => id)

/** The objects of replays, for the removal of those that no row names. */
export function replayObjects(db: Db, scope: string): ObjectOwner {
  const keys = ({ object, bytes, head_bytes }: Pick<ReplayRow, 'object' | 'bytes' | 'head_bytes'>) => [
    ...(bytes > 0 ? [object] : []),
    ...(head_bytes > 0 ? [headKey(object)] : []),
  ]
  return {
    prefix: PREFIX,
    async named(ids) {
      const rows = await db.selectFrom('replays').select('object').where('id', 'in', ids).execute()
      return rows.flatMap(({ object }) => [object, headKey(object)])
    },
    async expected(after, limit) {
      const rows = await ofScope(db, scope).where('replays.state', '=', 'ready').where('replays.id', '>', after).orderBy('replays.id').limit(limit).execute()
      return rows.map((row) => ({ id: row.id, keys: keys(row) }))
    },
  }
}
