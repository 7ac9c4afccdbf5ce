// Gives runs their sandboxes: a warm one of their deployment, a new one, or the one from an earlier service.
import { availableParallelism } from 'node:os'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { Slots } from '../../../base/slots.ts'
import { within } from '../../../base/wait.ts'
import { call, CallFailed } from '../../../http/client.ts'
import { CodeUnavailable, type AppCode, type AppSandbox, type Driver } from '../../../instances/driver.ts'
import { runner, type RunnerEvent } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import { inTime } from '../apps/runner-events.ts'
import { hear } from './hear.ts'
import { pointedAt } from './rows.ts'
import { BrokenOff, type Run } from './open-run.ts'
import { WarmRunners } from './warm.ts'

/** Time from the first adopted run at a start until the service listens. */
const LISTEN_MS = 60_000

interface RunSandboxesSettings {
  db: Db
  driver: Driver
  /** The address of the API. Sandboxes are started once it is known. */
  apiUrl: Promise<string>
  maxInvocations: number
  appMemoryMb: number
  logLevel: string
  log: Log
  /** Variables of a deployment's code. */
  environment: (deployment: string) => Promise<Record<string, string>>
  /** A deployment's code. @throws CodeUnavailable */
  code: (deployment: string) => Promise<AppCode>
  /** Aborts when the service stops. */
  stopping: AbortSignal
}

/** A sandbox that has accepted the run. */
export interface Underway {
  instance: AppSandbox
  said: AsyncGenerator<RunnerEvent[]>
}

export class RunSandboxes {
  readonly #settings: RunSandboxesSettings
  readonly warm: WarmRunners
  readonly #starts = new Slots(availableParallelism())

  constructor(settings: RunSandboxesSettings) {
    this.#settings = settings
    const { db, log } = settings
    this.warm = new WarmRunners({
      start: (deployment, signal, onBegin) => this.#start(deployment, false, signal, onBegin),
      inUse: (deployments) => pointedAt(db, deployments),
      maxRuns: settings.maxInvocations,
      log,
    })
  }

  /** Follows a sandbox to which an earlier service has sent the run, or was about to. */
  async resume(run: Run, seq: number, instance: AppSandbox): Promise<Underway> {
    await run.hold(instance)
    const said = hear(instance, seq, run.signal)
    await give(instance, run).catch((cause: unknown) => {
      if (!(cause instanceof CallFailed && cause.status === 409)) throw new BrokenOff('its sandbox does not answer', { cause })
    })
    return { instance, said }
  }

  /** A sandbox that has accepted the run: a warm one, or a new one. `begins` records its id before it gets the run. */
  async obtain(run: Run, begins: (sandbox: string) => Promise<void>): Promise<Underway> {
    const { db } = this.#settings
    const hand = async (instance: AppSandbox, said: Underway['said']): Promise<Underway> => {
      await give(instance, run)
      this.warm.refill(run.deployment)
      return { instance, said }
    }
    const own = async (): Promise<AppSandbox> => {
      const instance = await this.#start(run.deployment, true, run.signal).catch((cause: unknown) => {
        throw new BrokenOff(cause instanceof CodeUnavailable ? cause.message : 'its sandbox did not start', { cause })
      })
      await run.hold(instance)
      return instance
    }
    const reserve = await this.warm.take(run.deployment)
    if (reserve) await run.hold(reserve)
    const first = reserve ?? (await own())
    // Start to read its events while the row is written. No event comes before it has the run.
    const said = hear(first, 0, run.signal)
    await begins(first.id)
    try {
      return await hand(first, said)
    } catch (cause) {
      // A warm sandbox that has just ended never got the run. Any other sandbox may have started it.
      if (!reserve || !(cause instanceof CallFailed && cause.isUnreceived)) throw new BrokenOff('its sandbox did not take the run', { cause })
      const instance = await own()
      await db.updateTable('invocations').set({ runner_id: instance.id }).where('id', '=', run.id).where('state', '=', 'running').execute()
      return hand(instance, hear(instance, 0, run.signal))
    }
  }

  async #start(deployment: string, isUrgent: boolean, signal: AbortSignal, onBegin = () => {}): Promise<AppSandbox> {
    const { driver, environment, code: codeOf, appMemoryMb, logLevel, stopping } = this.#settings
    const ending = AbortSignal.any([signal, stopping])
    const apiUrl = await within('the API to listen', LISTEN_MS, this.#settings.apiUrl, ending)
    const [env, code] = await Promise.all([environment(deployment), codeOf(deployment)])
    const id = newId()
    const start = () => {
      onBegin()
      return driver.apps.start({ id, code, runner: { id, kind: 'run', env, memoryMb: appMemoryMb, logLevel }, apiUrl }, ending)
    }
    return this.#starts.run(start, ending, isUrgent)
  }
}

/** Sends a runner its run. It accepts only one. */
const give = (instance: AppSandbox, { job, signal }: Run): Promise<void> =>
  call(instance.runner, runner.run, { body: job }, { signal: inTime(runner.run, signal) })
