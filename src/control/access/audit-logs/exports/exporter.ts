// Exports the audit log in the background: what is new goes to every active destination, object by object.
import type { Log } from '../../../../base/log.ts'
import { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import { nextBatch } from './objects.ts'
import { dueDestination, dueDestinations, noteDelivered, noteFailure, undelivered } from './rows.ts'
import { NotExported, type Target } from './target.ts'

/** Destinations that are written at the same time: each takes the memory of an object. */
const AT_ONCE = 4
/** Longest time between two attempts of a destination that fails. */
const MOST_BACKOFF_MS = 15 * 60_000

interface ExporterSettings {
  db: Db
  target: Target
  /** Time between two rounds, and after a first failure. */
  everyMs: number
  /** Whether this replica exports; the others do not. */
  isOurs: () => boolean
  log: Log
}

/**
 * Exports until it is disposed. An entry leaves the table of what is to be exported in a statement after its object was written, so a service that dies in between, or two that export for a moment, write
 * it again and lose nothing.
 */
export function exportAuditLog({ db, target, everyMs, isOurs, log }: ExporterSettings): AsyncDisposable {
  const stop = new AbortController()
  const { signal } = stop
  const slots = new Slots(AT_ONCE)
  /** The work for each destination that is not done yet. */
  const working = new Map<string, Promise<void>>()
  /** Whether the last thing that the database was asked has failed. */
  let isAway = false

  /** Writes object by object until there is no more, the destination fails or is paused, or the duty is lost. */
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
    // The cause is not logged: requests have signatures in their headers.
    if (row?.consecutive_failures === 1) log.warn({ destination: id, error: row.last_error }, 'the audit log cannot be exported; it is tried again')
  }

  /** Does something with the database. What fails is done again in the next round. */
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
