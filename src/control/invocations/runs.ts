// The runs of this host: each in a sandbox of its own, followed to its end, adopted after a crash. Knows nothing of requests.
import { setInterval } from 'node:timers/promises'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { Seats } from '../../base/seats.ts'
import { sleep, within } from '../../base/wait.ts'
import { CallFailed } from '../../http/client.ts'
import { CodeUnavailable, type AppCode, type AppSandbox, type Driver } from '../../instances/driver.ts'
import type { RunnerEvent } from '../../runner/contract.ts'
import type { Db } from '../../store/db.ts'
import { followEvents, type EventBells } from '../../store/events.ts'
import { paced, runnerClient } from '../apps/runner-client.ts'
import { hear } from './hear.ts'
import { endColumns, failure, Overtaken, writeDown, type LogLimits } from './journal.ts'
import { invocationLifecycle, moveInvocation, type InvocationState } from './lifecycle.ts'
import { deploymentOf, findInvocation, outcomeOf, pointedAt, unfinishedIds, unfinishedOf, unfinishedOnHost, type InvocationRow, type Outcome } from './rows.ts'
import { BrokenOff, Run } from './run.ts'
import { Starts } from './starts.ts'
import { WarmRunners } from './warm.ts'

/** How often it looks for runs whose end was missed, and for unfinished ends. */
const SWEEP_MS = 5_000
/** Retries of a statement that failed while the database was in trouble: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 200
const RETRY_LAST_MS = 5_000
/** Time from the first adopted run at a start until the service listens. */
const LISTEN_MS = 60_000

const RESTARTED = 'the service was restarted and the run was lost'
const STOPPED = 'the service was stopped'

export interface RunsSettings {
  db: Db
  bells: EventBells
  driver: Driver
  host: string
  /** Where the API answers. Sandboxes are started once that is known. */
  apiUrl: Promise<string>
  maxInvocations: number
  appMemoryMb: number
  logLimits: LogLimits
  logLevel: string
  log: Log
  /** Variables of a deployment's code. */
  environment: (deployment: string) => Promise<Record<string, string>>
  /** A deployment's code. @throws CodeUnavailable */
  code: (deployment: string) => Promise<AppCode>
  /** Called when a run of a deployment has ended. */
  retire: (deployment: string) => Promise<unknown>
  /** Ends the browsers of a run. */
  endBrowsers: (invocation: string) => Promise<void>
  /** Ends the browsers of all runs that have ended. */
  endBrowsersLeft: () => Promise<void>
}

/** A sandbox that has accepted the run. */
interface Underway {
  instance: AppSandbox
  said: AsyncGenerator<RunnerEvent[]>
}

export class Runs {
  readonly #settings: RunsSettings
  readonly #warm: WarmRunners
  readonly #starts = new Starts()
  readonly #runs = new Map<string, Run>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Ended runs whose cleanup is in progress. */
  readonly #ending = new Map<string, Promise<void>>()
  readonly #toRetire = new Set<string>()
  readonly #stop = new AbortController()
  readonly #seats = new Seats(() => this.#runs.size)
  /** Rows that this process did not know at the last sweep. */
  #unheld = new Set<string>()

  constructor(settings: RunsSettings) {
    this.#settings = settings
    const { db, log } = settings
    this.#warm = new WarmRunners({
      start: (deployment, signal, onBegin) => this.#startSandbox(deployment, false, signal, onBegin),
      inUse: (deployments) => pointedAt(db, deployments),
      log,
    })
    this.#watch().catch(() => {}) // ends only by its signal
  }

  get isStopping(): boolean {
    return this.#stop.signal.aborted
  }

  /** A seat for a run that is about to be made; undefined when the limit is reached. Release it after {@link begin} has taken the run. */
  seat(): (() => void) | undefined {
    return this.#seats.reserve(this.#settings.maxInvocations)
  }

  /** Begins a run whose row has been inserted. */
  begin(row: InvocationRow): Run {
    return this.#add(row, undefined)
  }

  /** How a run ends, in this process or not. */
  async ended(row: InvocationRow, signal: AbortSignal): Promise<Outcome> {
    const { db, bells } = this.#settings
    const run = this.#runs.get(row.id)
    if (run) return run.ended
    const over = outcomeOf(row)
    if (over) return over
    for await (const events of followEvents(db, bells, { invocation: row.id, deployment: row.deployment_id }, 0, signal))
      if (events.some(({ kind, state }) => kind === 'state' && invocationLifecycle.isTerminal(state as InvocationState))) break
    return outcomeOf(await findInvocation(db, row.id)) ?? failure('it could not be followed to its end')
  }

  /** Ends a run from outside; false when it had ended. Resolves when its sandbox and browsers are gone. */
  async end(id: string, outcome: Outcome): Promise<boolean> {
    const { db } = this.#settings
    const moved = await moveInvocation(db, id, outcome.state, outcome.reason, endColumns(outcome))
    const run = this.#runs.get(id)
    if (run && moved) this.#close(run, outcome)
    else if (run) await this.#overtaken(run)
    else if (moved) this.#cleanUp(id, await deploymentOf(db, id))
    await this.#ending.get(id)
    return moved !== undefined
  }

  /** Ends every run of a deployment and its warm sandbox: nothing uses its code any more. */
  async endAll(deployment: string, reason: string): Promise<void> {
    const ids = await unfinishedOf(this.#settings.db, deployment)
    await Promise.all([this.#warm.drop(deployment), ...ids.map((id) => this.end(id, failure(reason)))])
  }

  /** Keeps a warm sandbox for a deployment that may soon get runs. */
  prepare(deployment: string): void {
    this.#warm.fill(deployment)
    // The deployments that it replaces no longer need one.
    void this.#warm.sweep().catch((err: unknown) => this.#settings.log.warn({ err }, 'checking the warm sandboxes failed'))
  }

  /** The number of warm sandboxes. */
  get inReserve(): number {
    return this.#warm.count
  }

  /**
   * After a start: continues the runs that outlived the last service, begins those that had waited, and ends the rest. Returns the sandboxes that
   * belong to no run.
   */
  async adopt(found: readonly AppSandbox[]): Promise<AppSandbox[]> {
    const { db, host, log } = this.#settings
    const left = new Map(found.map((instance) => [instance.id, instance]))
    for (const row of await unfinishedOnHost(db, host)) {
      const instance = row.runner_id === null ? undefined : left.get(row.runner_id)
      if (row.state === 'running' && instance) {
        left.delete(instance.id)
        log.info({ invocation: row.id }, 'adopted a run that outlived the last service')
        this.#add(row, instance)
      } else if (row.state === 'queued' && !row.overdue) this.#add(row, undefined)
      else {
        log.warn({ invocation: row.id, state: row.state }, 'a run was lost with the last service')
        await this.end(row.id, failure(RESTARTED))
      }
    }
    return [...left.values()]
  }

  /** Ends every run, even when the database is not available: the next start then finds them lost. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error(STOPPED))
    await Promise.all(
      [...this.#runs.values()].map((run) =>
        this.end(run.id, failure(STOPPED)).catch((err: unknown) => {
          this.#settings.log.error({ err, invocation: run.id }, 'the end of a run could not be recorded')
          this.#close(run, failure(STOPPED))
        }),
      ),
    )
    await Promise.all([this.#warm.stop(), ...this.#ending.values()])
  }

  // ---- the course of a run ----

  #add(row: InvocationRow, instance: AppSandbox | undefined): Run {
    const run = new Run(row)
    this.#runs.set(run.id, run)
    const onDue = () => void this.end(run.id, timedOut(run.timeoutSeconds)).catch((err: unknown) => this.#complain(run.id, err))
    this.#timers.set(run.id, setTimeout(onDue, Math.max(0, run.due - Date.now())))
    this.#go(run, row.runner_seq, instance).catch((err: unknown) => this.#fail(run, err))
    return run
  }

  async #go(run: Run, seq: number, adopted: AppSandbox | undefined): Promise<void> {
    const { instance, said } = adopted ? await this.#resume(run, seq, adopted) : await this.#obtain(run)
    const runner = runnerClient(instance.runner)
    for await (const events of paced(said)) {
      const outcome = await this.#whileInTrouble(run, () => writeDown(this.#settings.db, run, events, this.#settings.logLimits))
      if (outcome) return this.#close(run, outcome)
      // A sandbox that has ended in the meantime may have sent more before. Its events say so.
      await runner.acknowledge(events.at(-1)!.seq, run.signal).catch(() => {})
    }
    throw new BrokenOff('it ended without a result')
  }

  /** Follows a sandbox to which an earlier service has given the run, or was about to. */
  async #resume(run: Run, seq: number, instance: AppSandbox): Promise<Underway> {
    await run.hold(instance)
    const said = hear(instance, seq, run.signal)
    // A runner takes one run only.
    await runnerClient(instance.runner)
      .run(run.job, run.signal)
      .catch((cause: unknown) => {
        if (!(cause instanceof CallFailed && cause.status === 409)) throw new BrokenOff('its sandbox does not answer', { cause })
      })
    return { instance, said }
  }

  /** A sandbox that has accepted the run: the warm one, or a new one. */
  async #obtain(run: Run): Promise<Underway> {
    const { db } = this.#settings
    const hand = async (instance: AppSandbox): Promise<Underway> => {
      const said = hear(instance, 0, run.signal)
      await runnerClient(instance.runner).run(run.job, run.signal)
      this.#warm.fill(run.deployment)
      return { instance, said }
    }
    const own = async (): Promise<AppSandbox> => {
      const instance = await this.#startSandbox(run.deployment, true, run.signal).catch((cause: unknown) => {
        throw new BrokenOff(cause instanceof CodeUnavailable ? cause.message : 'its sandbox did not start', { cause })
      })
      await run.hold(instance)
      return instance
    }
    const reserve = await this.#warm.take(run.deployment)
    if (reserve) await run.hold(reserve)
    const first = reserve ?? (await own())
    await this.#whileInTrouble(run, async () => {
      if (!(await moveInvocation(db, run.id, 'running', null, { runner_id: first.id }))) throw new Overtaken()
    })
    try {
      return await hand(first)
    } catch (cause) {
      // A warm sandbox that has just died never got the run. Any other may have begun it.
      if (!reserve || !(cause instanceof CallFailed && cause.isUnreceived)) throw new BrokenOff('its sandbox did not take the run', { cause })
      const instance = await own()
      await db.updateTable('invocations').set({ runner_id: instance.id }).where('id', '=', run.id).where('state', '=', 'running').execute()
      return hand(instance)
    }
  }

  async #startSandbox(deployment: string, isUrgent: boolean, signal: AbortSignal, onBegin = () => {}): Promise<AppSandbox> {
    const { driver, appMemoryMb, logLevel } = this.#settings
    const ending = AbortSignal.any([signal, this.#stop.signal])
    const apiUrl = await within('the API to listen', LISTEN_MS, this.#settings.apiUrl, ending)
    const [env, code] = await Promise.all([this.#settings.environment(deployment), this.#settings.code(deployment)])
    const id = newId()
    return this.#starts.run(isUrgent, ending, () => {
      onBegin()
      return driver.apps.start({ id, code, runner: { id, kind: 'run', env, memoryMb: appMemoryMb, logLevel }, apiUrl }, ending)
    })
  }

  /** Does a step that the run cannot continue without. Retries while the database is away. */
  async #whileInTrouble<T>(run: Run, work: () => Promise<T>): Promise<T | undefined> {
    for (let waitMs = RETRY_FIRST_MS; ; waitMs = Math.min(RETRY_LAST_MS, waitMs * 2)) {
      try {
        return await work()
      } catch (error) {
        if (error instanceof Overtaken) {
          // Our own write may have succeeded before its connection broke.
          if (await this.#overtaken(run)) throw error
          return undefined
        }
        // A data error does not go away by a retry.
        if (run.signal.aborted || /^2[23]/.test((error as { code?: string }).code ?? '')) throw error
        this.#settings.log.warn({ err: error, invocation: run.id, waitMs }, 'a run waits for the database')
        await sleep(waitMs, run.signal)
      }
    }
  }

  async #fail(run: Run, error: unknown): Promise<void> {
    if (run.signal.aborted || error instanceof Overtaken) return
    this.#settings.log.warn({ err: error, invocation: run.id }, 'a run was interrupted')
    const reason = this.isStopping ? STOPPED : error instanceof BrokenOff ? error.message : 'something went wrong on our side'
    await this.end(run.id, failure(reason)).catch((err: unknown) => this.#complain(run.id, err))
  }

  // ---- its end ----

  /** Handles a run as ended if its row says so; false when it has not ended. */
  async #overtaken(run: Run): Promise<boolean> {
    const outcome = outcomeOf(await findInvocation(this.#settings.db, run.id))
    if (outcome) this.#close(run, outcome)
    return outcome !== undefined
  }

  /** The run has ended in the table. Waiters are told, and its resources are removed. Repeated calls are harmless. */
  #close(run: Run, outcome: Outcome): void {
    if (!this.#runs.delete(run.id)) return
    clearTimeout(this.#timers.get(run.id))
    this.#timers.delete(run.id)
    run.end(outcome)
    this.#cleanUp(run.id, run.deployment, run)
  }

  #cleanUp(id: string, deployment: string | undefined, run?: Run): void {
    const { endBrowsers, log } = this.#settings
    const removed = run?.release().catch((err: unknown) => log.error({ err, invocation: id }, 'the sandbox of a run could not be removed'))
    // The sweep retries.
    const browsers = endBrowsers(id).catch((err: unknown) => log.warn({ err, invocation: id }, 'the browsers of a run could not be ended yet'))
    const ending = Promise.all([removed, browsers])
      .then(() => (deployment === undefined ? undefined : this.#retire(deployment)))
      .finally(() => this.#ending.delete(id))
    this.#ending.set(id, ending)
  }

  async #retire(deployment: string): Promise<void> {
    await this.#settings.retire(deployment).then(
      () => this.#toRetire.delete(deployment),
      (err: unknown) => {
        this.#toRetire.add(deployment)
        this.#settings.log.warn({ err, deployment }, 'a deployment could not be checked after a run')
      },
    )
  }

  // ---- what was missed ----

  async #watch(): Promise<void> {
    for await (const _ of setInterval(SWEEP_MS, undefined, { signal: this.#stop.signal, ref: false }))
      await this.sweep().catch((err: unknown) => this.#settings.log.error({ err }, 'looking for overdue runs failed'))
  }

  /** Ends runs whose time limit has passed, that this process does not know, or that another caller has ended. Finishes unfinished ends. */
  async sweep(): Promise<void> {
    const { db, host, endBrowsersLeft } = this.#settings
    const held = [...this.#runs.values()]
    const rows = await unfinishedIds(db, host)
    for (const { id, timeout_seconds, overdue } of rows)
      if (overdue) await this.end(id, timedOut(timeout_seconds))
      else if (!this.#runs.has(id) && this.#unheld.has(id)) await this.end(id, failure(RESTARTED))
    // A row that is seen once may have just been inserted. When it is seen twice, this process missed its end or its begin.
    this.#unheld = new Set(rows.map(({ id }) => id).filter((id) => !this.#runs.has(id)))
    const listed = new Set(rows.map(({ id }) => id))
    for (const run of held.filter(({ id }) => !listed.has(id))) await this.#overtaken(run)
    await endBrowsersLeft()
    for (const deployment of this.#toRetire) await this.#retire(deployment)
    await this.#warm.sweep()
  }

  #complain(id: string, err: unknown): void {
    this.#settings.log.error({ err, invocation: id }, 'a run could not be ended yet')
  }
}

const timedOut = (seconds: number): Outcome => failure(`timed out after ${seconds} s`)
