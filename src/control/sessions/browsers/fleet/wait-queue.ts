// The callers who wait for an instance of one pool, in their order, and the boots that serve them.
import { addAbortListener } from 'node:events'
import type { Slots } from '../../../../base/slots.ts'

/** What a caller has waited for. `wasReady`: it was ready before the caller asked. */
export interface Waited<T> {
  taken: T
  wasReady: boolean
}

interface Waiting {
  /** Looks for what the caller wants; false when there is nothing now. Otherwise the caller has left the queue. */
  look: () => Promise<boolean>
  /** Ends its wait. One that looks just now ends it when that finds nothing. */
  fail: (error: unknown) => void
  /** When it has no more time. */
  late: AbortSignal | undefined
  /** Nothing was missing since it came. */
  wasReady: boolean
}

interface WaitQueueSettings {
  /** Boots one; false when there is no room for it. `wanted` resolves when a caller waits for it; `turn`: of a boot that none waits for yet. */
  boot: (wanted: Promise<void>, turn: Disposable | undefined) => Promise<boolean>
  /** For how many more boots there is room. Callers for whom there is none wait for what others give back. */
  room: (booting: number) => number
  /** Callers wait, and there is nothing for them. */
  onEmpty: () => void
  /** A boot that a caller had waited for is over. */
  onOver: () => void
  /** Has the turns of all boots of this service. */
  starts: Slots
  /** Aborts when the service stops. */
  signal: AbortSignal
}

export class WaitQueue {
  readonly #settings: WaitQueueSettings
  readonly #waiting: Waiting[] = []
  /** Looking for the callers, one after the other. */
  #looking: Promise<void> | undefined
  /** Something may have come since the last look. */
  #hasNews = false
  /** The first caller has found nothing, and nothing has come since. */
  #isEmpty = false
  /** Boots under way, oldest first; each is called when a caller waits for it. */
  readonly #running: (() => void)[] = []
  /** Boots for callers that wait for their turn. */
  readonly #queued = new Set<symbol>()
  /** Why boots failed that callers wait for. Never more than there are callers. */
  #failures: unknown[] = []
  readonly #work = new Set<Promise<unknown>>()

  constructor(settings: WaitQueueSettings) {
    this.#settings = settings
  }

  /** Callers who wait, those included who look just now. */
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
   * Waits in the queue for what `take` finds; `take` is called for one caller at a time, and undefined means that there is nothing now. Then the caller gets the boot that is
   * ready next, first come, first served. A boot goes on when its caller leaves. After `late` it waits no longer, but for its turn to look at what is there. @throws the reasons
   * of the signals; what `take` throws; the error of a failed boot, when no boot is left that could serve the first caller
   */
  async wait<T>(take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    const { promise, resolve, reject } = Promise.withResolvers<Waited<T>>()
    let isLooking = false
    let failure: { error: unknown } | undefined
    const leave = (): boolean => {
      this.#waiting.splice(this.#waiting.indexOf(self), 1)
      this.#failures.length = Math.min(this.#failures.length, this.#waiting.length)
      return true
    }
    const fail = (error: unknown) => {
      failure ??= { error }
      if (isLooking || !this.#waiting.includes(self)) return
      const wasFirst = this.#waiting[0] === self
      leave()
      reject(failure.error)
      // What the next one wants may be there.
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
   * Boots one that no caller waits for yet, in a turn that the caller of this method has; false when there is no room for one. It counts for callers who come meanwhile. @throws when it
   * does not come up
   */
  async refill(turn: Disposable): Promise<boolean> {
    try {
      return await this.#boot(turn)
    } finally {
      this.#serve()
    }
  }

  /** Callers of another queue wait for the turns that boots of this one have. */
  hurry(): void {
    for (const hurry of this.#running) hurry()
  }

  /** Something may be there for the callers. */
  lookAgain(): void {
    this.#hasNews = true
    this.#isEmpty = false
    this.#looking ??= this.#look()
  }

  /** Nothing comes any more: those who wait get this error. */
  close(error: unknown): void {
    for (const { fail } of this.#waiting.slice()) fail(error)
  }

  /** Resolves when no boot for a caller is under way. For use after the signal has aborted. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.allSettled(this.#work)
  }

  async #look(): Promise<void> {
    await Promise.resolve() // now #looking is set
    while (this.#hasNews) {
      this.#hasNews = false
      while (this.#waiting[0] && (await this.#waiting[0].look()));
      for (const waiting of this.#waiting) waiting.wasReady = false
    }
    this.#looking = undefined
    this.#isEmpty = this.#waiting.length > 0
    this.#serve()
  }

  /** Does what callers need for whom there is nothing: ends their waits, boots for them, or tells them why boots have failed. */
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
    // Failures are told when no other boot can serve the callers.
    if (this.#running.length + this.#queued.size === 0) for (const error of this.#failures.splice(0)) this.#waiting[0]?.fail(error)
  }

  /** Callers for whom a boot is under way, or has failed. */
  get #served(): number {
    return this.#running.length + this.#failures.length
  }

  async #bootForCaller(): Promise<void> {
    const { starts, signal, onOver } = this.#settings
    const queued = Symbol('a boot for a caller')
    this.#queued.add(queued)
    const work = async () => {
      // What has come up, or came from elsewhere, may serve the caller.
      while (this.#looking) await this.#looking
      this.#queued.delete(queued)
      // The caller has left, or another boot has served it.
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

  /** Ends the waits of those who have no more time, when it is known that there is nothing for them. */
  #dismissLate(): void {
    if (!this.#isEmpty) return
    for (const { late, fail } of this.#waiting.slice()) if (late?.aborted) fail(late.reason)
  }
}
