// One container of the driver: its program is watched over its lifeline, and it ends as one, tried until nothing is left.
import { connect } from 'node:tls'
import type { Log } from '../../base/log.ts'
import { resultWithin, until, WaitTimeout, within } from '../../base/wait.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Exit, Instance } from '../driver.ts'
import { watchAgent, type Lifeline } from '../lifeline.ts'
import { RetriedEnd } from '../retried-end.ts'
import type { Address, ContainerKind, Engine } from './engine.ts'

/** Timeout of a whole start until the program answers: some seconds alone, and many times that when ten start at once. */
const START_MS = 120_000
/** Between two looks whether the program listens, and whether its container still runs. */
const LISTENS_EVERY_MS = 20
const RUNS_EVERY_MS = 500
/** A connection on one machine is made or refused within milliseconds. */
const CONNECT_MS = 2_000
/** How long an adoption waits for the program to say what it can do: it is the first thing that it says. */
const KNOWN_MS = 2_000

export interface ContainerSettings {
  engine: Engine
  log: Log
  /** Aborts when the service stops. Failed ends are then left to the next start. */
  signal: AbortSignal
  /** `LATE_MS` (guest.ts), unless given. */
  lateMs?: readonly number[]
}

export class ContainerInstance implements Instance {
  readonly id: string
  agent: Endpoint
  readonly exited: Promise<Exit>
  /** Resolves when its program has said what it can do, or has ended. */
  known: Promise<void> = Promise.resolve()
  readonly #exit = Promise.withResolvers<Exit>()
  readonly #kind: ContainerKind
  readonly #settings: ContainerSettings
  readonly #log: Log
  readonly #watching = new AbortController()
  readonly #ending: RetriedEnd
  #isUnwatched = false
  #isEnding = false

  constructor(kind: ContainerKind, id: string, agent: Endpoint, settings: ContainerSettings) {
    this.id = id
    this.agent = agent
    this.exited = this.#exit.promise
    this.#kind = kind
    this.#settings = settings
    this.#log = settings.log.child({ instance: id })
    this.#ending = new RetriedEnd(() => this.#end(), this.#log, settings.signal)
  }

  /** Where a sandbox of an app has its runner. */
  get runner(): Endpoint {
    const { older: _, ...endpoint } = this.agent
    return endpoint
  }

  /** Resolves when its program answers; ends the container when it does not. */
  async up(address: Address, signal: AbortSignal): Promise<this> {
    const { engine } = this.#settings
    const answers = async () => {
      await this.#listens(address, signal)
      const { ready } = this.#watch()
      await Promise.race([ready, this.exited.then(({ reason }) => Promise.reject(new Error(reason)))])
    }
    try {
      await within('an instance', START_MS, answers(), signal)
      return this
    } catch (error) {
      const said = await engine.said(this.#kind, this.id).catch(() => '')
      await this[Symbol.asyncDispose]().catch(() => {}) // it logs the failure and retries
      throw signal.aborted ? signal.reason : new Error(`instance ${this.id} did not start: ${(error as Error).message}${said && `\n${said}`}`, { cause: error })
    }
  }

  /** Begins to watch a container that another service has started. Resolves when its program has said what it can do, or after a while. */
  async adopted(): Promise<this> {
    this.#watch()
    await resultWithin(KNOWN_MS, this.known)
    return this
  }

  unwatch(): void {
    this.#isUnwatched = true
    this.#watching.abort(new Error('another service watches the instance'))
  }

  kill(): void {
    void this.#settings.engine.remove(this.#kind, this.id).catch((err: unknown) => this.#log.debug({ err }, 'not killed; its end tries again'))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#ending.run()
  }

  async #end(): Promise<void> {
    const { engine } = this.#settings
    this.#isEnding = true
    await engine.remove(this.#kind, this.id)
    this.#watching.abort(new Error('the instance was ended'))
    this.#resolveExit({ reason: 'it was ended' })
  }

  /** Resolves when something listens there. @throws when the container ends before */
  async #listens({ host, port }: Address, signal: AbortSignal): Promise<void> {
    const { engine } = this.#settings
    let lookAt = performance.now() + RUNS_EVERY_MS
    await until(
      'the program of a container to listen',
      START_MS,
      async () => {
        if (await answersTls(host, port, 'certificate' in this.agent ? this.agent.certificate : undefined)) return true
        if (performance.now() < lookAt) return false
        const why = await engine.whyEnded(this.#kind, this.id)
        if (why !== undefined) throw new Error(why.reason)
        lookAt = performance.now() + RUNS_EVERY_MS
        return false
      },
      { everyMs: LISTENS_EVERY_MS, signal },
    )
  }

  #watch(): Lifeline {
    const { engine, signal } = this.#settings
    const lifeline = watchAgent(this.agent, this.#log, AbortSignal.any([this.#watching.signal, signal]))
    this.known = lifeline.ready.then(
      ({ version, lacks }) => {
        const { older: _, ...endpoint } = this.agent
        this.agent = lacks.length === 0 ? endpoint : { ...endpoint, older: { version: version ?? 'an early version', lacks } }
      },
      () => {}, // `ended` says why
    )
    // The engine knows more than that the connection has ended, some time later.
    const why = async (exit: Exit): Promise<Exit> => {
      // What the agent has said before its end is the reason for that of its container.
      if (exit.cause !== undefined) return exit
      try {
        return await until('the reason of an end', engine.noticesMs, () => engine.whyEnded(this.#kind, this.id), { everyMs: WHY_EVERY_MS, signal })
      } catch (error) {
        const { message } = error as Error
        return {
          ...exit,
          reason: `${exit.reason}; ${error instanceof WaitTimeout ? 'as far as the engine knows, its container still runs' : `the engine does not say why: ${message}`}`,
        }
      }
    }
    void lifeline.ended.then(async (exit) => {
      // When the service stops, what goes on belongs to another one: it has not ended.
      if (signal.aborted || this.#isUnwatched) return
      const known = this.#isEnding ? { reason: 'it was ended' } : await why(exit)
      if (!signal.aborted) this.#resolveExit(known)
    })
    return lifeline
  }

  #resolveExit(exit: Exit): void {
    if (!this.#isUnwatched) this.#exit.resolve(exit)
  }
}

/** Between two questions to the engine why a container has ended. */
const WHY_EVERY_MS = 100

/** Whether the program itself answers there, known by its certificate: what publishes its port accepts connections before it listens. */
async function answersTls(host: string, port: number, certificate: string | undefined): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({ host, port, ca: certificate, servername: '', minVersion: 'TLSv1.3', checkServerIdentity: () => undefined })
  socket
    .once('secureConnect', () => resolve(true))
    .once('error', () => resolve(false))
    .once('close', () => resolve(false))
  socket.setTimeout(CONNECT_MS, () => resolve(false))
  try {
    return await promise
  } finally {
    socket.destroy()
  }
}
