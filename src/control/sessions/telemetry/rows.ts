// All queries on stored telemetry: runs of events. Each is in its row until it is merged with others into an object.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import { giveUp } from './export/rows.ts'
import type { Segment } from './segments.ts'

const PREFIX = 'telemetry'

/** A new, unused key. */
export const freshKey = (sessionId: string): string => `${PREFIX}/${sessionId}.${newId()}`

/** A run, and where its bytes are. Without `data` and `object` it has no events and only marks the position up to which events were deleted. */
export type StoredSegment = Omit<Segment, 'data'> & { data: Buffer | null; object: string | null }

const COLUMNS = ['session_id', 'first_seq', 'last_seq', 'first_ts', 'last_ts', 'events', 'types', 'bytes', 'data', 'object'] as const

/**
 * Stores runs of any sessions in one statement. Two replicas may store the same events for a moment, in runs with different ends: of two runs with the same
 * first event, the longer one stays. Readers skip events that they have already read.
 */
export async function insertSegments(db: Db, segments: readonly Segment[]): Promise<void> {
  await db
    .insertInto('telemetry_segments')
    .values(segments.map((segment) => ({ ...segment, scope: null, object: null })))
    .onConflict((conflict) =>
      conflict
        .columns(['session_id', 'first_seq'])
        .doUpdateSet((eb) => ({
          last_seq: eb.ref('excluded.last_seq'),
          last_ts: eb.ref('excluded.last_ts'),
          events: eb.ref('excluded.events'),
          types: eb.ref('excluded.types'),
          bytes: eb.ref('excluded.bytes'),
          data: eb.ref('excluded.data'),
          scope: null,
          object: null,
        }))
        .where(sql<SqlBool>`excluded.last_seq > telemetry_segments.last_seq`),
    )
    .execute()
}

/** The position up to which a session is stored. */
export interface Position {
  /** The number of the last event; 0 when none is stored. */
  seq: number
  ts: number
  /** Size of everything that is stored. */
  bytes: number
}

/** The position of a session; undefined when nothing is stored. */
export const positionOf = (db: Db, id: string): Promise<Position | undefined> =>
  db
    .selectFrom('telemetry_segments')
    .select((eb) => [eb.fn.max('last_seq').as('seq'), eb.fn.max('last_ts').as('ts'), sql<number>`sum(bytes)::bigint`.as('bytes')])
    .where('session_id', '=', id)
    .groupBy('session_id')
    .executeTakeFirst()

/** Whether a browser captures events. Idle ones of pools do not. A browser that was given back captures until its restore is complete. */
const IS_ON = sql<boolean>`(state <> 'warm' and jsonb_exists(options, 'telemetry'))`

/**
 * Sessions that this replica watches and that capture events. `withRest`: also sessions that captured earlier; their last events may not have been read when a
 * service was killed.
 */
export async function watchedTelemetry(
  db: Db,
  { scope, replica }: { scope: string; replica: string },
  withRest: boolean,
): Promise<{ id: string; state: string }[]> {
  const rest = sql<SqlBool>`exists (select from telemetry_segments s where s.session_id = browsers.id)`
  return (
    db
      .selectFrom('browsers')
      .select(['id', 'state'])
      .where('scope', '=', scope)
      .where('replica', '=', replica)
      // The condition of the index browsers_telemetry. With it, Postgres reads only the index and not `options`, which may have megabytes.
      .where(sql<SqlBool>`state <> 'deleted'`)
      .where(withRest ? sql<SqlBool>`(${IS_ON} or ${rest})` : sql<SqlBool>`(jsonb_exists(options, 'telemetry') and state <> 'warm')`)
      .execute()
  )
}

/** Whether a session captures any events. */
export async function isCapturing(db: Db, id: string): Promise<boolean> {
  const row = await db.selectFrom('browsers').select(IS_ON.as('isOn')).where('id', '=', id).where('state', '<>', 'deleted').executeTakeFirst()
  return row?.isOn === true
}

/** The events that a reader wants. Times are in microseconds; `until` and `before` are exclusive. */
export interface Window {
  /** Events with greater numbers. */
  after?: number | undefined
  /** Events with smaller numbers. */
  before?: number | undefined
  since?: number | undefined
  until?: number | undefined
  /** Bits of {@link bitsOf}. */
  types?: number | undefined
  /** Only runs that may have events stored for callers. */
  isKept?: boolean | undefined
}

/** A passing time: a time range in which a session's telemetry is only exported, and not stored for callers. */
export interface Passing {
  id: number
  from_ts: number
  until_ts: number | null
}

/** All passing times of a session. A browser of a pool may have several, of several callers. */
export const passingTimes = (db: Db, sessionId: string): Promise<Passing[]> =>
  db
    .selectFrom('telemetry_exports')
    .select(['id', 'from_ts', 'until_ts'])
    .where('session_id', '=', sessionId)
    .where('is_kept', '=', false)
    .orderBy('id')
    .execute()

export const isIn = (ts: number, { from_ts: from, until_ts: until }: Passing): boolean => ts >= from && (until === null || ts < until)

/**
 * Whether a run may have events that are stored for callers: it is not completely within one passing time. The reader then filters the events by their times.
 */
const MAY_BE_KEPT = sql<SqlBool>`not exists (
  select from telemetry_exports k where k.session_id = telemetry_segments.session_id and not k.is_kept
    and telemetry_segments.first_ts >= k.from_ts and (k.until_ts is null or telemetry_segments.last_ts < k.until_ts))`

/**
 * The next runs that may have events of a window: sorted by their first event when reading forwards, by their last one backwards. With this order, no event of
 * overlapping runs is missed.
 */
export async function nextSegments(db: Db, sessionId: string, window: Window, isForwards: boolean, limit: number): Promise<StoredSegment[]> {
  const { after, before, since, until, types, isKept } = window
  const conditions: RawBuilder<SqlBool>[] = [sql`session_id = ${sessionId}`, sql`events > 0`]
  if (after !== undefined) conditions.push(sql`last_seq > ${after}`)
  if (before !== undefined) conditions.push(sql`first_seq < ${before}`)
  if (since !== undefined) conditions.push(sql`last_ts >= ${since}`)
  if (until !== undefined) conditions.push(sql`first_ts < ${until}`)
  if (isKept) conditions.push(MAY_BE_KEPT)
  if (types !== undefined) conditions.push(sql`types & ${types}::bigint <> 0`)
  return db
    .selectFrom('telemetry_segments')
    .select(COLUMNS)
    .where((eb) => eb.and(conditions))
    .orderBy(isForwards ? sql`first_seq` : sql`last_seq desc, first_seq desc`)
    .limit(limit)
    .execute()
}

/** Whether a run's object is still the one that was read. */
export async function isStored(db: Db, { session_id: id, first_seq: seq, object }: StoredSegment): Promise<boolean> {
  const mine = db.selectFrom('telemetry_segments').select('first_seq').where('session_id', '=', id).where('first_seq', '=', seq)
  return (await mine.where('object', '=', object).executeTakeFirst()) !== undefined
}

/** The last run of a session. */
export const lastSegment = async (db: Db, sessionId: string): Promise<StoredSegment | undefined> => (await nextSegments(db, sessionId, {}, false, 1))[0]

const FRESH = sql<SqlBool>`(scope is null and data is not null)`

/** Sessions whose runs should be merged, those with the most runs first: all ended ones, and live ones with more than `many` runs. Without `others`. */
export async function mergeable(db: Db, scope: string, many: number, others: readonly string[], limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select b.id from browsers b join (select session_id, count(*) as count from telemetry_segments where ${FRESH} group by session_id) s on s.session_id = b.id
    where b.scope = ${scope} and (s.count > ${many} or b.state = 'deleted') and b.id <> all (${others}::text[])
    order by s.count desc, random() limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

/** Runs of a session that are not merged, from an event on, oldest first. */
export const freshSegments = (db: Db, sessionId: string, from: number, limit: number): Promise<StoredSegment[]> =>
  db
    .selectFrom('telemetry_segments')
    .select(COLUMNS)
    .where('session_id', '=', sessionId)
    .where(FRESH)
    .where('first_seq', '>=', from)
    .orderBy('first_seq')
    .limit(limit)
    .execute()

/**
 * Replaces runs by the runs into which they were merged. Without `wholes`, the parts only had events that other runs have, too. False when the parts have
 * changed meanwhile; then nothing is changed.
 */
export async function replaceSegments(db: Db, scope: string, parts: readonly StoredSegment[], wholes: readonly StoredSegment[]): Promise<boolean> {
  try {
    await db.transaction().execute(async (tx) => {
      const [firsts, lasts] = [parts.map(({ first_seq }) => first_seq), parts.map(({ last_seq }) => last_seq)]
      const { numAffectedRows } = await sql`
        delete from telemetry_segments s using unnest(${firsts}::bigint[], ${lasts}::bigint[]) as p (first_seq, last_seq)
        where s.session_id = ${parts[0]!.session_id} and s.first_seq = p.first_seq and s.last_seq = p.last_seq and ${FRESH}`.execute(tx)
      if (numAffectedRows !== BigInt(parts.length)) throw new Changed()
      if (wholes.length > 0)
        await tx
          .insertInto('telemetry_segments')
          .values(wholes.map((whole) => ({ ...whole, scope })))
          .execute()
    })
    return true
  } catch (error) {
    if (error instanceof Changed) return false
    throw error
  }
}

class Changed extends Error {}

/**
 * Removes everything that is stored of a session. Returns the objects, and the number of events that were not delivered. For a live session, a row with the
 * last position stays, so that events that its agent still has are not stored again.
 */
export async function removeSegments(db: Db, sessionId: string, isLive: boolean): Promise<{ objects: string[]; undelivered: number }> {
  return db.transaction().execute(async (tx) => {
    const gone = await tx
      .deleteFrom('telemetry_segments')
      .where('session_id', '=', sessionId)
      .returning(['first_ts', 'last_ts', 'last_seq', 'events', 'object'])
      .execute()
    const [seq, ts] = [Math.max(...gone.map(({ last_seq }) => last_seq)), Math.max(...gone.map(({ last_ts }) => last_ts))]
    const nothing = { events: 0, types: 0, bytes: 0, data: null, scope: null, object: null }
    if (isLive && gone.length > 0)
      await tx
        .insertInto('telemetry_segments')
        .values({ session_id: sessionId, first_seq: seq, last_seq: seq, first_ts: ts, last_ts: ts, ...nothing })
        .execute()
    return { objects: gone.flatMap(({ object }) => object ?? []), undelivered: await giveUp(tx, sessionId, gone) }
  })
}

/** Sessions of a project that ended before a time and of which something is stored. */
export async function endedWithTelemetry(db: Db, scope: string, project: string, before: Date, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from browsers b where scope = ${scope} and project_id = ${project} and state = 'deleted' and deleted_at < ${before}
      and exists (select from telemetry_segments s where s.session_id = b.id) limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

/** Old runs, without the last run of a live session: it marks the position up to which telemetry was stored, or deleted. */
const OLD = (before: number, scope: string) => sql<SqlBool>`
  last_ts < ${before} and not exists (
    select from browsers b where b.id = telemetry_segments.session_id and (b.scope <> ${scope} or (b.state <> 'deleted' and not exists (
      select from telemetry_segments later where later.session_id = telemetry_segments.session_id and later.last_seq > telemetry_segments.last_seq))))`

/** Removes runs whose last event is older than a time. Returns the object of each; null when its data was in its row. */
export async function removeOld(db: Db, scope: string, before: number, limit: number): Promise<(string | null)[]> {
  const { rows } = await sql<{ object: string | null }>`
    delete from telemetry_segments where (session_id, first_seq) in (
      select session_id, first_seq from telemetry_segments where ${OLD(before, scope)} limit ${limit}) returning object`.execute(db)
  return rows.map(({ object }) => object)
}

/** The objects of telemetry; the sweep removes objects that no row names. */
export function telemetryObjects(db: Db, scope: string): ObjectOwner {
  return {
    prefix: PREFIX,
    async named(ids) {
      const rows = await db.selectFrom('telemetry_segments').select('object').where('session_id', 'in', ids).where('object', 'is not', null).execute()
      return rows.map(({ object }) => object!)
    },
    async expected(after, limit) {
      const { rows } = await sql<{ id: string; keys: string[] }>`
        select session_id as id, array_agg(object) as keys from telemetry_segments
        where object is not null and scope = ${scope} and session_id > ${after} group by session_id order by session_id limit ${limit}`.execute(db)
      return rows
    },
  }
}
