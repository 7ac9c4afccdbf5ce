// The callers who wait for an instance of one pool, in their order, and the boots that serve them.
import { addAbortListener } from 'node:events'
import type { Slots } from '../../../../base/slots.ts'

/** The result for a caller. `wasReady`: an instance was ready before the caller asked. */
export interface Waited<T> {
  taken: T
  wasReady: boolean
}

interface Waiting {
  /** Looks for an instance for the caller. False when there is none now; otherwise the caller has left the queue. */
  look: () => Promise<boolean>
  /** Ends its wait with an error. A look that is under way comes first: if it finds an instance, the caller gets that one. */
  fail: (error: unknown) => void
  /** Aborts when the caller's time limit is reached. */
  late: AbortSignal | undefined
  /** True while no look has found the pool empty since the caller came. */
  wasReady: boolean
}

interface WaitQueueSettings {
  /** Boots an instance; false when there is no room for it. `wanted` resolves when a caller waits for it. `turn`: the slot of a boot for which no caller waits yet. */
  boot: (wanted: Promise<void>, turn: Disposable | undefined) => Promise<boolean>
  /** For how many more boots there is room. Without room, callers wait until others give browsers back. */
  room: (booting: number) => number
  /** Called when callers wait and no instance is ready. */
  onEmpty: () => void
  /** Called when a caller has left the queue, with an instance or without. */
  onLeave: () => void
  /** Called when a boot for a caller has ended. */
  onOver: () => void
  /** Boot slots of this service. */
  starts: Slots
  /** Aborts when the service stops. */
  signal: AbortSignal
}

export class WaitQueue {
  readonly #settings: WaitQueueSettings
  readonly #waiting: Waiting[] = []
  /** The current look for an instance, for one caller at a time. */
  #looking: Promise<void> | undefined
  /** Whether an instance may have become ready since the last look began. */
  #hasNews = false
  /** Whether the last look found nothing for the first caller and no instance has become ready since. */
  #isEmpty = false
  /** One function for each running boot, oldest first. Calling it tells the boot that a caller waits for it. */
  readonly #running: (() => void)[] = []
  /** Boots for callers that wait for a slot. */
  readonly #queued = new Set<symbol>()
  /** Errors of boots that callers waited for: at most one for each caller. */
  #failures: unknown[] = []
  readonly #work = new Set<Promise<unknown>>()

  constructor(settings: WaitQueueSettings) {
    this.#settings = settings
  }

  /** Number of waiting callers, including one whose look is under way. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Boots under way. */
  get booting(): number {
    return this.#running.length
  }

  /** Waiting callers for whom a boot is running or could start. */
  get hopeful(): number {
    return Math.min(this.waiting, this.booting + this.#settings.room(this.booting))
  }

  /**
   * Waits in the queue for an instance that `take` finds. `take` runs for one caller at a time and resolves with undefined when none is ready. The queue then
   * boots instances, and callers get them in the order of arrival. A boot continues when its caller leaves. When `late` aborts, the caller still looks once, in
   * its turn. @throws the reasons of the signals; errors of `take`; the error of a failed boot, when no other boot can serve the first caller
   */
  async wait<T>(take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    const { promise, resolve, reject } = Promise.withResolvers<Waited<T>>()
    let isLooking = false
    let failure: { error: unknown } | undefined
    const leave = (): boolean => {
      this.#waiting.splice(this.#waiting.indexOf(self), 1)
      this.#failures.length = Math.min(this.#failures.length, this.#waiting.length)
      this.#settings.onLeave()
      return true
    }
    const fail = (error: unknown) => {
      failure ??= { error }
      if (isLooking || !this.#waiting.includes(self)) return
      const wasFirst = this.#waiting[0] === self
      leave()
      reject(failure.error)
      // An instance may be ready for the next caller, who wants another one.
      if (wasFirst) this.lookAgain()
    }
    const look = async () => {
      isLooking = true
      try {
        const taken = await take()
        if (taken !== undefined) resolve({ taken, wasReady: self.wasReady })
        else if (failure) reject(failure.error)
        else return false
      } catch (error) {
        reject(error)
      } finally {
        isLooking = false
      }
      return leave()
    }
    const self: Waiting = { look, fail, late, wasReady: !this.#isEmpty }
    this.#waiting.push(self)
    using _left = addAbortListener(signal, () => fail(signal.reason))
    using _stopped = addAbortListener(this.#settings.signal, () => fail(this.#settings.signal.reason))
    using _late = late && addAbortListener(late, () => this.#dismissLate())
    if (this.#isEmpty) this.#serve()
    else this.lookAgain()
    return await promise
  }

  /**
   * Boots an instance for which no caller waits yet, in the slot `turn`. False when there is no room for it. A caller who comes during the boot can get it. @throws the error of the
   * boot
   */
  async refill(turn: Disposable): Promise<boolean> {
    try {
      return await this.#boot(turn)
    } finally {
      this.#serve()
    }
  }

  /** Callers of another queue wait for the slots of this queue's boots: these get normal CPU priority so that they end soon. */
  hurry(): void {
    for (const hurry of this.#running) hurry()
  }

  /** An instance may be ready: looks for the callers in their order. */
  lookAgain(): void {
    this.#hasNews = true
    this.#isEmpty = false
    this.#looking ??= this.#look()
  }

  /** The pool was deleted: all waiting callers get this error. */
  close(error: unknown): void {
    for (const { fail } of this.#waiting.slice()) fail(error)
  }

  /** Resolves when no boot for a caller is under way. For use after the signal has aborted. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.allSettled(this.#work)
  }

  async #look(): Promise<void> {
    await Promise.resolve() // the caller of this method sets #looking first
    while (this.#hasNews) {
      this.#hasNews = false
      while (this.#waiting[0] && (await this.#waiting[0].look()));
      for (const waiting of this.#waiting) waiting.wasReady = false
    }
    this.#looking = undefined
    this.#isEmpty = this.#waiting.length > 0
    this.#serve()
  }

  /** No instance is ready: ends the waits of late callers. Boots for the others, or gives them the errors of failed boots. */
  #serve(): void {
    this.#dismissLate()
    if (!this.#isEmpty || this.#waiting.length === 0) return
    this.#settings.onEmpty()
    for (const hurry of this.#running.slice(0, this.#waiting.length)) hurry()
    while (this.#waiting.length > this.#served + this.#queued.size && this.#settings.room(this.booting) > this.#queued.size) {
      const work = this.#bootForCaller()
      this.#work.add(work)
      void work.finally(() => this.#work.delete(work))
    }
    // Callers get errors only when no boot is left that could serve them.
    if (this.#running.length + this.#queued.size === 0) for (const error of this.#failures.splice(0)) this.#waiting[0]?.fail(error)
  }

  /** Number of callers for whom a boot is running, or has failed. */
  get #served(): number {
    return this.#running.length + this.#failures.length
  }

  async #bootForCaller(): Promise<void> {
    const { starts, signal, onOver } = this.#settings
    const queued = Symbol('a boot for a caller')
    this.#queued.add(queued)
    const work = async () => {
      // The current look may find an instance for the caller.
      while (this.#looking) await this.#looking
      this.#queued.delete(queued)
      // If the count is smaller, the caller has left or has got another instance.
      if (this.#waiting.length > this.#served) await this.#boot(undefined)
    }
    try {
      await starts.run(work, signal, true)
    } catch (error) {
      if (this.#waiting.length > this.#failures.length) this.#failures.push(error)
    } finally {
      this.#queued.delete(queued)
      this.#serve()
      onOver()
    }
  }

  async #boot(turn: Disposable | undefined): Promise<boolean> {
    const { promise: wanted, resolve: hurry } = Promise.withResolvers<void>()
    this.#running.push(hurry)
    if (!turn) hurry()
    try {
      if (!(await this.#settings.boot(wanted, turn))) return false
    } finally {
      this.#running.splice(this.#running.indexOf(hurry), 1)
    }
    this.lookAgain()
    return true
  }

  /** Ends the waits of late callers, but only when the last look has found nothing. */
  #dismissLate(): void {
    if (!this.#isEmpty) return
    for (const { late, fail } of this.#waiting.slice()) if (late?.aborted) fail(late.reason)
  }
}
