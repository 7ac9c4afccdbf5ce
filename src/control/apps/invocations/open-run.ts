// The state of an unfinished run in this process.
import type { AppSandbox } from '../../../instances/driver.ts'
import type { LogBudget } from './log-budget.ts'
import type { InvocationRow, Outcome } from './rows.ts'

/** The reason when a run's work stops because the run has ended, by itself or otherwise. */
export class RunEnded extends Error {}

/** The reason why a run could not continue, for its caller. The cause is for the log. */
export class BrokenOff extends Error {}

export class Run {
  readonly id: string
  readonly deployment: string
  readonly timeoutSeconds: number
  /** The end of its time limit, on this process's clock. */
  readonly due: number
  /** The input for its runner. */
  readonly job: { invocation: string; app: string; action: string; payload: string | null; timeoutSeconds: number }
  readonly #ended = Promise.withResolvers<Outcome>()
  readonly #over = new AbortController()
  #instance: AppSandbox | undefined
  /** Whether its row names its sandbox, so that another replica finds it. */
  isRecorded = false
  /** The remaining budget for its output. Made with its first lines. */
  logBudget: LogBudget | undefined

  constructor(row: InvocationRow) {
    this.id = row.id
    this.deployment = row.deployment_id
    this.timeoutSeconds = row.timeout_seconds
    this.due = row.started_at.getTime() + row.timeout_seconds * 1000
    this.job = { invocation: row.id, app: row.app_name, action: row.action_name, payload: row.payload, timeoutSeconds: row.timeout_seconds }
  }

  /** Resolves when it has ended. */
  get ended(): Promise<Outcome> {
    return this.#ended.promise
  }

  /** Aborts when it has ended. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /**
   * Gives this run a sandbox and removes an earlier one. The sandbox is removed with the run. @throws RunEnded when the run has ended; the sandbox is then
   * removed
   */
  async hold(instance: AppSandbox): Promise<void> {
    const before = this.#instance
    this.#instance = instance
    if (before) await this.#dispose(before).catch(() => {}) // its driver logs the failure and retries
    if (!this.signal.aborted) return
    await this.release()
    throw this.signal.reason
  }

  /** Resolves the promise of every waiter. Only the first call has an effect. */
  end(outcome: Outcome): void {
    this.#over.abort(new RunEnded('the run has ended'))
    this.#ended.resolve(outcome)
  }

  /**
   * Leaves the run to another replica, which follows it now. Waiters here get its end from `elsewhere`. The sandbox stays if the row names it; otherwise nobody
   * else could find it, and it is removed.
   */
  leave(elsewhere: Promise<Outcome>): void {
    if (this.isRecorded) {
      this.#instance?.unwatch()
      this.#instance = undefined
    } else this.release().catch(() => {}) // its driver logs the failure and retries
    this.#over.abort(new RunEnded('another replica follows the run'))
    elsewhere.catch(() => {})
    this.#ended.resolve(elsewhere)
    this.#ended.promise.catch(() => {})
  }

  /** The id of its sandbox, once it has one. */
  get sandbox(): string | undefined {
    return this.#instance?.id
  }

  /** Removes its sandbox, if it has one. */
  async release(): Promise<void> {
    if (this.#instance) await this.#dispose(this.#instance)
  }

  async #dispose(instance: AppSandbox): Promise<void> {
    await instance[Symbol.asyncDispose]()
  }
}
