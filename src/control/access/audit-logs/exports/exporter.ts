// Exports the audit log in the background: new entries go to every active destination, object by object.
import type { Log } from '../../../../base/log.ts'
import { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import { nextBatch } from './objects.ts'
import { dueDestination, dueDestinations, noteDelivered, noteFailure, undelivered } from './rows.ts'
import { NotExported, type Target } from './target.ts'

/** Destinations that are written at the same time: each uses memory for an object. */
const AT_ONCE = 4
/** Longest delay between two attempts with a failing destination. */
const MOST_BACKOFF_MS = 15 * 60_000

interface ExporterSettings {
  db: Db
  target: Target
  /** Interval between two rounds, and delay after a first failure. */
  everyMs: number
  /** Whether this replica exports. Only one replica does. */
  isOurs: () => boolean
  log: Log
}

/**
 * Exports until disposed. An entry is removed from the list of undelivered entries after its object was written. So if a service dies in between, or two export
 * for a moment, the entry is written twice and none is lost.
 */
export function exportAuditLog({ db, target, everyMs, isOurs, log }: ExporterSettings): AsyncDisposable {
  const stop = new AbortController()
  const { signal } = stop
  const slots = new Slots(AT_ONCE)
  /** The unfinished work for each destination. */
  const working = new Map<string, Promise<void>>()
  /** Whether the last query has failed. */
  let isAway = false

  /** Writes object by object until all are written, the destination fails or is paused, or this replica loses the duty. */
  async function work(id: string): Promise<void> {
    for (let isMore = true; isMore && isOurs();) {
      const row = await dueDestination(db, id)
      const batch = row && (await nextBatch(row, (after, limit) => undelivered(db, id, after, limit), signal))
      if (!batch) return
      try {
        await target.put(row, batch.content, signal)
      } catch (error) {
        if (!(error instanceof NotExported)) throw error
        return await failed(id, error)
      }
      await noteDelivered(db, id, batch.entries, batch.cursor)
      if (row.consecutive_failures > 0) log.info({ destination: id }, 'the audit log is exported again')
      isMore = batch.isMore
    }
  }

  async function failed(id: string, error: NotExported): Promise<void> {
    const row = await noteFailure(db, id, `${error.code}: ${error.message}`, everyMs, MOST_BACKOFF_MS)
    // The cause is not logged: headers of requests contain signatures.
    if (row?.consecutive_failures === 1) log.warn({ destination: id, error: row.last_error }, 'the audit log cannot be exported; it is tried again')
  }

  /** Runs a query. If it fails, the next round does it again. */
  async function attempt(what: () => Promise<void>): Promise<void> {
    try {
      await what()
      isAway = false
    } catch (err) {
      if (signal.aborted) return
      if (!isAway) log.error({ err }, 'the export of the audit log did not work; it is tried again')
      isAway = true
    }
  }

  async function round(): Promise<void> {
    for (const { id } of await dueDestinations(db)) {
      if (working.has(id)) continue
      const one = attempt(() => slots.run(() => work(id), signal)).finally(() => working.delete(id))
      working.set(id, one)
    }
  }

  const run = async () => {
    for (;;) {
      if (isOurs()) await attempt(round)
      await sleep(everyMs, signal)
    }
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
      await Promise.all(working.values())
    },
  }
}
