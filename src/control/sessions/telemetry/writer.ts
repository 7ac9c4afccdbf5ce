// Stores what waits of all sessions' telemetry, together, several times a second.
import { Notifier } from '../../../base/notifier.ts'
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import type { Db } from '../../../store/db.ts'
import type { Intake } from './intake.ts'
import { insertSegments } from './rows.ts'
import type { Segment } from './segments.ts'

/** How long the first event waits for others. With the statement, an event is stored within half a second. */
const GATHER_MS = 250
/** Wait after a failure: doubled up to the last. */
const [RETRY_MS, LAST_RETRY_MS] = [500, 8_000]
/** Limits on one statement. */
const RUNS_AT_ONCE = 500
const BYTES_AT_ONCE = 8 * 1024 * 1024
/** What may wait in memory, of one session and of all: the database may be away. Then no more is read, and the agents keep the last events. */
const SESSION_BYTES = 2 * 1024 * 1024
const TOTAL_BYTES = 64 * 1024 * 1024

interface WriterSettings {
  db: Db
  /** All whose events are stored. */
  intakes: () => Iterable<Intake>
  /** The reason when nothing may be written now. */
  obstacle: () => string | undefined
  /** Called after events were stored. */
  onStored: () => void
  log: Log
}

export class Writer {
  readonly #settings: WriterSettings
  readonly #turn = new Mutex()
  readonly #stored = new Notifier()
  #timer: NodeJS.Timeout | undefined
  #retryMs = 0
  #isClosed = false

  constructor(settings: WriterSettings) {
    this.#settings = settings
  }

  /** Something waits. */
  wake(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.flush().catch(() => {}) // it has said so, and tries again
    }, this.#retryMs || GATHER_MS)
  }

  /** Resolves when all that waits now is stored. @throws when that does not work; it is tried again then */
  async flush(signal?: AbortSignal): Promise<void> {
    await this.#turn.run(() => this.#write(), signal)
  }

  /** Resolves when there is room for more events of a session. */
  async room(intake: Intake, signal: AbortSignal): Promise<void> {
    const isFull = () => intake.waiting > SESSION_BYTES || total(this.#settings.intakes()) > TOTAL_BYTES
    while (isFull()) {
      const stored = this.#stored.next(signal)
      this.wake()
      await stored
    }
  }

  async #write(): Promise<void> {
    const { intakes, obstacle, onStored, log } = this.#settings
    const waiting = [...intakes()].filter(({ hasMore }) => hasMore)
    if (waiting.length === 0) return
    try {
      const problem = obstacle()
      if (problem !== undefined) throw new Error(problem)
      for (const batch of batches(await Promise.all(waiting.map(async (intake) => ({ intake, runs: await intake.runs() }))))) {
        await insertSegments(
          this.#settings.db,
          batch.flatMap(({ runs }) => runs),
        )
        for (const { intake, runs } of batch) intake.saved(runs)
      }
      this.#retryMs = 0
      this.#stored.notify()
      onStored()
    } catch (err) {
      if (this.#retryMs === 0) log.warn({ err }, 'telemetry cannot be stored at the moment')
      this.#retryMs = Math.min(LAST_RETRY_MS, Math.max(RETRY_MS, 2 * this.#retryMs))
      this.wake()
      throw err
    }
  }

  /** Stores what still waits. Nothing may come any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.flush().catch((err: unknown) => this.#settings.log.error({ err }, 'the last telemetry could not be stored'))
  }
}

const total = (intakes: Iterable<Intake>): number => [...intakes].reduce((sum, { waiting }) => sum + waiting, 0)

interface Waiting {
  intake: Intake
  runs: readonly Segment[]
}

/** Runs of one statement each. */
function batches(all: readonly Waiting[]): Waiting[][] {
  const made: Waiting[][] = []
  let [count, bytes] = [Infinity, Infinity]
  for (const { intake, runs } of all)
    for (const run of runs) {
      if (count >= RUNS_AT_ONCE || bytes + run.bytes > BYTES_AT_ONCE) {
        made.push([])
        count = bytes = 0
      }
      made.at(-1)!.push({ intake, runs: [run] })
      count++
      bytes += run.bytes
    }
  return made
}
