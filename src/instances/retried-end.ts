// An end that is retried until it succeeds: by its callers, and by itself after a failure.
import type { Log } from '../base/log.ts'
import { sleep } from '../base/wait.ts'

/** Retries after a failed end: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 60_000

/** The ends of a driver that have failed and are retried. */
export type FailedEnds = Set<RetriedEnd>

export interface Retrying {
  log: Log
  /** Aborts when the service stops. Ends are then no longer retried: {@link lastAttempts}. */
  signal: AbortSignal
  failedEnds: FailedEnds
}

/** One more attempt at each failed end, when the service stops. What fails again is logged, and left to the next start. */
export async function lastAttempts(failed: FailedEnds): Promise<void> {
  await Promise.all([...failed].map((end) => end.run().catch(() => {})))
}

export class RetriedEnd {
  readonly #end: () => Promise<void>
  readonly #log: Log
  readonly #signal: AbortSignal
  readonly #failed: FailedEnds
  /** Set by the first attempt; cleared when the attempt has failed. */
  #ended: Promise<void> | undefined
  #retryMs = RETRY_FIRST_MS
  #isRetrying = false

  constructor(end: () => Promise<void>, { log, signal, failedEnds }: Retrying) {
    this.#end = end
    this.#log = log
    this.#signal = signal
    this.#failed = failedEnds
  }

  /** Whether it has begun. */
  get hasBegun(): boolean {
    return this.#ended !== undefined
  }

  /** @throws when the attempt fails; it is then retried until it succeeds, without a further call */
  run(): Promise<void> {
    return (this.#ended ??= this.#end().then(
      () => void this.#failed.delete(this),
      (error: unknown) => {
        this.#ended = undefined
        this.#failed.add(this)
        this.#later(error)
        throw error
      },
    ))
  }

  #later(err: unknown): void {
    this.#log.error({ err, retryMs: this.#retryMs }, 'an instance could not be ended yet')
    if (this.#signal.aborted || this.#isRetrying) return
    this.#isRetrying = true
    const again = async () => {
      await sleep(this.#retryMs, this.#signal)
      this.#retryMs = Math.min(RETRY_LAST_MS, this.#retryMs * 2)
      this.#isRetrying = false
      await this.run()
    }
    again().catch(() => {}) // the service stops, or that attempt has failed as well and another one follows
  }
}
