// The rules of deployments: created from a form, built in order, listed, followed, deleted.
import { setInterval } from 'node:timers/promises'
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { resultWithin } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { FormPart, Page } from '../../../http/route.ts'
import { CodeUnavailable, type AppCode, type AppSandboxes } from '../../../instances/driver.ts'
import { isProjectGone, type Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { EventNotifier } from '../../../store/events.ts'
import type { AppEvent } from '../apps/app-events.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Objects } from '../../../store/objects.ts'
import { Region } from '../apps/contract.ts'
import { follow } from '../apps/follow.ts'
import { mintDeploymentKey } from '../../access/keys.ts'
import type { Rights } from '../../access/rights.ts'
import { Builder } from './builder.ts'
import { codeOf } from './code.ts'
import type { Deployment, DeploymentEvent } from './contract.ts'
import { makeEndings, type Endings } from './endings.ts'
import { MAX_ARCHIVE_BYTES, readDeploymentForm, type DeploymentForm } from './form.ts'
import { deploymentLifecycle, moveDeletion, type DeploymentState } from './lifecycle.ts'
import { archiveKey, findDeployment, listDeployments, record, type DeploymentFilter, type DeploymentRow, type Secrets } from './rows.ts'

/** The interval between two checks for unfinished work. */
const TIDY_MS = 60_000
/** How long a caller waits for the rest of a deletion that is recorded. */
const FINISH_MS = 10_000

export interface DeploymentsSettings {
  db: Db
  rights: Rights
  notifier: EventNotifier
  objects: Objects
  sealer: Sealer
  sandboxes: AppSandboxes
  /** The scope that builds and runs its deployments. */
  scope: string
  leases: Leases
  /** Tells the replica with the duty for builds that there is one, or that the build of this deployment must end. */
  tellBuilder?: (toEnd?: string) => void
  /** The address of our port on loopback, known once we listen. */
  apiUrl: () => string
  /** The reason why code of apps cannot reach the API; undefined when it can. */
  unreachable?: () => string | undefined
  gitBase: string
  memoryMb: number
  /** Limit on the packed code of a deployment, in bytes. */
  maxCodeBytes: number
  /** Limit on the log of a deployment and all its runs, in bytes. */
  maxLogBytes?: number
  /** Whether the disk has room for another build. */
  hasRoom?: () => boolean
  logLevel: string
  log: Log
  /** Ends every run of a deployment and returns when none runs any more. */
  endRuns: (deploymentId: string, reason: string) => Promise<void>
  /** Called when a deployment has begun to run. */
  onRunning?: (deploymentId: string) => void
  maxArchiveBytes?: number
  /** Limit on a build, from the service's side. */
  buildMs?: number
  heartbeatMs?: number
}

/** Disposing ends the running build; the next start begins it again. */
export class Deployments implements AsyncDisposable {
  readonly #settings: DeploymentsSettings
  readonly #builder: Builder
  readonly #endings: Endings
  readonly #stop = new AbortController()
  #background: Promise<void> | undefined
  readonly #deletions = new Set<Promise<void>>()

  constructor(settings: DeploymentsSettings) {
    this.#settings = settings
    this.#builder = new Builder({
      ...settings,
      secrets: (row) => this.#secrets(row),
      environment: (row) => this.#environment(row),
      onFailed: (id) => this.#endings.clean(id),
      onRunning: async (id, superseded) => {
        settings.onRunning?.(id)
        for (const old of superseded) await this.#endings.retire(old)
      },
    })
    const endBuild = async (id: string) => {
      if (!settings.leases.holds('builds')) settings.tellBuilder?.(id)
      await this.#builder.end(id)
    }
    this.#endings = makeEndings({ ...settings, endBuild })
  }

  async create(project: string, parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<Deployment> {
    const { gitBase, log, maxArchiveBytes = MAX_ARCHIVE_BYTES, objects, unreachable } = this.#settings
    const why = unreachable?.()
    if (why !== undefined) throw fault.broken(why)
    const id = newId()
    const key = archiveKey(id)
    await using opened = new AsyncDisposableStack()
    // If this fails, the sweep of objects removes the archive later. The error must not hide the reason of the refusal.
    opened.defer(() => objects.delete(key).catch((err: unknown) => log.warn({ err, key }, 'the archive of a refused deployment could not be removed yet')))
    const form = await readDeploymentForm(parts, { objects, key, gitBase, maxArchiveBytes }, signal)
    signal.throwIfAborted()
    const row = await this.#insert(id, project, form).catch((error: unknown) => {
      throw isProjectGone(error) ? fault.projectNotFound(project) : error
    })
    opened.move()
    this.#builder.wake()
    // The row as it was inserted: by now its build may have started.
    return record(row)
  }

  #insert(id: string, project: string, { archive, source, variables, ...form }: DeploymentForm): Promise<DeploymentRow> {
    const { db, scope, sealer } = this.#settings
    return db.transaction().execute(async (tx) => {
      await tx
        .insertInto('deployments')
        .values({
          id,
          scope,
          project_id: project,
          state: 'queued',
          app_version: form.version,
          region: Region.value,
          entrypoint_rel_path: form.entrypoint,
          env_keys: JSON.stringify(Object.keys(variables)),
          force: form.force,
          archive: archive?.key ?? null,
          source_type: source ? 'github' : 'file',
          source_url: source?.url ?? null,
          source_ref: source?.ref ?? null,
          source_path: source?.path ?? null,
          source_checksum: archive?.sha256 ?? null,
        })
        .execute()
      const token = source?.auth?.token
      const sealed: Secrets = { env: variables, key: await mintDeploymentKey(tx, id, project), ...(token && { token }) }
      const made = tx
        .updateTable('deployments')
        .set({ secrets: sealer.seal(JSON.stringify(sealed), id) })
        .where('id', '=', id)
        .returningAll()
      return (await made.executeTakeFirstOrThrow()) as DeploymentRow
    })
  }

  async get(project: string, id: string): Promise<Deployment> {
    return record(await this.#find(project, id))
  }

  async list(project: string, filter: DeploymentFilter): Promise<Page<Deployment>> {
    return pageOf(await listDeployments(this.#settings.db, project, filter), filter, record)
  }

  async delete(project: string, id: string): Promise<void> {
    const { db, log, scope } = this.#settings
    await this.#find(project, id)
    // Record the deletion first, in its own transaction. After that, the deployment is not listed, no build of it is released, and after a crash the deletion
    // is completed.
    if ((await moveDeletion(db, id, 'deleting', null, { deleted_at: sql`now()` })) === undefined) throw fault.notFound('deployment', id)
    // The deletion is final now. Steps that fail, for example while the bucket is away, are retried every minute. Another machine finds the record at its next
    // check.
    const finish = async () => {
      if ((await findDeployment(db, id))?.scope === scope) await this.#endings.finishDeletion(id)
    }
    const finishing = finish().catch((err: unknown) => log.warn({ err, deployment: id }, 'a deletion could not be finished yet; it will be retried'))
    this.#deletions.add(finishing)
    void finishing.finally(() => this.#deletions.delete(finishing))
    await resultWithin(FINISH_MS, finishing)
  }

  async follow(project: string, id: string, since: Date | undefined, lastEventId: string | string[] | undefined, signal: AbortSignal) {
    const { db, heartbeatMs, notifier } = this.#settings
    const { created_at } = await this.#find(project, id)
    return follow<DeploymentEvent>({
      db,
      notifier,
      source: { deployment: id },
      since,
      lastEventId,
      signal,
      initial: { state: 'queued', at: created_at },
      isLast: (state) => deploymentLifecycle.isTerminal(state as DeploymentState),
      show: (event) => this.#show(event),
      ...(heartbeatMs !== undefined && { heartbeatMs }),
    })
  }

  /** The variables for a deployment's code: the caller's own. Variables of the service override them. */
  async environment(deploymentId: string): Promise<Record<string, string>> {
    return this.#environment(await this.#row(deploymentId))
  }

  /** The code of a running deployment. @throws CodeUnavailable */
  async code(deploymentId: string): Promise<AppCode> {
    const { code_key: key, code_bytes: bytes } = await this.#row(deploymentId)
    if (key === null) throw new CodeUnavailable('the code of its deployment is gone; deploy it again')
    return codeOf(this.#settings.objects, { key, bytes: bytes ?? 0 })
  }

  /** Stops a superseded deployment when nothing runs on it any more. Call it after every run; repeated calls are harmless. */
  retire(deploymentId: string): Promise<void> {
    return this.#endings.retire(deploymentId)
  }

  /** Handles a notice of another replica: something to build, or the deployment whose build must end. */
  onNotice(toEnd: string | undefined): void {
    if (toEnd === undefined) this.#builder.notify()
    else void this.#builder.end(toEnd).catch((err: unknown) => this.#settings.log.warn({ err, deployment: toEnd }, 'a build could not be ended yet'))
  }

  /** Starts to build, and to finish interrupted work. */
  start(): void {
    this.#builder.start()
    this.#background ??= this.#lookAfter(this.#stop.signal).catch(() => {}) // ends only by its signal
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    await this.#builder.stop()
    await this.#background
    await Promise.all(this.#deletions)
  }

  #secrets({ id, secrets }: DeploymentRow): Secrets {
    if (secrets === null) throw new Error(`deployment ${id} has ended; its secrets are gone`)
    return JSON.parse(this.#settings.sealer.open(secrets, id)) as Secrets
  }

  #environment(row: DeploymentRow): Record<string, string> {
    const { env, key } = this.#secrets(row)
    return { ...env, KERNEL_API_KEY: key, KERNEL_BASE_URL: this.#settings.apiUrl(), ENTRYPOINT_RELPATH: row.entrypoint_rel_path ?? '' }
  }

  async #row(id: string): Promise<DeploymentRow> {
    const row = await findDeployment(this.#settings.db, id)
    if (!row) throw new Error(`there is no deployment ${id}`)
    return row
  }

  async #find(project: string, id: string): Promise<DeploymentRow> {
    const row = await findDeployment(this.#settings.db, id)
    if (row?.project_id !== project || row.deletion !== 'kept') throw fault.notFound('deployment', id)
    return row
  }

  async #show(event: AppEvent): Promise<DeploymentEvent | undefined> {
    const timestamp = event.at.toISOString()
    if (event.kind === 'log') return { event: 'log', message: event.line ?? '', timestamp }
    if (event.kind === 'app') return { event: 'app_version_summary', ...(event.data as object), timestamp } as DeploymentEvent
    if (event.kind === 'deletion') return undefined
    const row = await findDeployment(this.#settings.db, event.deployment_id)
    // The answer shows the deployment with the state of the event: the row may have changed since.
    return (
      row && {
        event: 'deployment_state',
        deployment: record({ ...row, state: event.state as DeploymentState, status_reason: event.reason, updated_at: event.at }),
        timestamp,
      }
    )
  }

  async #lookAfter(signal: AbortSignal): Promise<void> {
    const { leases, log } = this.#settings
    const round = async () => {
      if (leases.holds('deployments')) await this.#endings.tidy().catch((err: unknown) => log.error({ err }, 'looking after deployments did not work'))
    }
    await round()
    for await (const _ of setInterval(TIDY_MS, undefined, { signal })) await round()
  }
}
