// All queries on the position of each export of a session's telemetry.
import { sql, type SqlBool } from 'kysely'
import type { Db } from '../../../../store/db.ts'

/** An export with events to deliver, and its destination. */
export interface DueExport {
  id: number
  session_id: string
  project_id: string | null
  from_ts: number
  until_ts: number | null
  last_seq: number
  destination_id: string
  endpoint: string
  headers: Buffer | null
  consecutive_failures: number
  /** The last stored event for it. */
  to: number
}

/** True when the run `s` may have events of the export `e`. */
const IS_OF = sql<SqlBool>`(s.session_id = e.session_id and s.events > 0 and s.last_ts >= e.from_ts and (e.until_ts is null or s.first_ts < e.until_ts))`
const HAS_MORE = sql<SqlBool>`exists (select from telemetry_segments s where ${IS_OF} and s.last_seq > e.last_seq)`
const IS_OPEN = sql<SqlBool>`(e.finished_at is null and d.deleted_at is null and (d.next_attempt_at is null or d.next_attempt_at <= now()))`
const FROM = sql`telemetry_exports e join telemetry_destinations d on d.id = e.destination_id left join browsers b on b.id = e.session_id`
/** Sessions of another scope are exported by the services of that scope, which have the key. */
const isOurs = (scope: string) => sql<SqlBool>`not exists (select from browsers o where o.id = e.session_id and o.scope <> ${scope})`
const COLUMNS = sql`e.id, e.session_id, b.project_id, e.from_ts, e.until_ts, e.last_seq, d.id as destination_id, d.endpoint, d.headers, d.consecutive_failures`

export type DueWork = Pick<DueExport, 'id' | 'destination_id' | 'consecutive_failures'>

/** Exports with events to deliver now, without those in `except`: at most `limit` of each destination, in random order. */
export async function dueWork(db: Db, scope: string, limit: number, except: readonly number[]): Promise<DueWork[]> {
  const { rows } = await sql<DueWork>`
    select id, destination_id, consecutive_failures from (
      select e.id, d.id as destination_id, d.consecutive_failures, row_number() over (partition by d.id order by random()) as place
      from ${FROM} where ${IS_OPEN} and ${isOurs(scope)} and e.id <> all(${except}::bigint[]) and ${HAS_MORE}
    ) due where place <= ${limit}`.execute(db)
  return rows
}

/** The same for one export; undefined when it has nothing to deliver now. */
export async function oneDue(db: Db, scope: string, id: number): Promise<DueExport | undefined> {
  const { rows } = await sql<DueExport>`
    select ${COLUMNS}, (select max(s.last_seq) from telemetry_segments s where ${IS_OF}) as to
    from ${FROM} where e.id = ${id} and ${IS_OPEN} and ${isOurs(scope)} and ${HAS_MORE}`.execute(db)
  return rows[0]
}

/** Records that events up to this one are delivered or given up. */
export const noteReached = async (db: Db, id: number, seq: number): Promise<void> =>
  void (await sql`update telemetry_exports set last_seq = greatest(last_seq, ${seq}) where id = ${id}`.execute(db))

/** Records that the destination has accepted events up to this one. */
export async function noteDelivered(db: Db, { id, destination_id: destination }: DueWork, seq: number): Promise<void> {
  await sql`
    with reached as (update telemetry_exports set last_seq = greatest(last_seq, ${seq}) where id = ${id})
    update telemetry_destinations set consecutive_failures = 0, last_export_at = now(), next_attempt_at = null where id = ${destination}`.execute(db)
}

/** Records that a destination refused events, which are given up. The destination works and gets later events as before. */
export async function noteRefused(db: Db, destination: string, error: string): Promise<void> {
  await sql`update telemetry_destinations set last_error = ${error}, last_error_at = now() where id = ${destination} and deleted_at is null`.execute(db)
}

/**
 * Records a failure. Returns the number of failures since the last success. The next attempt is after `firstMs`, doubled with each failure up to `mostMs`, and
 * at least `leastMs`.
 */
export async function noteFailure(
  db: Db,
  destination: string,
  error: string,
  { firstMs, mostMs, leastMs }: { firstMs: number; mostMs: number; leastMs: number },
): Promise<number> {
  const waitMs = sql`greatest(${leastMs}::float8, least(${firstMs}::float8 * 2 ^ least(consecutive_failures, 30), ${mostMs}))`
  const { rows } = await sql<{ failures: number }>`
    update telemetry_destinations set consecutive_failures = consecutive_failures + 1, last_error = ${error}, last_error_at = now(), 
      next_attempt_at = now() + ${waitMs} * interval '1 millisecond'
    where id = ${destination} and deleted_at is null returning consecutive_failures as failures`.execute(db)
  return rows[0]?.failures ?? 0
}

/** Drops the oldest events of exports that have more than `bytes` of stored data to deliver, or events older than `before`. Returns their number. */
export async function dropBehind(db: Db, scope: string, { bytes, before }: { bytes: number; before: number }): Promise<number> {
  const { rows } = await sql<{ events: number }>`
    with behind as (
      select e.id, s.last_seq, s.events, s.last_ts, sum(s.bytes) over (partition by e.id order by s.first_seq desc) as newer
      from telemetry_exports e join telemetry_segments s on ${IS_OF} and s.last_seq > e.last_seq where e.finished_at is null and ${isOurs(scope)}
    ), gone as (
      select id, max(last_seq) as last_seq, sum(events) as events from behind where newer > ${bytes} or last_ts < ${before} group by id
    )
    update telemetry_exports e set last_seq = greatest(e.last_seq, gone.last_seq) from gone where e.id = gone.id returning gone.events`.execute(db)
  return rows.reduce((sum, { events }) => sum + Number(events), 0)
}

/**
 * Gives up undelivered events of runs that are being removed. Returns an upper bound of their number, because a run may also have events of other times. Call
 * it in the transaction that removes the runs.
 */
export async function giveUp(
  tx: Db,
  sessionId: string,
  runs: readonly { first_ts: number; last_ts: number; last_seq: number; events: number }[],
): Promise<number> {
  const { rows: open } = await sql<Pick<DueExport, 'id' | 'from_ts' | 'until_ts' | 'last_seq'>>`
    select e.id, e.from_ts, e.until_ts, e.last_seq from telemetry_exports e join telemetry_destinations d on d.id = e.destination_id
    where e.session_id = ${sessionId} and e.finished_at is null and d.deleted_at is null for update of e`.execute(tx)
  let events = 0
  for (const { id, from_ts: from, until_ts: until, last_seq: reached } of open) {
    const left = runs.filter((run) => run.last_seq > reached && run.last_ts >= from && (until === null || run.first_ts < until))
    events += left.reduce((sum, run) => sum + Math.min(run.events, run.last_seq - reached), 0)
    if (left.length > 0) await noteReached(tx, id, Math.max(...left.map((run) => run.last_seq)))
  }
  return events
}

/** Marks exports as finished: all events are delivered, and no more can come, `afterMs` after the end of their sessions. */
export async function finishOver(db: Db, scope: string, afterMs: number): Promise<void> {
  const past = sql`(now() - ${afterMs} * interval '1 millisecond')`
  await sql`
    update telemetry_exports e set finished_at = now() where finished_at is null and ${isOurs(scope)} and not ${HAS_MORE} and (
      until_ts < extract(epoch from ${past}) * 1000000
      or not exists (select from browsers b where b.id = e.session_id and (b.state <> 'deleted' or b.deleted_at > ${past})))`.execute(db)
}

/** Age of the oldest stored event that is not delivered, in seconds; 0 when all are delivered. */
export async function lagOf(db: Db, scope: string): Promise<number> {
  const { rows } = await sql<{ lag: number | null }>`
    select (extract(epoch from now()) - min(s.first_ts) / 1000000.0)::float8 as lag
    from telemetry_exports e join telemetry_segments s on ${IS_OF} and s.last_seq > e.last_seq where e.finished_at is null and ${isOurs(scope)}`.execute(db)
  return Math.max(0, rows[0]!.lag ?? 0)
}

/** After this time, no events for a finished export can appear any more. */
const LATE = sql`interval '1 hour'`

/** Runs are cut after the end of their session, which may be long after the release by one of its callers. */
const IS_RECENT = sql<SqlBool>`(e.finished_at is null or e.finished_at > now() - ${LATE}
  or exists (select from browsers b where b.id = e.session_id and (b.state <> 'deleted' or b.deleted_at > now() - ${LATE})))`

/** True when all events of the run `s` are in the time of the export `e`. A run that also has others is cut when runs are merged. */
const IS_WITHIN = sql<SqlBool>`(s.session_id = e.session_id and s.events > 0 and s.first_ts >= e.from_ts and (e.until_ts is null or s.last_ts < e.until_ts))`

/** Removes runs that were stored only for an export, and are delivered or given up. Returns their objects. */
export async function removeArrived(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ object: string | null }>`
    delete from telemetry_segments s using telemetry_exports e
    where not e.is_kept and ${IS_RECENT} and ${IS_WITHIN} and (e.last_seq >= s.last_seq or e.finished_at is not null)
      and not exists (
        select from telemetry_exports o where o.session_id = s.session_id and o.id <> e.id and o.finished_at is null and o.last_seq < s.last_seq
          and s.last_ts >= o.from_ts and (o.until_ts is null or s.first_ts < o.until_ts))
      and ${isOurs(scope)}
    returning s.object`.execute(db)
  return rows.flatMap(({ object }) => object ?? [])
}
