// An end that is retried until it succeeds: by its callers, and by itself after a failure.
import type { Log } from '../base/log.ts'
import { sleep } from '../base/wait.ts'

/** Retries after a failed end: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 60_000

export class RetriedEnd {
  readonly #end: () => Promise<void>
  readonly #log: Log
  readonly #signal: AbortSignal
  /** Set by the first attempt; cleared when the attempt has failed. */
  #ended: Promise<void> | undefined
  #retryMs = RETRY_FIRST_MS
  #isRetrying = false

  /** `signal`: the service stops. Failed ends are then left to the next start. */
  constructor(end: () => Promise<void>, log: Log, signal: AbortSignal) {
    this.#end = end
    this.#log = log
    this.#signal = signal
  }

  /** Whether it has begun. */
  get hasBegun(): boolean {
    return this.#ended !== undefined
  }

  /** @throws when the attempt fails; it is then retried until it succeeds, without a further call */
  run(): Promise<void> {
    return (this.#ended ??= this.#end().catch((error: unknown) => {
      this.#ended = undefined
      this.#later(error)
      throw error
    }))
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
