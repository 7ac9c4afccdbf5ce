// An instance whose program is watched over its lifeline, for every driver. The instance has ended when its program has. Its end is retried until nothing is
// left.
import type { Log } from '../base/log.ts'
import { resultWithin } from '../base/wait.ts'
import type { Endpoint } from '../http/endpoint.ts'
import type { Exit, Instance } from './driver.ts'
import { watchAgent } from './lifeline.ts'
import { RetriedEnd, type Retrying } from './retried-end.ts'

/** How long an adoption waits for the program to report its capabilities: they are its first message. */
const KNOWN_MS = 2_000

export abstract class WatchedInstance implements Instance {
  readonly id: string
  agent: Endpoint
  readonly exited: Promise<Exit>
  protected readonly log: Log
  protected readonly watching = new AbortController()
  protected readonly ending: RetriedEnd
  readonly #exit = Promise.withResolvers<Exit>()
  readonly #signal: AbortSignal
  /** Resolves when its program has said what it can do, or has ended. */
  #known: Promise<void> = Promise.resolve()
  #answers: Promise<unknown> | undefined
  #isUnwatched = false

  constructor(id: string, agent: Endpoint, { log, ...retrying }: Retrying) {
    this.id = id
    this.agent = agent
    this.exited = this.#exit.promise
    this.log = log.child({ instance: id })
    this.#signal = retrying.signal
    this.ending = new RetriedEnd(() => this.end(), { ...retrying, log: this.log })
  }

  abstract kill(): void
  /** Ends it. @throws on failure */
  protected abstract end(): Promise<void>
  /** Why it has ended, from sources other than the end of its connection. */
  protected abstract whyEnded(exit: Exit): Exit | Promise<Exit>
  /** The last output of its programs. */
  protected abstract said(): string | Promise<string>
  /** Called when its browser has crashed, and is restarted. */
  protected onCrash(): void {}

  /** The address of the runner of an app's sandbox. */
  get runner(): Endpoint {
    const { older: _, ...endpoint } = this.agent
    return endpoint
  }

  unwatch(): void {
    this.#isUnwatched = true
    this.watching.abort(new Error('another service watches the instance'))
  }

  /** Ends it. @throws on failure; it is then retried until it succeeds, without a further call */
  [Symbol.asyncDispose](): Promise<void> {
    return this.ending.run()
  }

  /** Begins to watch an instance that another service has started. Resolves when its program has reported its capabilities, or after a while. */
  async adopted(): Promise<this> {
    void this.#watch()
    await resultWithin(KNOWN_MS, this.#known)
    return this
  }

  /** Runs `work`, after which it is ready; ends it when `work` fails. */
  protected async started(work: () => Promise<void>, signal: AbortSignal): Promise<this> {
    try {
      await work()
      return this
    } catch (error) {
      const said = await this.said()
      await this[Symbol.asyncDispose]().catch(() => {}) // it logs the failure and retries
      throw signal.aborted ? signal.reason : new Error(`instance ${this.id} did not start: ${(error as Error).message}${said && `\n${said}`}`, { cause: error })
    }
  }

  /** Begins to watch it, at the first call. Resolves when its program answers, which an agent does when its browser is up. @throws when it ends before */
  protected answers(): Promise<unknown> {
    return (this.#answers ??= Promise.race([this.#watch(), this.exited.then(({ reason }) => Promise.reject(new Error(reason)))]))
  }

  protected resolveExit(exit: Exit): void {
    if (!this.#isUnwatched) this.#exit.resolve(exit)
  }

  /** Resolves when its program answers. */
  #watch(): Promise<unknown> {
    const { ready, ended } = watchAgent(this.agent, this.log, AbortSignal.any([this.watching.signal, this.#signal]), () => this.onCrash())
    this.#known = ready.then(
      ({ version, lacks }) => {
        this.agent = lacks.length === 0 ? this.runner : { ...this.runner, older: { version: version ?? 'an early version', lacks } }
      },
      () => {}, // `ended` says why
    )
    void ended.then(async (exit) => {
      // When the service stops, running instances pass to another service: they have not ended.
      if (this.#signal.aborted || this.#isUnwatched) return
      const why = await this.whyEnded(exit)
      if (!this.#signal.aborted) this.resolveExit(why)
    })
    return ready
  }
}
