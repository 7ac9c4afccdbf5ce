// The table of replays. Each time is written once, with the move to the state that it begins.
import { sql, type Selectable, type SqlBool } from 'kysely'
import type { Db } from '../../store/db.ts'
import type { Tables } from '../../store/tables.ts'
import { moveReplay, type ReplayState } from './lifecycle.ts'

export type ReplayRow = Omit<Selectable<Tables['replays']>, 'state'> & { state: ReplayState }

export interface NewReplay {
  id: string
  browserId: string
  framerate: number
  maxDurationSeconds: number | undefined
  recordAudio: boolean
}

export async function insertReplay(db: Db, { id, browserId, framerate, maxDurationSeconds, recordAudio }: NewReplay): Promise<void> {
  await sql`
    with made as (
      insert into replays (id, state, browser_id, framerate, max_duration_seconds, record_audio, object)
      values (${id}, 'starting', ${browserId}, ${framerate}, ${maxDurationSeconds ?? null}, ${recordAudio}, ${`replays/${id}`})
      returning id)
    insert into replay_events (replay_id, state) select id, 'starting' from made`.execute(db)
}

/** Records the time of the first picture. @throws when the replay was removed */
export async function markStarted(db: Db, id: string, at: Date): Promise<ReplayRow> {
  await moveReplay(db, id, 'recording', null, { started_at: at })
  return one(await db.selectFrom('replays').selectAll().where('id', '=', id).executeTakeFirstOrThrow())
}

/** Sets the end, unless it is set already. */
export async function markFinished(db: Db, id: string, at: Date, reason: string): Promise<void> {
  await moveReplay(db, id, 'finished', reason, { finished_at: at, end_reason: reason })
}

export async function markReady(db: Db, id: string, film: { bytes: number; headBytes: number; activity: number[] }): Promise<void> {
  const set = { ready_at: new Date(), bytes: film.bytes, head_bytes: film.headBytes, activity: JSON.stringify(film.activity) }
  await moveReplay(db, id, 'ready', null, set)
}

export const removeReplay = async (db: Db, id: string): Promise<void> => void (await db.deleteFrom('replays').where('id', '=', id).execute())

const ofHost = (db: Db, host: string) =>
  db.selectFrom('replays').innerJoin('browsers', 'browsers.id', 'replays.browser_id').where('browsers.host', '=', host).selectAll('replays')

const one = (row: Selectable<Tables['replays']>): ReplayRow => row as ReplayRow

/** A replay that a caller can see. */
export async function findReplay(db: Db, host: string, id: string): Promise<ReplayRow | undefined> {
  const row = await ofHost(db, host).where('replays.id', '=', id).where('replays.state', '<>', 'starting').executeTakeFirst()
  return row && one(row)
}

export async function listReplays(db: Db, browserId: string): Promise<ReplayRow[]> {
  const mine = db.selectFrom('replays').selectAll().where('browser_id', '=', browserId).where('state', '<>', 'starting')
  return (await mine.orderBy('started_at').orderBy('id').execute()).map(one)
}

/** Replays that an earlier service has left unfinished. */
export const unfinishedReplays = async (db: Db, host: string): Promise<ReplayRow[]> =>
  (await ofHost(db, host).where('replays.state', '<>', 'ready').execute()).map(one)

/** Replays whose retention has passed, and where they are stored. */
export const expiredReplays = (db: Db, host: string, days: number): Promise<Pick<ReplayRow, 'id' | 'object'>[]> =>
  db
    .selectFrom('replays')
    .innerJoin('browsers', 'browsers.id', 'replays.browser_id')
    .select(['replays.id', 'replays.object'])
    .where('browsers.host', '=', host)
    .where('replays.state', '=', 'ready')
    .where(sql<SqlBool>`replays.finished_at < now() - ${days} * interval '1 day'`)
    .orderBy('replays.finished_at')
    .limit(500)
    .execute()
