// Ending browsers: the list of steps, recorded as it goes, tried until nothing is left, continued by the next service.
import { setImmediate } from 'node:timers/promises'
import { Notifier } from '../../../../base/notifier.ts'
import type { Log } from '../../../../base/log.ts'
import { within } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import type { EndReason, EndStep } from '../end-step.ts'
import { ended, moveBrowser } from '../lifecycle.ts'
import { endedStepsOf, recordEndedSteps, type LiveRow } from '../rows.ts'
import type { Registry } from './registry.ts'

/** Retries after a failed end: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000

/** An end in progress. Its state is in the row: `stopping` or `failed` until nothing is left, also across a restart. */
interface Ending {
  reason: EndReason
  /** The steps that are done; undefined until they have been read from the row of an end that another process began. */
  done: Set<string> | undefined
  /** Steps that have exceeded their limit and still run. The next attempt waits for them and does not begin them twice. */
  underWay: Map<string, Promise<void | 'nothing'>>
  /** The present attempt. Resolves with true when nothing is left. */
  attempt: Promise<boolean> | undefined
  /** Resolves when the steps that callers wait for are done, or the first attempt is over. */
  outOfUse: PromiseWithResolvers<void>
  /** When the sweep retries, by performance.now(). */
  retryAt: number
  retryMs: number
}

interface EndingsSettings {
  db: Db
  registry: Registry
  /** In the order in which they run. After the last one the row is closed. Asked once, when all modules are open. */
  steps: () => readonly EndStep[]
  /** Called when the steps are done that callers wait for. */
  onOutOfUse?: (id: string) => void
  /** Called when nothing is left of a browser. */
  onEnded?: (id: string, isPooled: boolean) => void
  log: Log
}

/** An attempt to end a browser. */
interface Begun {
  /** Resolves with true when nothing is left. */
  whole: Promise<boolean>
  outOfUse: Promise<void>
}

export class Endings {
  readonly #settings: EndingsSettings
  readonly #ending = new Map<string, Ending>()
  readonly #beginning = new Map<string, Promise<unknown>>()
  /** Notifies when an attempt is over. */
  readonly #over = new Notifier()

  #steps: readonly EndStep[] | undefined

  constructor(settings: EndingsSettings) {
    this.#settings = settings
  }

  /** @throws when two have the same name: what is recorded of one would count for the other */
  get steps(): readonly EndStep[] {
    if (this.#steps) return this.#steps
    const steps = this.#settings.steps()
    const names = steps.map(({ name }) => name)
    if (new Set(names).size < names.length) throw new Error(`two steps of an end have the same name: ${names.join(', ')}`)
    return (this.#steps = steps)
  }

  /** Begins an end, and resolves after its first attempt; false when there is no such browser, or it has ended. Repeated calls continue the same end. */
  async end(id: string, reason: EndReason): Promise<boolean> {
    const attempt = await this.#begin(id, reason)
    await attempt?.whole
    return attempt !== undefined
  }

  /** As {@link end}, but resolves when the browser is out of use: the steps are done that callers wait for, and the next service knows that it has to do the others. */
  async takeOut(id: string, reason: EndReason): Promise<boolean> {
    const attempt = await this.#begin(id, reason)
    await attempt?.outOfUse
    return attempt !== undefined
  }

  /** Ends under way. One that has failed and waits for its next attempt is not. */
  get underWay(): number {
    return [...this.#ending.values()].filter(({ attempt }) => attempt !== undefined).length
  }

  /** Resolves when the next attempt to end a browser is over, or rejects with the signal's reason. */
  over(signal: AbortSignal): Promise<void> {
    return this.#over.next(signal)
  }

  /** One after the other for each browser: the answer to a second statement may be handled before this process knows of the end that the first one has begun. */
  #begin(id: string, reason: EndReason): Promise<Begun | undefined> {
    const before = this.#beginning.get(id)
    const begun = (before ? before.catch(() => {}).then(() => this.#beginNow(id, reason)) : this.#beginNow(id, reason)).finally(() => {
      if (this.#beginning.get(id) === begun) this.#beginning.delete(id)
    })
    this.#beginning.set(id, begun)
    return begun
  }

  async #beginNow(id: string, reason: EndReason): Promise<Begun | undefined> {
    const isUnderWay = () => this.#ending.has(id)
    const before = isUnderWay() ? undefined : await moveBrowser(this.#settings.db, id, 'stopping', reason, ended(reason))
    if (before === undefined && !isUnderWay()) return undefined
    const whole = this.#attempt(id, reason, before !== undefined)
    return { whole, outOfUse: this.#ending.get(id)?.outOfUse.promise ?? Promise.resolve() }
  }

  /** Ends a browser that has ended by itself, unless its row has moved elsewhere. */
  async crashed(id: string, why: string, reason: EndReason): Promise<void> {
    const before = await moveBrowser(this.#settings.db, id, 'failed', why, ended(reason))
    if (before !== undefined) await this.#attempt(id, reason, before !== 'stopping')
  }

  /** Continues the end of a browser whose row says that it ends. Resolves after one attempt: with true when nothing is left. */
  resume(row: LiveRow, otherwise: EndReason): Promise<boolean> {
    return this.#attempt(row.id, reasonOf(row, otherwise), false)
  }

  /** Whether an end that its row tells of needs another attempt now. */
  isDue(id: string): boolean {
    const known = this.#ending.get(id)
    return !known || (!known.attempt && known.retryAt <= performance.now())
  }

  /** Resolves when no attempt is under way. */
  async settled(): Promise<void> {
    await Promise.all([...this.#ending.values()].map(async ({ attempt }) => attempt))
  }

  /** Closes the row of a browser whose instance is gone, or that never had one. */
  async close(id: string, reason: EndReason): Promise<void> {
    const { db } = this.#settings
    await moveBrowser(db, id, 'failed', reason, ended(reason))
    await this.#closeRow(id, reason)
  }

  #closeRow(id: string, reason: EndReason, done?: ReadonlySet<string>) {
    return moveBrowser(this.#settings.db, id, 'deleted', reason, { ...ended(reason), ...(done && { ended_steps: [...done] }) })
  }

  /** One attempt to end a browser whose row says so; otherwise the sweep retries. `isNew`: no step of it can have been done. */
  #attempt(id: string, reason: EndReason, isNew: boolean): Promise<boolean> {
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

  async #tryToEnd(id: string, ending: Ending): Promise<boolean> {
    const { db, registry, log } = this.#settings
    try {
      ending.done ??= new Set(await endedStepsOf(db, id))
      for (const step of this.steps) {
        if (step.isBehind) {
          this.#outOfUse(id, ending)
          // Their answer goes first: a step may begin with work that lets nothing else run, as looking through all processes.
          await setImmediate()
        }
        if (!ending.done.has(step.name)) await this.#take(step, id, ending, ending.done)
      }
      await this.#closeRow(id, ending.reason, ending.done)
    } catch (err) {
      log.error({ err, browser: id, retryMs: ending.retryMs }, 'a browser could not be ended yet')
      ending.retryAt = performance.now() + ending.retryMs
      ending.retryMs = Math.min(RETRY_LAST_MS, ending.retryMs * 2)
      return false
    }
    const isPooled = registry.isPooled(id)
    registry.remove(id)
    this.#ending.delete(id)
    this.#settings.onEnded?.(id, isPooled)
    return true
  }

  #outOfUse(id: string, { outOfUse }: Ending): void {
    outOfUse.resolve()
    this.#settings.onOutOfUse?.(id)
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
    // The last one is recorded when the row is closed, which is next.
    if (step === this.steps.at(-1)) return
    // Without the record the next service would repeat the step. That is no reason to keep what the following steps remove.
    await recordEndedSteps(db, id, [...done]).catch((err: unknown) => log.warn({ err, browser: id, step: step.name }, 'a step of an end could not be recorded'))
  }
}

/** Why a browser ends, by its row; `otherwise` for one that ended by itself. */
export const reasonOf = ({ state, end_reason }: LiveRow, otherwise: EndReason): EndReason =>
  (end_reason as EndReason | null) ?? (state === 'stopping' ? 'deleted' : otherwise)
