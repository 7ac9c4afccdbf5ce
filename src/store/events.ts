// Notifications of changes: followers of a topic learn of new events, and replicas receive notices. NOTIFY only wakes readers.
import { sql, type RawBuilder } from 'kysely'
import pg from 'pg'
import { Notifier } from '../base/notifier.ts'
import type { Log } from '../base/log.ts'
import { resultWithin, sleep } from '../base/wait.ts'
import type { Db, DbAddress } from './db.ts'

/** Replicas of two versions share the channel during an upgrade, so its name never changes. */
const CHANNEL = 'app_events'
/** Readers check again at least this often, in case a notification was lost (the listening connection broke). */
const LOOK_AGAIN_MS = 5_000
const RECONNECT_MS = 1_000
const CONNECT_MS = 10_000

/**
 * Takes the lock under which the events of a topic are written. Ids are drawn inside the lock, and it is held until the commit. Otherwise a
 * reader could pass an id before a smaller one is committed, and miss it.
 */
export const lockEvents = (topic: RawBuilder<string>) => sql`pg_advisory_xact_lock(hashtextextended('cob:events:' || ${topic}, 0))`

/** Wakes the followers of a topic when the transaction commits. */
export const announceEvents = (topic: RawBuilder<string>) => sql`pg_notify(${CHANNEL}, ${topic})`

/** A kind of notice between replicas. The sending group chooses the name. */
export type Notice = string

/** SQL that sends a notice when the transaction commits. */
export const announceNotice = (notice: Notice, text: RawBuilder<string>) => sql`pg_notify(${CHANNEL}, ${`${notice}:`} || ${text})`

/** Sends a notice to every service with this database, including this one. A service that is not connected misses it, and has to check by itself. */
export const notify = async (db: Db, notice: Notice, text: string): Promise<void> =>
  void (await sql`select pg_notify(${CHANNEL}, ${`${notice}:${text}`})`.execute(db))

/** Notifies followers of new events and notices. */
export interface EventNotifier extends AsyncDisposable {
  /** Calls `onNotice` with the text of each notice of this kind, and `onMissed` when some may have been missed, until the returned function is called. */
  on(notice: Notice, onNotice: (text: string) => void, onMissed?: () => void): () => void
  /** Resolves when there may be new events of a topic, at the latest after {@link LOOK_AGAIN_MS}; rejects when `signal` aborts. */
  next(topic: string, signal: AbortSignal): { promise: Promise<void>; leave: () => void }
}

interface Listener {
  onNotice: (text: string) => void
  onMissed: (() => void) | undefined
}

/** Listens for all topics and notices on one connection of its own. Reconnects whenever it breaks. */
export function listenForEvents(address: DbAddress, log: Log): EventNotifier {
  const notifiers = new Map<string, { notifier: Notifier; waiting: number }>()
  const listeners = new Map<Notice, Set<Listener>>()
  const stop = new AbortController()
  const listen = async () => {
    const client = new pg.Client({ ...address, connectionTimeoutMillis: CONNECT_MS, application_name: 'cob events' })
    const broken = new Promise<void>((resolve) => client.on('error', () => resolve()).on('end', () => resolve()))
    try {
      await client.connect()
      client.on('notification', ({ payload = '' }) => {
        const [notice, text] = payload.split(/:(.*)/s, 2)
        if (text === undefined) notifiers.get(payload)?.notifier.notify()
        else for (const { onNotice } of listeners.get(notice!) ?? []) onNotice(text)
      })
      await client.query(`listen ${CHANNEL}`)
      // Events and notices may have been missed.
      notifiers.forEach(({ notifier }) => notifier.notify())
      listeners.forEach((all) => all.forEach(({ onMissed }) => onMissed?.()))
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
    on(notice, onNotice, onMissed) {
      const listener = { onNotice, onMissed }
      const all = listeners.get(notice) ?? new Set()
      listeners.set(notice, all.add(listener))
      return () => void all.delete(listener)
    },
    next(topic, signal) {
      const entry = notifiers.get(topic) ?? { notifier: new Notifier(), waiting: 0 }
      notifiers.set(topic, entry)
      entry.waiting++
      let left = false
      const leave = () => {
        if (left) return
        left = true
        if (--entry.waiting === 0) notifiers.delete(topic)
      }
      const waited = new AbortController()
      const timer = setTimeout(() => waited.abort(), LOOK_AGAIN_MS)
      const promise = entry.notifier
        .next(AbortSignal.any([signal, waited.signal]))
        .catch((error: unknown) => {
          if (signal.aborted) throw error
        })
        .finally(() => {
          clearTimeout(timer)
          leave()
        })
      promise.catch(() => {})
      return { promise, leave: () => (waited.abort(), leave()) }
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}
