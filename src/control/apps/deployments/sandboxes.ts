// The sandboxes of builds as this replica has them: started, adopted when builds have become its duty, and left when a build may go on elsewhere.
import type { Log } from '../../../base/log.ts'
import { letGo, type AppSandbox, type AppSandboxes } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { BuildFailed, sourceOf } from './build-failed.ts'
import { buildsInProgress, sandboxesNamed, type DeploymentRow, type Secrets } from './rows.ts'

export interface BuildSandboxesSettings {
  db: Db
  sandboxes: AppSandboxes
  scope: string
  leases: Leases
  apiUrl: () => string
  gitBase: string
  memoryMb: number
  logLevel: string
  log: Log
  secrets: (row: DeploymentRow) => Secrets
  environment: (row: DeploymentRow) => Record<string, string>
}

export class BuildSandboxes {
  readonly #settings: BuildSandboxesSettings
  /** Of builds in progress that nobody follows yet, by their deployments. */
  readonly #adopted = new Map<string, AppSandbox>()
  /** In which epoch of the leases they were adopted; undefined while builds are not this replica's duty. */
  #adoptedIn: number | undefined
  /** Those whose builds may go on at another replica, by their ids, with their deployments. */
  readonly #left = new Map<string, { deployment: string; instance: AppSandbox }>()

  constructor(settings: BuildSandboxesSettings) {
    this.#settings = settings
  }

  /**
   * Whether builds are this replica's duty. When they have become so, or when it was cut off meanwhile, it looks for the sandboxes of builds in progress: another
   * replica may have begun or followed them, and this one has left those that it had.
   */
  async areOurs(): Promise<boolean> {
    const { db, leases, sandboxes, scope } = this.#settings
    await this.#endForgotten()
    const epoch = leases.holds('builds') ? leases.epoch : undefined
    if (epoch !== this.#adoptedIn) {
      for (const instance of this.#adopted.values()) instance.unwatch()
      this.#adopted.clear()
      this.#adoptedIn = undefined
    }
    if (epoch === undefined) return false
    if (epoch !== this.#adoptedIn)
      for (const row of await buildsInProgress(db, scope)) {
        const instance = await sandboxes.adopt(row.sandbox_id)
        if (!instance) continue
        this.#adopted.set(row.id, instance)
        this.#left.delete(instance.id)
      }
    this.#adoptedIn = epoch
    return true
  }

  /** The adopted sandbox that the row of a build names. */
  adopted(row: DeploymentRow): AppSandbox | undefined {
    const adopted = this.#adopted.get(row.id)
    if (!adopted || adopted.id === row.sandbox_id) return adopted
    this.#adopted.delete(row.id)
    this.leave(row.id, adopted)
    return undefined
  }

  /** The adopted sandbox of a deployment's build. It is its caller's from then on. */
  take(deployment: string): AppSandbox | undefined {
    const adopted = this.#adopted.get(deployment)
    this.#adopted.delete(deployment)
    return adopted
  }

  /** Starts the sandbox that the row of a build names. @throws BuildFailed, or the signal's reason */
  async start(row: DeploymentRow, id: string, signal: AbortSignal): Promise<AppSandbox> {
    const { sandboxes, apiUrl, environment, gitBase, memoryMb, secrets, logLevel, log } = this.#settings
    const runner = { id, kind: 'build' as const, source: sourceOf(row, gitBase, secrets(row)), env: environment(row), memoryMb, logLevel }
    try {
      return await sandboxes.start({ id, downloadsOf: row.project_id ?? row.id, runner, apiUrl: apiUrl() }, signal)
    } catch (err) {
      signal.throwIfAborted()
      log.error({ err, deployment: row.id }, 'a build did not start')
      throw new BuildFailed('the build could not be started: the service could not make a sandbox for it')
    }
  }

  /** Stops watching a sandbox without ending it: its build may go on at another replica, or here once more. */
  leave(deployment: string, instance: AppSandbox): void {
    instance.unwatch()
    this.#left.set(instance.id, { deployment, instance })
  }

  /**
   * Ends the sandboxes that this replica has left and that no row names any more: the build was begun again in another one, by a replica that does not know of this
   * one. Nobody else ends them while this replica lives.
   */
  async #endForgotten(): Promise<void> {
    if (this.#left.size === 0) return
    const { db, log } = this.#settings
    const rows = new Map(
      (
        await sandboxesNamed(
          db,
          [...this.#left.values()].map(({ deployment }) => deployment),
        )
      ).map((row) => [row.id, row]),
    )
    for (const [id, { deployment, instance }] of this.#left) {
      const row = rows.get(deployment)
      const isNamed = row?.sandbox_id === id
      if (isNamed && row.state === 'in_progress') continue
      this.#left.delete(id)
      // The replica that has released its code ends it.
      if (!isNamed || row.state === 'failed') void letGo(instance, log)
    }
  }

  /** Ends those that were adopted and are not followed yet. */
  async stop(): Promise<void> {
    await Promise.all([...this.#adopted.values()].map((instance) => letGo(instance, this.#settings.log)))
  }
}
