// The events of a deployment and its runs (app_events): appended in order, bounded in size, followed from a cursor.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import type { Db } from '../../../store/db.ts'
import { announceEvents, lockEvents, type EventNotifier } from '../../../store/events.ts'
import type { Tables } from '../../../store/tables.ts'

/** Rows read or written per query. */
const BATCH = 500
/** Bytes read per query. A line may have 64 KiB, and each of many followers holds a batch. */
const BATCH_BYTES = 256 * 1024

export type AppEvent = Selectable<Tables['app_events']>

/** The source of events: a deployment with all its runs, or one run. */
export type EventSource = { deployment: string } | { invocation: string; deployment: string }

/** An event to add. The time defaults to now. */
export type NewEvent = { kind: 'log'; line: string; at?: string } | { kind: 'app'; data: object; at?: string }

/** Overhead of a line besides its text, in bytes: its row and its index entries. */
export const LINE_BYTES = 100

/**
 * Appends events in order. Call it in the transaction that makes the change they report. When the deployment's log then exceeds `maxLogBytes`,
 * its oldest lines are removed.
 */
export async function appendEvents(db: Db, deployment: string, invocation: string | null, events: readonly NewEvent[], maxLogBytes = Infinity): Promise<void> {
  if (events.length === 0) return
  await sql`select ${lockEvents(sql`${deployment}`)}`.execute(db)
  for (let at = 0; at < events.length; at += BATCH) {
    const rows = events.slice(at, at + BATCH).map((event) => ({
      deployment_id: deployment,
      invocation_id: invocation,
      kind: event.kind,
      // Programs may print NUL, but Postgres text cannot hold it.
      line: event.kind === 'log' ? event.line.replaceAll('\0', '�') : null,
      data: event.kind === 'app' ? JSON.stringify(event.data) : null,
      ...(event.at !== undefined && { at: event.at }),
      state: null,
      reason: null,
    }))
    await db.insertInto('app_events').values(rows).execute()
  }
  await boundLog(db, deployment, events, maxLogBytes)
  await sql`select ${announceEvents(sql`${deployment}`)}`.execute(db)
}

async function boundLog(db: Db, deployment: string, events: readonly NewEvent[], maxLogBytes: number): Promise<void> {
  const added = events.reduce((sum, event) => sum + (event.kind === 'log' ? LINE_BYTES + Buffer.byteLength(event.line) : 0), 0)
  if (added === 0) return
  const { log_bytes: bytes } = (await db
    .updateTable('deployments')
    .set((eb) => ({ log_bytes: eb('log_bytes', '+', added) }))
    .where('id', '=', deployment)
    .returning('log_bytes')
    .executeTakeFirst()) ?? { log_bytes: 0 }
  for (let over = bytes - maxLogBytes; over > 0;) {
    const { rows } = await sql<{ bytes: number }>`
      with gone as (
        delete from app_events where id in (
          select id from app_events where deployment_id = ${deployment} and kind = 'log' order by id limit ${BATCH}
        ) returning octet_length(line) + ${LINE_BYTES}::int as bytes
      ), freed as (select coalesce(sum(bytes), 0)::bigint as bytes from gone)
      update deployments set log_bytes = greatest(0, log_bytes - freed.bytes) from freed where id = ${deployment} returning freed.bytes`.execute(db)
    const freed = rows[0]?.bytes ?? 0
    if (freed === 0) return
    over -= freed
  }
}

/** Events that {@link removeEvents} should remove at once: other writers of the same log wait during that time. */
export const EVENTS_AT_ONCE = 5_000

/** Removes at most `limit` events of a deployment's log that match `which`, and corrects the size of the log. Returns how many were removed. */
export async function removeEvents(db: Db, deployment: string, which: RawBuilder<SqlBool>, limit: number): Promise<number> {
  return db.transaction().execute(async (tx) => {
    // Takes the lock that every writer of the log takes first. With the same order there is no deadlock.
    await sql`select ${lockEvents(sql`${deployment}`)}`.execute(tx)
    const { rows } = await sql<{ removed: number; bytes: number }>`
      with gone as (
        delete from app_events where id in (select id from app_events where deployment_id = ${deployment} and ${which} limit ${limit})
        returning case when kind = 'log' then octet_length(line) + ${LINE_BYTES}::int else 0 end as bytes)
      select count(*) as removed, coalesce(sum(bytes), 0)::bigint as bytes from gone`.execute(tx)
    const { removed, bytes } = rows[0]!
    if (bytes > 0)
      await tx
        .updateTable('deployments')
        .set({ log_bytes: sql`greatest(0, log_bytes - ${bytes})` })
        .where('id', '=', deployment)
        .execute()
    return removed
  })
}

/** The size of a run's kept lines. */
export async function logBytesOf(db: Db, invocation: string): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(octet_length(line) + ${LINE_BYTES}::int), 0)::bigint as bytes from app_events where invocation_id = ${invocation} and kind = 'log'`.execute(
    db,
  )
  return rows[0]!.bytes
}

/** The id of the newest event: every later event has a larger id. */
export async function lastEvent(db: Db, source: EventSource): Promise<number> {
  const row = await select(db, source).select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return row?.id ?? 0
}

/** One batch of the log after `after`, oldest first; empty at its end. `since` omits older events. */
export const readEvents = async (db: Db, source: EventSource, after: number, since?: Date): Promise<AppEvent[]> =>
  (await readBatch(db, source, after, since)).events

/** The same, and whether more events may be there now. */
async function readBatch(db: Db, source: EventSource, after: number, since?: Date): Promise<{ events: AppEvent[]; isCut: boolean }> {
  const rows = select(db, source)
    .selectAll()
    .where('id', '>', after)
    .$if(since !== undefined, (query) => query.where('at', '>=', since!))
    .orderBy('id')
    .limit(BATCH)
  const measured = db
    .selectFrom(rows.as('rows'))
    .selectAll()
    .select([sql<number>`sum(${SIZE}) over (order by id) - ${SIZE}`.as('bytes_before'), sql<number>`count(*) over ()`.as('found')])
  const batch = await db.selectFrom(measured.as('measured')).selectAll().where('bytes_before', '<', BATCH_BYTES).orderBy('id').execute()
  const found = Number(batch[0]?.found ?? 0)
  const events = batch.map(({ bytes_before: _bytes, found: _found, ...event }) => event as AppEvent)
  return { events, isCut: found === BATCH || events.length < found }
}

/** Size of one event as it is read, in bytes. The stored size of `data` is smaller, because it is compressed. */
const SIZE = sql`coalesce(octet_length(line), 0) + coalesce(octet_length(data::text), 0) + ${LINE_BYTES}::int`

const select = (db: Db, source: EventSource) =>
  db
    .selectFrom('app_events')
    .$if('invocation' in source, (query) => query.where('invocation_id', '=', (source as { invocation: string }).invocation))
    .$if(!('invocation' in source), (query) => query.where('deployment_id', '=', source.deployment))

/**
 * Every event of `source` after `after`, in batches, and then new events as they come, until `signal` aborts. An empty batch means that the end of the log is
 * reached for now.
 */
export async function* followEvents(
  db: Db,
  notifier: EventNotifier,
  source: EventSource,
  after: number,
  signal: AbortSignal,
  since?: Date,
): AsyncGenerator<AppEvent[]> {
  let at = after
  while (!signal.aborted) {
    // Subscribes before it reads, so that no event between the two is missed.
    const next = notifier.next(source.deployment, signal)
    const { events, isCut } = await readBatch(db, source, at, since).catch((error: unknown) => {
      next.leave()
      throw error
    })
    at = events.at(-1)?.id ?? at
    if (isCut) next.leave()
    yield events
    if (!isCut) await next.promise
  }
}
