// The log of a deployment and its runs: appended in order, followed from a cursor. NOTIFY only wakes the readers.
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import pg from 'pg'
import { Notifier } from '../base/notifier.ts'
import type { Log } from '../base/log.ts'
import { resultWithin, sleep } from '../base/wait.ts'
import type { Db, DbAddress } from './db.ts'
import type { Tables } from './tables.ts'

const CHANNEL = 'app_events'
/** Rows read or written per query. */
const BATCH = 500
/** Bytes read per query. A line may have 64 KiB, and each of many followers holds a batch. */
const BATCH_BYTES = 256 * 1024
/** Readers look again at least this often, in case a notification was lost (the listening connection broke). */
const LOOK_AGAIN_MS = 5_000
const RECONNECT_MS = 1_000
const CONNECT_MS = 10_000

export type AppEvent = Selectable<Tables['app_events']>

/** Which events: all of a deployment and its runs, or those of one run. */
export type EventSource = { deployment: string } | { invocation: string; deployment: string }

/** What a writer adds. The time defaults to now. */
export type NewEvent = { kind: 'log'; line: string; at?: string } | { kind: 'app'; data: object; at?: string }

/**
 * Takes the lock under which a deployment's events are written. Ids are drawn inside the lock, and it is held until the commit. Otherwise a
 * reader could pass an id before a smaller one is committed, and miss it.
 */
export const lockEvents = (deployment: RawBuilder<string>) => sql`pg_advisory_xact_lock(hashtextextended('cob:events:' || ${deployment}, 0))`

/** Wakes the followers of a deployment when the transaction commits. */
export const announceEvents = (deployment: RawBuilder<string>) => sql`pg_notify(${CHANNEL}, ${deployment})`

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

/** Events that {@link removeEvents} should remove at once: a writer of the same log waits for so long. */
export const EVENTS_AT_ONCE = 5_000

/** Removes at most `limit` events of a deployment's log that match `which`, and corrects the size of the log. Returns how many were removed. */
export async function removeEvents(db: Db, deployment: string, which: RawBuilder<SqlBool>, limit: number): Promise<number> {
  return db.transaction().execute(async (tx) => {
    // As every writer of the log does, so that none waits for us while we wait for it.
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

/** The end of the log as it is now: every later event has a larger id. */
export async function lastEvent(db: Db, source: EventSource): Promise<number> {
  const row = await select(db, source).select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return row?.id ?? 0
}

/** One batch of the log after `after`, oldest first; empty at its end. `since` leaves out older events. */
export const readEvents = async (db: Db, source: EventSource, after: number, since?: Date): Promise<AppEvent[]> =>
  (await readBatch(db, source, after, since)).events

/** The same, and whether there may be more now. */
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

/** The size of one event as it is read. The stored size of `data` is a compressed one. */
const SIZE = sql`coalesce(octet_length(line), 0) + coalesce(octet_length(data::text), 0) + ${LINE_BYTES}::int`

const select = (db: Db, source: EventSource) =>
  db
    .selectFrom('app_events')
    .$if('invocation' in source, (query) => query.where('invocation_id', '=', (source as { invocation: string }).invocation))
    .$if(!('invocation' in source), (query) => query.where('deployment_id', '=', source.deployment))

/** What replicas tell each other: that one of them has something to do, that a session ends (id and reason), or has ended (id); that a login has begun or was ended (id); that somebody has lost a right. */
export type Notice = 'look' | 'closing' | 'ended' | 'auth_flow' | 'rights'

/** SQL that sends a notice when the transaction commits. */
export const announceNotice = (notice: Notice, text: RawBuilder<string>) => sql`pg_notify(${CHANNEL}, ${`${notice}:`} || ${text})`

/** Sends a notice to every service with this database, this one too. One that is not connected at the moment misses it, and has to look by itself. */
export const notify = async (db: Db, notice: Notice, text: string): Promise<void> =>
  void (await sql`select pg_notify(${CHANNEL}, ${`${notice}:${text}`})`.execute(db))

/** Tells followers about new events. */
export interface EventNotifier extends AsyncDisposable {
  /** Calls `onNotice` with the text of each notice of this kind, until the returned function is called. */
  on(notice: Notice, onNotice: (text: string) => void): () => void
  /** Resolves when there may be new events of a deployment, or something new of a login, at the latest after {@link LOOK_AGAIN_MS}; rejects when `signal` aborts. */
  next(deployment: string, signal: AbortSignal): { promise: Promise<void>; leave: () => void }
}

/** Listens for events of every deployment on one connection of its own. Reconnects whenever it breaks. */
export function listenForEvents(address: DbAddress, log: Log): EventNotifier {
  const notifiers = new Map<string, { notifier: Notifier; waiting: number }>()
  const notices = new Map<Notice, Set<(text: string) => void>>()
  const stop = new AbortController()
  const notifyAll = () => notifiers.forEach(({ notifier }) => notifier.notify())
  const listen = async () => {
    const client = new pg.Client({ ...address, connectionTimeoutMillis: CONNECT_MS, application_name: 'cob events' })
    const broken = new Promise<void>((resolve) => client.on('error', () => resolve()).on('end', () => resolve()))
    try {
      await client.connect()
      client.on('notification', ({ payload = '' }) => {
        const [notice, text] = payload.split(/:(.*)/s, 2)
        if (text === undefined) notifiers.get(payload)?.notifier.notify()
        else for (const onNotice of notices.get(notice as Notice) ?? []) onNotice(text)
      })
      await client.query(`listen ${CHANNEL}`)
      notifyAll() // events may have been missed
      for (const onNotice of notices.get('rights') ?? []) onNotice('')
      await resultWithin(undefined, broken, stop.signal)
    } finally {
      await client.end().catch(() => {})
    }
  }
  const run = async () => {
    while (!stop.signal.aborted) {
      await listen().catch((err: unknown) => stop.signal.aborted || log.warn({ err }, 'new events are delayed: listening to the database failed'))
      await sleep(RECONNECT_MS, stop.signal).catch(() => {})
    }
  }
  const running = run()
  return {
    on(notice, onNotice) {
      const all = notices.get(notice) ?? new Set()
      notices.set(notice, all.add(onNotice))
      return () => void all.delete(onNotice)
    },
    next(deployment, signal) {
      const entry = notifiers.get(deployment) ?? { notifier: new Notifier(), waiting: 0 }
      notifiers.set(deployment, entry)
      entry.waiting++
      let left = false
      const leave = () => {
        if (left) return
        left = true
        if (--entry.waiting === 0) notifiers.delete(deployment)
      }
      const tired = new AbortController()
      const timer = setTimeout(() => tired.abort(), LOOK_AGAIN_MS)
      const promise = entry.notifier
        .next(AbortSignal.any([signal, tired.signal]))
        .catch((error: unknown) => {
          if (signal.aborted) throw error
        })
        .finally(() => {
          clearTimeout(timer)
          leave()
        })
      promise.catch(() => {})
      return { promise, leave: () => (tired.abort(), leave()) }
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}

/**
 * Every event of `source` after `after`, in batches, and then new events as they come, until `signal` aborts. An empty batch says that the end of
 * the log has been reached for now.
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
