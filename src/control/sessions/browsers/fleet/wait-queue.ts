// The callers who wait for an instance of one kind, in their order, and the boots that serve them.
import { addAbortListener } from 'node:events'
import { abortable } from '../../../../base/wait.ts'
import type { Slots } from '../../../../base/slots.ts'

interface Waiting {
  /** Wakes it to look at the warm pool again. */
  look: () => void
  /** Ends its wait: no boot can serve it. */
  fail: (error: unknown) => void
  /** When it has no more time. */
  late: AbortSignal | undefined
}

/** What a caller has waited for. `wasReady`: it was ready before the caller asked. */
export interface Waited<T> {
  taken: T
  wasReady: boolean
}

interface WaitQueueSettings {
  /** Boots one for the warm pool; false when there is no room for one. `wanted` resolves when a caller waits for it; `isAwaited`: one has waited before. */
  boot: (isAwaited: boolean, wanted: Promise<void>) => Promise<boolean>
  /** For how many more boots there is room. Callers for whom there is none wait for what others give back. */
  room: (booting: number) => number
  /** A caller goes to sleep. */
  onSleep: () => void
  /** A boot that a caller had waited for is over. */
  onOver: () => void
  /** Has the turns of all boots of this service. */
  starts: Slots
  /** Aborts when the service stops. */
  signal: AbortSignal
}

/** A caller may be found out of place while nobody waits for this promise. */
function madeAwake(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>()
  made.promise.catch(() => {})
  return made
}

export class WaitQueue {
  readonly #settings: WaitQueueSettings
  readonly #waiting: Waiting[] = []
  /** The first caller has found nothing in the warm pool, and sleeps. */
  #isFirstAsleep = false
  /** How often the warm pool was found empty. */
  #vain = 0
  /** Boots under way, oldest first; each is called when a caller waits for it. */
  readonly #running: (() => void)[] = []
  /** Boots for callers that wait for their turn. */
  #queued = 0
  /** Boots that have come up since the first caller has looked at the warm pool. */
  #fresh = 0
  /** Resolves when the first caller has looked for what came from elsewhere, while it does so. */
  #looking: PromiseWithResolvers<void> | undefined
  /** Why boots failed that callers wait for. Never more than there are callers. */
  #failures: unknown[] = []
  readonly #work = new Set<Promise<unknown>>()

  constructor(settings: WaitQueueSettings) {
    this.#settings = settings
  }

  /** Callers who wait, those included who look at the warm pool just now. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Boots under way. */
  get booting(): number {
    return this.#running.length
  }

  /** Callers who wait and for whom a boot is under way, or may be begun. */
  get hopeful(): number {
    return Math.min(this.waiting, this.booting + this.#settings.room(this.booting))
  }

  /**
   * Waits in the queue for what `take` finds; `take` is called by one caller at a time, and undefined means that there is nothing now. Then the caller gets the boot that is
   * ready next, first come, first served. A boot goes on when its caller leaves. After `late` it waits no longer, but for its turn to look at what is there. @throws the reasons
   * of the signals; what `take` throws; the error of a failed boot, when no boot is left that could serve the first caller
   */
  async wait<T>(take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    let awake = madeAwake()
    // It may have been woken to look once more: then it finds this after it.
    let failure: { error: unknown } | undefined
    const fail = (error: unknown) => {
      failure ??= { error }
      awake.reject(error)
    }
    const self: Waiting = { look: () => awake.resolve(), fail, late }
    this.#waiting.push(self)
    using _late = late && addAbortListener(late, () => this.#dismissLate())
    const sleep = () => {
      this.#settings.onSleep()
      return abortable(abortable(awake.promise, signal), this.#settings.signal)
    }
    // While the first caller sleeps, the warm pool is known to be empty.
    const foundEmpty = this.#isFirstAsleep ? -1 : this.#vain
    try {
      if (this.#waiting[0] !== self) {
        if (this.#isFirstAsleep && !late?.aborted) this.#bootForCallers()
        await sleep()
      }
      for (;;) {
        if (failure) throw failure.error
        // One that looks is not asleep, whatever wakes or fails it meanwhile.
        this.#isFirstAsleep = false
        awake = madeAwake()
        const fresh = this.#fresh
        const taken = await take()
        this.#fresh = Math.max(0, taken === undefined ? this.#fresh - fresh : this.#fresh - 1)
        if (taken !== undefined) return { taken, wasReady: this.#vain === foundEmpty }
        this.#vain++
        this.#isFirstAsleep = this.#fresh === 0
        this.#hasLooked()
        this.#dismissLate()
        this.#bootForCallers()
        this.#settle()
        if (this.#fresh === 0) await sleep()
      }
    } finally {
      this.#leave(self)
    }
  }

  /**
   * Boots one that no caller waits for yet, in a turn that the caller of this method has; false when there is no room for one. It counts for callers who come meanwhile. @throws when it
   * does not come up
   */
  async refill(): Promise<boolean> {
    try {
      return await this.#boot(false)
    } finally {
      if (this.#isFirstAsleep) this.#bootForCallers()
      this.#settle()
    }
  }

  /** Callers of another queue wait for the turns that boots of this one have. */
  hurry(): void {
    for (const hurry of this.#running) hurry()
  }

  /** Something may be in the warm pool that was not booted here. */
  lookAgain(): void {
    if (this.#waiting.length > 0) this.#looking ??= Promise.withResolvers()
    this.#wakeFirst()
  }

  /** Nothing comes any more: those who wait get this error. */
  close(error: unknown): void {
    for (const { fail } of this.#waiting) fail(error)
  }

  /** Resolves when no boot for a caller is under way. For use after the signal has aborted. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.allSettled(this.#work)
  }

  /** Callers for whom a boot is under way, or has just come up, or has failed. */
  get #served(): number {
    return this.#running.length + this.#fresh + this.#failures.length
  }

  #bootForCallers(): void {
    for (const hurry of this.#running.slice(0, Math.max(0, this.#waiting.length - this.#fresh))) hurry()
    while (this.#waiting.length > this.#served + this.#queued && this.#settings.room(this.booting) > this.#queued) {
      const work = this.#bootForCaller()
      this.#work.add(work)
      void work.finally(() => this.#work.delete(work))
    }
  }

  async #bootForCaller(): Promise<void> {
    const { starts, signal } = this.#settings
    this.#queued++
    let isQueued = true
    const leaveQueue = () => {
      if (isQueued) this.#queued--
      isQueued = false
    }
    const work = async () => {
      // What came from elsewhere may serve the caller, who is looking for it just now.
      await this.#looking?.promise
      leaveQueue()
      // The caller has left, or another boot has served it.
      if (this.#waiting.length > this.#served) await this.#boot(true)
    }
    try {
      await starts.run(work, signal, true)
    } catch (error) {
      if (this.#waiting.length > this.#failures.length) this.#failures.push(error)
    } finally {
      leaveQueue()
      if (this.#isFirstAsleep) this.#bootForCallers()
      this.#settle()
      this.#settings.onOver()
    }
  }

  async #boot(isAwaited: boolean): Promise<boolean> {
    const { promise: wanted, resolve: hurry } = Promise.withResolvers<void>()
    this.#running.push(hurry)
    if (isAwaited) hurry()
    try {
      if (!(await this.#settings.boot(isAwaited, wanted))) return false
      this.#fresh++
    } finally {
      this.#running.splice(this.#running.indexOf(hurry), 1)
    }
    this.#wakeFirst()
    if (this.#waiting.length === 0) this.#fresh = 0
    return true
  }

  #hasLooked(): void {
    this.#looking?.resolve()
    this.#looking = undefined
  }

  #wakeFirst(): void {
    this.#isFirstAsleep = false
    this.#waiting[0]?.look()
  }

  /** Ends the waits of those who have no more time, when it is known that there is nothing for them. */
  #dismissLate(): void {
    if (!this.#isFirstAsleep) return
    const [first] = this.#waiting
    for (const one of this.#waiting.filter(({ late }) => late?.aborted)) {
      this.#waiting.splice(this.#waiting.indexOf(one), 1)
      one.fail(one.late!.reason)
    }
    if (this.#waiting[0] !== first) this.#wakeFirst()
  }

  /** Lets callers know of failed boots when no other boot can serve them. */
  #settle(): void {
    if (!this.#isFirstAsleep || this.#running.length + this.#queued + this.#fresh > 0) return
    const failed = this.#failures.splice(0)
    for (const error of failed) this.#waiting.shift()?.fail(error)
    if (failed.length > 0) this.#wakeFirst()
  }

  #leave(self: Waiting): void {
    const at = this.#waiting.indexOf(self)
    if (at !== -1) this.#waiting.splice(at, 1)
    this.#failures.length = Math.min(this.#failures.length, this.#waiting.length)
    if (this.#waiting.length === 0) this.#fresh = 0
    if (at !== 0) return
    this.#hasLooked()
    this.#wakeFirst()
  }
}
