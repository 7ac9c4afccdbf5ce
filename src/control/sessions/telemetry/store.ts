// Stores the waiting events of all sessions' telemetry in common statements, several times a second.
import { Notifier } from '../../../base/notifier.ts'
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import type { Db } from '../../../store/db.ts'
import type { Follower } from './follow.ts'
import { GATHER_MS, LAST_STORE_RETRY_MS, LEAST_RUN_BYTES, SESSION_WAITING_BYTES, STATEMENT_BYTES, STORE_RETRY_MS, TOTAL_WAITING_BYTES } from './limits.ts'
import { insertSegments } from './rows.ts'
import { grouped } from './segments.ts'

interface StoreSettings {
  db: Db
  /** All followers whose events it stores. */
  followers: () => Iterable<Follower>
  /** The reason why nothing may be written now. */
  obstacle: () => string | undefined
  /** Called after events were stored. */
  onStored: () => void
  log: Log
}

export class Store {
  readonly #settings: StoreSettings
  readonly #turn = new Mutex()
  readonly #stored = new Notifier()
  #timer: NodeJS.Timeout | undefined
  #retryMs = 0
  #isClosed = false

  constructor(settings: StoreSettings) {
    this.#settings = settings
  }

  /** Tells the store that events wait. */
  wake(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.flush().catch(() => {}) // the failure is logged and retried there
    }, this.#retryMs || GATHER_MS)
  }

  /** Resolves when all events that wait now are stored. @throws when that fails; it is retried later */
  async flush(signal?: AbortSignal): Promise<void> {
    await this.#turn.run(() => this.#write(), signal)
  }

  /** Resolves when there is room for more events of a session. */
  async room(follower: Follower, signal: AbortSignal): Promise<void> {
    const total = () => [...this.#settings.followers()].reduce((sum, { waiting }) => sum + waiting, 0)
    while (follower.waiting > SESSION_WAITING_BYTES || total() > TOTAL_WAITING_BYTES) {
      const stored = this.#stored.next(signal)
      this.wake()
      await stored
    }
  }

  async #write(): Promise<void> {
    const { db, followers, obstacle, onStored, log } = this.#settings
    const waiting = [...followers()].filter(({ hasMore }) => hasMore)
    if (waiting.length === 0) return
    try {
      const problem = obstacle()
      if (problem !== undefined) throw new Error(problem)
      const packed = await Promise.all(waiting.map(async (follower) => (await follower.runs()).map((run) => ({ follower, run }))))
      for (const statement of grouped(packed.flat(), ({ run }) => Math.max(run.bytes, LEAST_RUN_BYTES), STATEMENT_BYTES)) {
        await insertSegments(
          db,
          statement.map(({ run }) => run),
        )
        for (const { follower, run } of statement) follower.saved([run])
      }
      this.#retryMs = 0
      this.#stored.notify()
      onStored()
    } catch (err) {
      if (this.#retryMs === 0) log.warn({ err }, 'telemetry cannot be stored at the moment')
      this.#retryMs = Math.min(LAST_STORE_RETRY_MS, Math.max(STORE_RETRY_MS, 2 * this.#retryMs))
      this.wake()
      throw err
    }
  }

  /** Stores the events that still wait. No more may come. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.flush().catch((err: unknown) => this.#settings.log.error({ err }, 'the last telemetry could not be stored'))
  }
}
