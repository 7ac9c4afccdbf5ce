// The table of replays. Each fact is written once: started_at, then finished_at, then ready_at. A replay's objects have fresh keys, which only
// ready_at makes visible.
import { sql, type Selectable, type SqlBool } from 'kysely'
import { newId } from '../../base/ids.ts'
import type { Db } from '../../store/db.ts'
import type { ObjectOwner } from '../../store/sweep.ts'
import type { Tables } from '../../store/tables.ts'

export type ReplayRow = Selectable<Tables['replays']>

export interface NewReplay {
  id: string
  browserId: string
  framerate: number
  maxDurationSeconds: number | undefined
  recordAudio: boolean
}

const PREFIX = 'replays'

/** A key that no object has. Beside it, the film's head has the same key with `.head`. */
export const freshKey = (id: string): string => `${PREFIX}/${id}.${newId()}`

export const headKey = (object: string): string => `${object}.head`

export async function insertReplay(db: Db, { id, browserId, framerate, maxDurationSeconds, recordAudio }: NewReplay): Promise<void> {
  const row = { id, browser_id: browserId, framerate, max_duration_seconds: maxDurationSeconds ?? null, record_audio: recordAudio }
  await db
    .insertInto('replays')
    .values({ ...row, object: `${PREFIX}/${id}` })
    .execute()
}

export const markStarted = (db: Db, id: string, at: Date): Promise<ReplayRow> =>
  db.updateTable('replays').set({ started_at: at }).where('id', '=', id).returningAll().executeTakeFirstOrThrow()

/** Sets the end, unless it is set already. */
export async function markFinished(db: Db, id: string, at: Date, reason: string): Promise<void> {
  await db.updateTable('replays').set({ finished_at: at, end_reason: reason }).where('id', '=', id).where('finished_at', 'is', null).execute()
}

export async function markReady(db: Db, id: string, film: { object: string; bytes: number; headBytes: number; activity: number[] }): Promise<void> {
  const set = { ready_at: new Date(), object: film.object, bytes: film.bytes, head_bytes: film.headBytes, activity: JSON.stringify(film.activity) }
  await db.updateTable('replays').set(set).where('id', '=', id).where('ready_at', 'is', null).execute()
}

export const removeReplay = async (db: Db, id: string): Promise<void> => void (await db.deleteFrom('replays').where('id', '=', id).execute())

const ofHost = (db: Db, host: string) =>
  db.selectFrom('replays').innerJoin('browsers', 'browsers.id', 'replays.browser_id').where('browsers.host', '=', host).selectAll('replays')

/** A replay that a caller can see. */
export const findReplay = (db: Db, host: string, id: string): Promise<ReplayRow | undefined> =>
  ofHost(db, host).where('replays.id', '=', id).where('replays.started_at', 'is not', null).executeTakeFirst()

export const listReplays = (db: Db, browserId: string): Promise<ReplayRow[]> =>
  db.selectFrom('replays').selectAll().where('browser_id', '=', browserId).where('started_at', 'is not', null).orderBy('started_at').orderBy('id').execute()

/** Replays that an earlier service has left unfinished. */
export const unfinishedReplays = (db: Db, host: string): Promise<ReplayRow[]> => ofHost(db, host).where('replays.ready_at', 'is', null).execute()

/** Replays whose retention has passed. */
export const expiredReplays = (db: Db, host: string, days: number): Promise<ReplayRow[]> =>
  ofHost(db, host)
    .where('replays.ready_at', 'is not', null)
    .where(sql<SqlBool>`replays.finished_at < now() - ${days} * interval '1 day'`)
    .orderBy('replays.finished_at')
    .limit(500)
    .execute()

/** The objects of replays, for the removal of those that no row names. */
export function replayObjects(db: Db, host: string): ObjectOwner {
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
      const rows = await ofHost(db, host).where('replays.ready_at', 'is not', null).where('replays.id', '>', after).orderBy('replays.id').limit(limit).execute()
      return rows.map((row) => ({ id: row.id, keys: keys(row) }))
    },
  }
}
