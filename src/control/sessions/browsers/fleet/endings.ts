// Ends browsers by a list of steps. Each finished step is recorded. The end is retried until nothing is left, and the next service continues it.
import { setImmediate } from 'node:timers/promises'
import { Mutexes } from '../../../../base/mutex.ts'
import { Notifier } from '../../../../base/notifier.ts'
import { within } from '../../../../base/wait.ts'
import type { Exit, Instance } from '../../../../instances/driver.ts'
import { teller, type Leases } from '../../../../store/leases.ts'
import type { EndReason, EndStep } from '../end-step.ts'
import { ended, moveBrowser } from '../lifecycle.ts'
import { endedStepsOf, recordEndedSteps, watcherOf, type LiveRow } from '../rows.ts'
import { endElsewhere, outOfUse } from './elsewhere.ts'
import { endAt } from './notices.ts'
import type { Registry, Standing } from './registry.ts'
import type { FleetSettings } from './settings.ts'

/** Limit on the text of why an instance ended, in the log and in the database: an agent may have written it. */
const MAX_REASON = 500

/** Retries after a failed end: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000

/** An end in progress. Its state is in the row, also across a restart: `stopping` or `failed` until nothing is left. */
interface Ending {
  reason: EndReason
  /** The finished steps; undefined until they have been read from the row, if another process began the end. */
  done: Set<string> | undefined
  /** Steps that have exceeded their limit and still run. The next attempt waits for them and does not start them twice. */
  underWay: Map<string, Promise<void | 'nothing'>>
  /** The current attempt. */
  attempt: Promise<void> | undefined
  /** Resolves when the steps that callers wait for are done, or the first attempt is over. */
  outOfUse: PromiseWithResolvers<void>
  /** Time of the next retry by the sweep (performance.now()). */
  retryAt: number
  retryMs: number
}

interface EndingsSettings extends Pick<FleetSettings, 'db' | 'registry' | 'notifier' | 'log'> {
  leases: Leases
  /** The steps in the order in which they run. After the last one the row is closed. Called once, when all modules are open. */
  endSteps: () => readonly EndStep[]
  /** Called when nothing is left of a browser. `isKept`: it waited for callers, or belonged to a pool. */
  onEnded: (isKept: boolean) => void
}

export class Endings {
  readonly #settings: EndingsSettings
  readonly #ending = new Map<string, Ending>()
  readonly #turns = new Mutexes()
  /** Notifies when an attempt is over. */
  readonly #over = new Notifier()

  readonly #tell: (text: string) => void
  readonly #look: (text: string) => void
  #steps: readonly EndStep[] | undefined

  constructor(settings: EndingsSettings) {
    this.#settings = settings
    const tell = teller(settings.leases, settings.log)
    this.#tell = (text) => tell('ended', text)
    this.#look = (text) => tell('look', text)
  }

  /** @throws when two steps have the same name: the record of one would count for the other */
  get steps(): readonly EndStep[] {
    if (this.#steps) return this.#steps
    const steps = this.#settings.endSteps()
    const names = steps.map(({ name }) => name)
    if (new Set(names).size < names.length) throw new Error(`two steps of an end have the same name: ${names.join(', ')}`)
    return (this.#steps = steps)
  }

  /**
   * Ends a browser, wherever it runs: runs the steps of an end, then closes its row. Resolves after the first attempt, or, unless `whole`, as soon as the
   * browser is out of use: no caller can reach it, its processes are signalled, and its row says that it ends, so that the next service continues. False when
   * there is no such browser, or it has ended. Repeated calls continue the same end. If a step fails, the browser keeps its seat, its row stays `stopping`, and
   * the sweep retries until nothing is left.
   */
  async end(id: string, reason: EndReason, whole = true): Promise<boolean> {
    const { db, registry, notifier, leases } = this.#settings
    const watcher = (await registry.isHere(id)) ? undefined : await watcherOf(db, id)
    if (notifier && watcher && watcher.replica !== leases.replica) return endElsewhere({ db, notifier, leases }, id, reason, whole)
    // One call at a time for each browser: the answer to a second statement may arrive before this process knows of the end that the first one began.
    const attempt = await this.#turns.run(id, () => this.#begin(id, reason))
    await (whole ? attempt?.whole : attempt?.outOfUse)
    return attempt !== undefined
  }

  /** Number of ends with a running attempt. Ends that have failed and wait for their retry do not count. */
  get underWay(): number {
    return [...this.#ending.values()].filter(({ attempt }) => attempt !== undefined).length
  }

  /** Resolves when the next attempt to end a browser is over, or rejects with the signal's reason. */
  over(signal: AbortSignal): Promise<void> {
    return this.#over.next(signal)
  }

  async #begin(id: string, reason: EndReason) {
    const isUnderWay = () => this.#ending.has(id)
    const before = isUnderWay() ? undefined : await moveBrowser(this.#settings.db, id, 'stopping', reason, ended(reason))
    if (before === undefined && !isUnderWay()) return undefined
    const whole = this.#attempt(id, reason, before !== undefined)
    return { whole, outOfUse: this.#ending.get(id)?.outOfUse.promise ?? Promise.resolve() }
  }

  /** Registers an instance and watches for its end. */
  keep(instance: Instance, standing: Standing): void {
    const { db, registry, leases, log } = this.#settings
    const { id } = instance
    registry.add(instance, standing)
    const onExit = async ({ reason: whole, limit, cause }: Exit) => {
      const why = whole.slice(0, MAX_REASON)
      const reason = limit ? (`${limit}_limit` as const) : (cause ?? 'crashed')
      const known = registry.known(id)
      if (!known?.instance || known.isEnding) return
      known.gone = { why, reason }
      // Another replica may have taken over this browser and ended it.
      const row = await watcherOf(db, id)
      if (row?.replica !== leases.replica) return registry.handOver(id)
      log.error({ browser: id, reason: why }, 'a browser ended by itself')
      await this.resume(row, reason)
    }
    // If this fails, the sweep tries again.
    void instance.exited.then(onExit).catch((err: unknown) => log.error({ err, browser: id }, 'cleaning up after a browser failed'))
  }

  /** Ends an instance whose row already says so, or asks its replica to. Resolves after the first attempt. */
  async endRow(row: LiveRow & { replica: string | null }): Promise<void> {
    const { registry, leases } = this.#settings
    if (row.replica !== leases.replica) return row.replica === null ? undefined : this.#look(endAt(row.replica, row.id))
    await registry.isHere(row.id)
    await this.resume(row, 'surplus')
  }

  /** Continues an end that another replica has begun, if this replica watches the browser. Resolves after one attempt. */
  async continue(id: string): Promise<void> {
    const { db, registry, leases } = this.#settings
    await registry.isHere(id)
    const row = leases.isAlive && this.isDue(id) ? await watcherOf(db, id) : undefined
    if (row?.state === 'stopping' && row.replica === leases.replica) await this.resume(row, 'crashed')
  }

  /** Ends a browser by its row: it has lost its instance, or its end has begun. Resolves after one attempt. `otherwise` is the reason if the row has none. */
  async resume(row: LiveRow, otherwise: EndReason): Promise<void> {
    const { db, registry } = this.#settings
    const gone = registry.known(row.id)?.gone
    const reason = reasonOf(row, gone?.reason ?? otherwise)
    if (row.state !== 'stopping' && row.state !== 'failed') await moveBrowser(db, row.id, 'failed', gone?.why ?? reason, ended(reason))
    await this.#attempt(row.id, reason, false)
  }

  /** Whether an unfinished end in a row needs another attempt now. */
  isDue(id: string): boolean {
    const known = this.#ending.get(id)
    return !known || (!known.attempt && known.retryAt <= performance.now())
  }

  /** Resolves when no attempt is under way. */
  async settled(): Promise<void> {
    await Promise.all([...this.#ending.values()].map(async ({ attempt }) => attempt))
  }

  /** Closes the row of a browser whose instance has ended or never existed. */
  async close(id: string, reason: EndReason): Promise<void> {
    const { db } = this.#settings
    await moveBrowser(db, id, 'failed', reason, ended(reason))
    await this.#closeRow(id, reason)
  }

  #closeRow(id: string, reason: EndReason, done?: ReadonlySet<string>) {
    return moveBrowser(this.#settings.db, id, 'deleted', reason, { ...ended(reason), ...(done && { ended_steps: [...done] }) })
  }

  /** One attempt to end a browser whose row says so; after a failure the sweep retries. `isNew`: no step can be done yet. */
  #attempt(id: string, reason: EndReason, isNew: boolean): Promise<void> {
    this.#settings.registry.beginEnd(id)
    const known = this.#ending.get(id)
    const begun = { done: undefined, underWay: new Map(), attempt: undefined, outOfUse: Promise.withResolvers<void>(), retryAt: 0, retryMs: RETRY_FIRST_MS }
    const ending: Ending = known ?? { reason, ...begun }
    if (isNew) ending.done ??= new Set()
    this.#ending.set(id, ending)
    const over = () => {
      ending.attempt = undefined
      ending.outOfUse.resolve()
      this.#over.notify()
    }
    return (ending.attempt ??= this.#tryToEnd(id, ending).finally(over))
  }

  async #tryToEnd(id: string, ending: Ending): Promise<void> {
    const { db, registry, log } = this.#settings
    try {
      ending.done ??= new Set(await endedStepsOf(db, id))
      for (const step of this.steps) {
        if (step.isBehind) {
          this.#outOfUse(id, ending)
          // Send the callers' answer first: the next step may block this process for a moment, for example while it searches all processes.
          await setImmediate()
        }
        if (!ending.done.has(step.name)) await this.#take(step, id, ending, ending.done)
      }
      await this.#closeRow(id, ending.reason, ending.done)
    } catch (err) {
      log.error({ err, browser: id, retryMs: ending.retryMs }, 'a browser could not be ended yet')
      ending.retryAt = performance.now() + ending.retryMs
      ending.retryMs = Math.min(RETRY_LAST_MS, ending.retryMs * 2)
      return
    }
    const known = registry.known(id)
    registry.remove(id)
    this.#ending.delete(id)
    this.#settings.onEnded(known !== undefined && (known.isReady || known.isPooled))
    this.#tell(id)
  }

  #outOfUse(id: string, ending: Ending): void {
    ending.outOfUse.resolve()
    this.#tell(outOfUse(id))
  }

  async #take(step: EndStep, id: string, ending: Ending, done: Set<string>): Promise<void> {
    const { db, log } = this.#settings
    const { reason, underWay } = ending
    try {
      const work = underWay.get(step.name) ?? step.run({ id, reason }, AbortSignal.timeout(step.limitMs), () => this.#outOfUse(id, ending))
      if (work === undefined) return void done.add(step.name)
      underWay.set(step.name, work)
      work.catch(() => underWay.delete(step.name))
      const found = await within(`the step "${step.name}" of an end`, step.limitMs, work)
      if (found === 'nothing') return void done.add(step.name)
    } catch (err) {
      if (!step.mayFail) throw err
      log.error({ err, browser: id, step: step.name }, 'a step of an end failed; the end continues without it')
    }
    done.add(step.name)
    // Closing the row, which comes next, also records the last step.
    if (step === this.steps.at(-1)) return
    // Without the record, the next service repeats the step, which is harmless. So a failed record does not stop the following steps.
    await recordEndedSteps(db, id, [...done]).catch((err: unknown) => log.warn({ err, browser: id, step: step.name }, 'a step of an end could not be recorded'))
  }
}

/** The reason for the end of a browser, by its row; `otherwise` for a browser that ended by itself. */
export const reasonOf = ({ state, end_reason }: LiveRow, otherwise: EndReason): EndReason =>
  (end_reason as EndReason | null) ?? (state === 'stopping' ? 'deleted' : otherwise)

/**
 * The step that kills the processes of the instance. A session is out of use after it. The next step waits until all of them have ended, and looks for
 * processes that were missed.
 */
export const killInstance = (registry: Registry): EndStep => ({
  name: 'kill',
  limitMs: 1_000,
  mayFail: true,
  run({ id }) {
    registry.get(id)?.kill()
    return undefined
  },
})

/** The step that ends the instance itself. Its driver has its own time limits, which are shorter than this one. */
export const removeInstance = (registry: Registry): EndStep => ({
  name: 'instance',
  limitMs: 60_000,
  mayFail: false,
  isBehind: true,
  run({ id }) {
    const instance = registry.get(id)
    return instance === undefined ? undefined : Promise.resolve(instance[Symbol.asyncDispose]())
  },
})
