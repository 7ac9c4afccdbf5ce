// The runs that this replica follows, each in its own sandbox until the end, including runs taken over from a replica that has ended. Does not handle requests.
import { setImmediate as turnOfLoop, setInterval } from 'node:timers/promises'
import type { RawBuilder, SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { AppCode, AppSandbox, Driver } from '../../../instances/driver.ts'
import type { RunnerEvent } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import type { EventNotifier } from '../../../store/events.ts'
import { followEvents } from '../apps/app-events.ts'
import { alone, type Leases } from '../../../store/leases.ts'
import { acknowledge, paced } from '../apps/runner-events.ts'
import { removeUnused, takeOver } from './adoption.ts'
import { endColumns, failure, followedBy, Overtaken, writeRest, type LogLimits } from './run-events.ts'
import { invocationLifecycle, moveInvocation, type InvocationState } from './lifecycle.ts'
import { findInvocation, followedRuns, outcomeOf, placeOf, positionOf, sandboxesOfRuns, unfinishedOf, type InvocationRow, type Outcome } from './rows.ts'
import { BrokenOff, Run } from './open-run.ts'
import { RunSandboxes } from './sandboxes.ts'
import { RunSeats, type RunSeatsSettings } from './seats.ts'
import type { WarmRunners } from './warm.ts'

/** Interval of looking for runs whose end was missed, and for unfinished ends. */
const SWEEP_MS = 5_000
/** Interval of looking for runs of dead replicas. */
const TAKE_OVER_MS = 1_000
/** Retries of a statement that failed because of the database: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 200
const RETRY_LAST_MS = 5_000

const RESTARTED = 'the service was restarted and the run was lost'
const STOPPED = 'the service was stopped'

export interface RunsSettings extends Pick<RunSeatsSettings, 'projectSeats'> {
  db: Db
  notifier: EventNotifier
  driver: Driver
  scope: string
  /** The replicas that share this scope. None unless given. */
  leases?: Leases
  /** The address of the API. Sandboxes are started once it is known. */
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
  /** The sandboxes of builds. */
  building: () => Promise<ReadonlySet<string>>
  /** Ends the browsers of a run. */
  endBrowsers: (invocation: string) => Promise<void>
  /** Ends the browsers of all runs that have ended. */
  endBrowsersLeft: () => Promise<void>
}

export class Runs {
  readonly #settings: RunsSettings
  readonly #leases: Leases
  readonly #sandboxes: RunSandboxes
  readonly #warm: WarmRunners
  readonly #runs = new Map<string, Run>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Ended runs whose cleanup is in progress. */
  readonly #ending = new Map<string, Promise<void>>()
  readonly #toRetire = new Set<string>()
  readonly #stop = new AbortController()
  /** Room for new runs. */
  readonly seats: RunSeats
  /** Rows that this process did not know at the last sweep. */
  #unheld = new Set<string>()
  /** Runs that are being taken over. */
  readonly #taking = new Set<string>()

  constructor(settings: RunsSettings) {
    this.#settings = settings
    this.#leases = settings.leases ?? alone(newId())
    this.seats = new RunSeats({ ...settings, leases: this.#leases, running: () => this.#runs.size })
    this.#sandboxes = new RunSandboxes({ ...settings, stopping: this.#stop.signal })
    this.#warm = this.#sandboxes.warm
    this.#watch(SWEEP_MS, () => this.sweep()).catch(() => {}) // ends only by its signal
    const deaths = this.#leases.deaths()
    const look = async () => {
      if (deaths.isLookDue()) await this.#lookAfterDead().catch((err: unknown) => (deaths.lookAgain(), Promise.reject(err)))
    }
    this.#watch(TAKE_OVER_MS, look).catch(() => {})
  }

  get isStopping(): boolean {
    return this.#stop.signal.aborted
  }

  /** The id of the replica for new rows. */
  get replica(): string {
    return this.#leases.replica
  }

  /** Starts a run whose row has been inserted. */
  begin(row: InvocationRow): Run {
    return this.#add(row, undefined)
  }

  /** The result of a run, also when another process follows it. */
  async ended(row: InvocationRow, signal: AbortSignal): Promise<Outcome> {
    const run = this.#runs.get(row.id)
    if (run) return run.ended
    return outcomeOf(row) ?? this.#endElsewhere(row.id, row.deployment_id, signal)
  }

  async #endElsewhere(id: string, deployment: string, signal: AbortSignal): Promise<Outcome> {
    const { db, notifier } = this.#settings
    for await (const events of followEvents(db, notifier, { invocation: id, deployment }, 0, signal))
      if (events.some(({ kind, state }) => kind === 'state' && invocationLifecycle.isTerminal(state as InvocationState))) break
    return outcomeOf(await findInvocation(db, id)) ?? failure('it could not be followed to its end')
  }

  /** Ends a run from outside, while the condition `only` holds; false when it had already ended. Resolves when its sandbox and browsers are removed. */
  async end(id: string, outcome: Outcome, only?: RawBuilder<SqlBool>): Promise<boolean> {
    const { db } = this.#settings
    const moved = await moveInvocation(db, id, outcome.state, outcome.reason, endColumns(outcome), only)
    const run = this.#runs.get(id)
    if (run && moved) this.#close(run, outcome)
    else if (run) await this.#overtaken(run)
    else if (moved) {
      const place = await placeOf(db, id)
      this.#cleanUp(id, place?.deployment_id)
      // The replica that follows the run has its sandbox.
      if (place?.replica && place.replica !== this.#leases.replica) await this.#leases.tell('look', place.replica)
    }
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
    // Replaced deployments need no warm sandboxes any more.
    void this.#warm.sweep().catch((err: unknown) => this.#settings.log.warn({ err }, 'checking the warm sandboxes failed'))
  }

  /**
   * After a start: continues the runs of services that have ended, starts queued ones, and ends the rest. Removes sandboxes that belong to no run, no build and
   * no living replica.
   */
  async adopt(): Promise<void> {
    await this.#takeOver()
    await this.#removeUnused()
  }

  /** Removes the warm sandboxes of killed services, and those of runs that have ended. */
  async #removeUnused(): Promise<void> {
    const { db, scope, driver } = this.#settings
    // Read the sandboxes before the rows: a sandbox exists before a row names it.
    const found = await driver.apps.found()
    const used = await sandboxesOfRuns(db, scope)
    const building = await this.#settings.building()
    const isUsed = (id: string) => used.has(id) || building.has(id) || [...this.#runs.values()].some((run) => run.sandbox === id)
    await removeUnused(found, isUsed, { ...this.#settings, leases: this.#leases })
  }

  async #lookAfterDead(): Promise<void> {
    await this.#takeOver()
    if (this.#leases.holds('runs')) await this.#removeUnused()
  }

  async #takeOver(): Promise<void> {
    if (!this.#leases.mayTakeOver) return
    await takeOver({
      ...this.#settings,
      leases: this.#leases,
      taking: this.#taking,
      isKnown: (id) => this.#runs.has(id),
      add: (row, instance) => void this.#add(row, instance),
      lost: (id) => this.#endOwn(id, failure(RESTARTED)),
    })
  }

  /** Handles a notice of another replica. */
  onNotice(text: string): void {
    if (text === this.#leases.replica) void this.#drop().catch((err: unknown) => this.#settings.log.warn({ err }, 'looking for ended runs failed'))
  }

  /**
   * Ends every run, even when the database is not available: the next start then finds them lost. Runs that are handed over continue: other replicas or the
   * next start take them over.
   */
  async stop(): Promise<void> {
    this.#stop.abort(new Error(STOPPED))
    if (this.#leases.handsOver) {
      for (const run of this.#runs.values()) this.#letGoOf(run)
      await Promise.all([this.#warm.stop(), ...this.#ending.values()])
      return
    }
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
    run.isRecorded = instance !== undefined
    this.#runs.set(run.id, run)
    const onDue = () => void this.end(run.id, timedOut(run.timeoutSeconds)).catch((err: unknown) => this.#complain(run.id, err))
    this.#timers.set(run.id, setTimeout(onDue, Math.max(0, run.due - Date.now())))
    this.#go(run, row.runner_seq, instance).catch((err: unknown) => this.#fail(run, err))
    return run
  }

  async #go(run: Run, seq: number, adopted: AppSandbox | undefined): Promise<void> {
    const begins = async (sandbox: string) => {
      const { db } = this.#settings
      // Set this before the row names the sandbox: if this replica leaves the run meanwhile, another one may already have found the sandbox in the row.
      run.isRecorded = true
      await this.#whileInTrouble(run, async () => {
        if (await moveInvocation(db, run.id, 'running', null, { runner_id: sandbox }, followedBy(this.replica))) return
        const row = await positionOf(db, run.id)
        // Our own write may have succeeded before its connection broke.
        if (row?.finished_at === null && row.runner_id === sandbox) return
        run.isRecorded = false
        if (row?.finished_at === null) this.#letGoOf(run)
        throw new Overtaken()
      })
    }
    const { instance, said } = adopted ? await this.#sandboxes.resume(run, seq, adopted) : await this.#sandboxes.obtain(run, begins)
    for await (const events of paced(said)) {
      const outcome = await this.#whileInTrouble(run, () => this.#write(run, events))
      if (outcome) return this.#close(run, outcome)
      // An error here is ignored: a sandbox that has ended meanwhile may have sent more events before. The loop continues: its events tell how the run ended.
      await acknowledge(instance.runner, events.at(-1)!.seq, run.signal)
    }
    throw new BrokenOff('it ended without a result')
  }

  #write(run: Run, events: RunnerEvent[]): Promise<Outcome | undefined> {
    const { db, logLimits } = this.#settings
    return writeRest(db, run, events, logLimits, this.#leases.replica, () => this.#letGoOf(run))
  }

  /** Runs a step that the run needs in order to continue. Retries while the database is away. */
  async #whileInTrouble<T>(run: Run, work: () => Promise<T>): Promise<T> {
    for (let waitMs = RETRY_FIRST_MS; ; waitMs = Math.min(RETRY_LAST_MS, waitMs * 2)) {
      try {
        return await work()
      } catch (error) {
        if (error instanceof Overtaken) {
          if (!run.signal.aborted) await this.#overtaken(run)
          throw error
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
    await this.#endOwn(run.id, failure(reason)).catch((err: unknown) => this.#complain(run.id, err))
  }

  // ---- its end ----

  /** Ends a run that this replica cannot continue. If another replica follows it by now, it continues there. */
  #endOwn(id: string, outcome: Outcome): Promise<boolean> {
    return this.end(id, outcome, followedBy(this.#leases.replica))
  }

  /** Handles a run by its row: it has ended, or another replica has taken it over. Then it is only left, and not ended. */
  async #overtaken(run: Run): Promise<void> {
    const row = await findInvocation(this.#settings.db, run.id)
    const outcome = outcomeOf(row)
    if (outcome) return this.#close(run, outcome)
    if (row?.replica === this.#leases.replica) return
    this.#settings.log.warn({ invocation: run.id }, 'another replica has taken over a run')
    this.#letGoOf(run)
  }

  /** The run has ended in the table. Answers waiters and removes its resources. Repeated calls are harmless. */
  #close(run: Run, outcome: Outcome): void {
    if (!this.#runs.delete(run.id)) return
    clearTimeout(this.#timers.get(run.id))
    this.#timers.delete(run.id)
    run.end(outcome)
    this.#cleanUp(run.id, run.deployment, run)
  }

  #letGoOf(run: Run): void {
    this.#runs.delete(run.id)
    clearTimeout(this.#timers.get(run.id))
    this.#timers.delete(run.id)
    run.leave(
      this.isStopping ? Promise.reject(fault.unavailable(`${STOPPED}; the run goes on`)) : this.#endElsewhere(run.id, run.deployment, this.#stop.signal),
    )
  }

  #cleanUp(id: string, deployment: string | undefined, run?: Run): void {
    const ending = this.#remove(id, deployment, run).finally(() => this.#ending.delete(id))
    this.#ending.set(id, ending)
  }

  async #remove(id: string, deployment: string | undefined, run: Run | undefined): Promise<void> {
    const { endBrowsers, log } = this.#settings
    // Waiters get their answers first.
    await turnOfLoop()
    const removed = run?.release().catch((err: unknown) => log.error({ err, invocation: id }, 'the sandbox of a run could not be removed'))
    // The sweep retries.
    const browsers = endBrowsers(id).catch((err: unknown) => log.warn({ err, invocation: id }, 'the browsers of a run could not be ended yet'))
    await Promise.all([removed, browsers])
    if (deployment !== undefined) await this.#retire(deployment)
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

  async #watch(everyMs: number, look: () => Promise<void>): Promise<void> {
    for await (const _ of setInterval(everyMs, undefined, { signal: this.#stop.signal, ref: false }))
      await look().catch((err: unknown) => this.#stop.signal.aborted || this.#settings.log.error({ err }, 'looking for overdue runs failed'))
  }

  /** Handles runs whose rows say that they have ended, or were taken over. Returns the rows that this replica follows. */
  async #drop(): Promise<Awaited<ReturnType<typeof followedRuns>>> {
    const { db, scope } = this.#settings
    const held = [...this.#runs.values()]
    const rows = await followedRuns(db, scope, this.#leases.replica)
    const listed = new Set(rows.map(({ id }) => id))
    for (const run of held.filter(({ id }) => !listed.has(id))) await this.#overtaken(run)
    return rows
  }

  /** Follows a run whose takeover was interrupted, if its sandbox is alive. */
  async #find(id: string): Promise<boolean> {
    const { db, driver } = this.#settings
    const row = await findInvocation(db, id)
    const instance = row?.state === 'running' && row.runner_id !== null ? await driver.apps.adopt(row.runner_id) : undefined
    if (row && instance) this.#add(row, instance)
    return instance !== undefined
  }

  /** Ends runs whose time limit has passed, that this process does not know, or that another caller has ended. Retries unfinished ends. */
  async sweep(): Promise<void> {
    const { endBrowsersLeft } = this.#settings
    if (!this.#leases.isAlive) return
    const rows = await this.#drop()
    for (const { id, timeout_seconds, overdue } of rows)
      if (overdue) await this.end(id, timedOut(timeout_seconds))
      else if (!this.#runs.has(id) && !this.#taking.has(id) && this.#unheld.has(id) && !(await this.#find(id))) await this.#endOwn(id, failure(RESTARTED))
    // A row that is seen once may just have been inserted. If it is seen twice, this process missed its end or its start.
    this.#unheld = new Set(rows.map(({ id }) => id).filter((id) => !this.#runs.has(id)))
    if (this.#leases.holds('runs')) await endBrowsersLeft()
    for (const deployment of this.#toRetire) await this.#retire(deployment)
    await this.#warm.sweep()
  }

  #complain(id: string, err: unknown): void {
    this.#settings.log.error({ err, invocation: id }, 'a run could not be ended yet')
  }
}

const timedOut = (seconds: number): Outcome => failure(`timed out after ${seconds} s`)
