// One container of the driver: the wait for its program, the reason of its end, and its removal.
import { connect } from 'node:tls'
import { until, WaitTimeout, within } from '../../base/wait.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Exit } from '../driver.ts'
import type { Retrying } from '../retried-end.ts'
import { WatchedInstance } from '../watched.ts'
import type { Address, ContainerKind, Engine } from './engine.ts'

/** Timeout of a whole start until the program answers: a start takes some seconds alone, and many times that when ten run at once. */
const START_MS = 120_000
/** Interval of the checks whether the program listens, and whether its container still runs. */
const LISTENS_EVERY_MS = 20
const RUNS_EVERY_MS = 500
/** A connection on one machine is made or refused within milliseconds. */
const CONNECT_MS = 2_000

export interface ContainerSettings extends Retrying {
  engine: Engine
  /** `LATE_MS` (guest.ts), unless given. */
  lateMs?: readonly number[]
}

export class ContainerInstance extends WatchedInstance {
  readonly #kind: ContainerKind
  readonly #settings: ContainerSettings
  #isEnding = false

  constructor(kind: ContainerKind, id: string, agent: Endpoint, settings: ContainerSettings) {
    super(id, agent, settings)
    this.#kind = kind
    this.#settings = settings
  }

  /** Resolves when its program answers; ends the container when it does not. */
  up(address: Address, signal: AbortSignal): Promise<this> {
    const answers = async () => {
      await this.#listens(address, signal)
      await this.answers()
    }
    return this.started(() => within('an instance', START_MS, answers(), signal), signal)
  }

  kill(): void {
    void this.#settings.engine.remove(this.#kind, this.id).catch((err: unknown) => this.log.debug({ err }, 'not killed; its end tries again'))
  }

  protected async end(): Promise<void> {
    this.#isEnding = true
    await this.#settings.engine.remove(this.#kind, this.id)
    this.watching.abort(new Error('the instance was ended'))
    this.resolveExit({ reason: 'it was ended' })
  }

  protected said(): Promise<string> {
    return this.#settings.engine.said(this.#kind, this.id).catch(() => '')
  }

  /** At first only the end of the connection is known. The engine knows the reason some time later. */
  protected async whyEnded(exit: Exit): Promise<Exit> {
    const { engine, signal } = this.#settings
    if (this.#isEnding) return { reason: 'it was ended' }
    // A reason that the agent has reported before its end is also the reason of its container.
    if (exit.cause !== undefined) return exit
    try {
      return await until('the reason of an end', engine.noticesMs, () => engine.whyEnded(this.#kind, this.id), { everyMs: WHY_EVERY_MS, signal })
    } catch (error) {
      const why =
        error instanceof WaitTimeout ? 'as far as the engine knows, its container still runs' : `the engine does not say why: ${(error as Error).message}`
      return { ...exit, reason: `${exit.reason}; ${why}` }
    }
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
}

/** Interval between two queries to the engine for the reason of an end. */
const WHY_EVERY_MS = 100

/** Whether the program itself answers there, by its certificate: the engine's port forwarding accepts connections before the program listens. */
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
