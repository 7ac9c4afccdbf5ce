// The sandboxes of builds at this replica: started, adopted when it gets the duty for builds, and left when a build may continue elsewhere.
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
  /** Adopted sandboxes of builds in progress that this replica does not follow yet, by deployment. */
  readonly #adopted = new Map<string, AppSandbox>()
  /** The epoch of the leases in which they were adopted; undefined while this replica does not have the duty. */
  #adoptedIn: number | undefined
  /** Sandboxes whose builds may continue at another replica, by id, with their deployments. */
  readonly #left = new Map<string, { deployment: string; instance: AppSandbox }>()

  constructor(settings: BuildSandboxesSettings) {
    this.#settings = settings
  }

  /**
   * Whether this replica has the duty for builds. When it gets the duty, or was cut off meanwhile, it adopts the sandboxes of builds in progress: another
   * replica may have started or followed them, and this one has left its own.
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

  /** Takes the adopted sandbox of a deployment's build. After that, the caller owns it. */
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

  /** Stops watching a sandbox without ending it: its build may continue at another replica, or here again. */
  leave(deployment: string, instance: AppSandbox): void {
    instance.unwatch()
    this.#left.set(instance.id, { deployment, instance })
  }

  /**
   * Ends sandboxes that this replica has left and that no row names any more. Their builds were started again in other sandboxes by a replica that does not
   * know these. Nobody else ends them while this replica lives.
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

  /** Ends the adopted sandboxes that are not followed yet. */
  async stop(): Promise<void> {
    await Promise.all([...this.#adopted.values()].map((instance) => letGo(instance, this.#settings.log)))
  }
}
