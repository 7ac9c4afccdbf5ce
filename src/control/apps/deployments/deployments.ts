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
import type { AppEvent, EventNotifier } from '../../../store/events.ts'
import type { Objects } from '../../../store/objects.ts'
import { follow } from '../apps/follow.ts'
import { mintDeploymentKey } from '../../access/keys.ts'
import type { Rights } from '../../access/rights.ts'
import { Builder } from './builder.ts'
import { codeOf } from './code.ts'
import type { Deployment, DeploymentEvent } from './contract.ts'
import { makeEndings } from './endings.ts'
import { MAX_ARCHIVE_BYTES, readDeploymentForm } from './form.ts'
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
  /** This machine: it builds and runs its deployments. */
  scope: string
  leases: Leases
  /** Tells the replica whose duty builds are that there is one, or that one (its deployment) has to end. */
  tellBuilder?: (toEnd?: string) => void
  /** Our port on loopback, known once we listen. */
  apiUrl: () => string
  /** Why code of apps cannot reach the API; undefined when it can. */
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

export interface Deployments extends AsyncDisposable {
  create(project: string, parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<Deployment>
  get(project: string, id: string): Promise<Deployment>
  list(project: string, filter: DeploymentFilter): Promise<Page<Deployment>>
  delete(project: string, id: string): Promise<void>
  follow(
    project: string,
    id: string,
    since: Date | undefined,
    lastEventId: string | string[] | undefined,
    signal: AbortSignal,
  ): Promise<AsyncIterable<DeploymentEvent>>
  /** The variables of a deployment's code: the caller's own, and over them those of the service. */
  environment(deploymentId: string): Promise<Record<string, string>>
  /** The code of a running deployment. @throws CodeUnavailable */
  code(deploymentId: string): Promise<AppCode>
  /** Stops a superseded deployment when nothing runs on it any more. Call it at the end of every run; repeated calls are harmless. */
  retire(deploymentId: string): Promise<void>
  /** Looks after what another replica tells of: something to build, or a build (its deployment) that has to end. */
  onNotice(toEnd: string | undefined): void
  /** Begins to build, and to finish interrupted work. */
  start(): void
}

/** Disposing ends the running build; the next start begins it again. */
export function makeDeployments(settings: DeploymentsSettings): Deployments {
  const { db, leases, notifier, objects, sealer, scope, gitBase, log, apiUrl } = settings
  const stop = new AbortController()
  let background: Promise<void> | undefined
  const deletions = new Set<Promise<void>>()

  const secrets = (row: DeploymentRow): Secrets => {
    if (row.secrets === null) throw new Error(`deployment ${row.id} has ended; its secrets are gone`)
    return JSON.parse(sealer.open(row.secrets, row.id)) as Secrets
  }
  const environment = (row: DeploymentRow): Record<string, string> => {
    const { env, key } = secrets(row)
    return { ...env, KERNEL_API_KEY: key, KERNEL_BASE_URL: apiUrl(), ENTRYPOINT_RELPATH: row.entrypoint_rel_path ?? '' }
  }
  const builder = new Builder({
    ...settings,
    secrets,
    environment,
    onFailed: (id) => endings.clean(id),
    async onRunning(id, superseded) {
      settings.onRunning?.(id)
      for (const old of superseded) await endings.retire(old)
    },
  })
  const endBuild = async (id: string) => {
    if (!leases.holds('builds')) settings.tellBuilder?.(id)
    await builder.end(id)
  }
  const endings = makeEndings({ ...settings, endBuild })

  const find = async (project: string, id: string): Promise<DeploymentRow> => {
    const row = await findDeployment(db, id)
    if (row?.project_id !== project || row.deletion !== 'kept') throw fault.notFound('deployment', id)
    return row
  }

  async function show(event: AppEvent): Promise<DeploymentEvent | undefined> {
    const timestamp = event.at.toISOString()
    if (event.kind === 'log') return { event: 'log', message: event.line ?? '', timestamp }
    if (event.kind === 'app') return { event: 'app_version_summary', ...(event.data as object), timestamp } as DeploymentEvent
    if (event.kind === 'deletion') return undefined
    const row = await findDeployment(db, event.deployment_id)
    // The row as it was at the create: it may have changed since.
    return (
      row && {
        event: 'deployment_state',
        deployment: record({ ...row, state: event.state as DeploymentState, status_reason: event.reason, updated_at: event.at }),
        timestamp,
      }
    )
  }

  async function lookAfter(signal: AbortSignal): Promise<void> {
    const round = async () => {
      if (leases.holds('deployments')) await endings.tidy().catch((err: unknown) => log.error({ err }, 'looking after deployments did not work'))
    }
    await round()
    for await (const _ of setInterval(TIDY_MS, undefined, { signal })) await round()
  }

  return {
    async create(project, parts, signal) {
      const why = settings.unreachable?.()
      if (why !== undefined) throw fault.broken(why)
      const id = newId()
      const key = archiveKey(id)
      await using opened = new AsyncDisposableStack()
      // If this fails, the sweep of objects removes it later. Its error must not hide why the deployment was refused.
      opened.defer(() => objects.delete(key).catch((err: unknown) => log.warn({ err, key }, 'the archive of a refused deployment could not be removed yet')))
      const form = await readDeploymentForm(parts, { objects, key, gitBase, maxArchiveBytes: settings.maxArchiveBytes ?? MAX_ARCHIVE_BYTES }, signal)
      signal.throwIfAborted()
      const { archive, source, variables } = form
      const insert = db.transaction().execute(async (tx) => {
        await tx
          .insertInto('deployments')
          .values({
            id,
            scope,
            project_id: project,
            state: 'queued',
            app_version: form.version,
            region: 'aws.us-east-1a',
            entrypoint_rel_path: form.entrypoint,
            env_keys: JSON.stringify(Object.keys(variables)),
            force: form.force,
            archive: archive?.key ?? null,
            source_type: source ? 'github' : 'file',
            source_url: source?.url ?? null,
            source_ref: source?.ref ?? null,
            source_path: source?.path ?? null,
            source_checksum: archive?.sha256 ?? null,
            status_reason: null,
            app_name: null,
            secrets: null,
            finished_at: null,
            deleted_at: null,
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
      const row = await insert.catch((error: unknown) => {
        throw isProjectGone(error) ? fault.projectNotFound(project) : error
      })
      opened.move()
      builder.wake()
      // As it was made: by now its build may have begun.
      return record(row)
    },

    get: async (project, id) => record(await find(project, id)),

    async list(project, filter) {
      const rows = await listDeployments(db, project, filter)
      return { items: rows.slice(0, filter.limit).map(record), nextOffset: rows.length > filter.limit ? filter.offset + filter.limit : undefined }
    },

    async delete(project, id) {
      await find(project, id)
      // The deletion is recorded first and in its own transaction. From here on the deployment is not listed, no build of it is released, and
      // after a crash the deletion is finished.
      if ((await moveDeletion(db, id, 'deleting', null, { deleted_at: sql`now()` })) === undefined) throw fault.notFound('deployment', id)
      // From here on the caller's wish is fulfilled. What does not work now, as while the bucket is away, is repeated every minute.
      // Another machine finds the record at its next check.
      const finish = async () => {
        if ((await findDeployment(db, id))?.scope === scope) await endings.finishDeletion(id)
      }
      const finishing = finish().catch((err: unknown) => log.warn({ err, deployment: id }, 'a deletion could not be finished yet; it will be retried'))
      deletions.add(finishing)
      void finishing.finally(() => deletions.delete(finishing))
      await resultWithin(FINISH_MS, finishing)
    },

    async follow(project, id, since, lastEventId, signal) {
      const { created_at } = await find(project, id)
      return follow<DeploymentEvent>({
        db,
        notifier,
        source: { deployment: id },
        since,
        lastEventId,
        signal,
        initial: { state: 'queued', at: created_at },
        isLast: (state) => deploymentLifecycle.isTerminal(state as DeploymentState),
        show,
        ...(settings.heartbeatMs !== undefined && { heartbeatMs: settings.heartbeatMs }),
      })
    },

    environment: async (deploymentId) => {
      const row = await findDeployment(db, deploymentId)
      if (!row) throw new Error(`there is no deployment ${deploymentId}`)
      return environment(row)
    },
    async code(deploymentId) {
      const columns = ['code_key', 'code_bytes'] as const
      const row = await db.selectFrom('deployments').select(columns).where('id', '=', deploymentId).executeTakeFirst()
      if (!row) throw new Error(`there is no deployment ${deploymentId}`)
      if (row.code_key === null) throw new CodeUnavailable('the code of its deployment is gone; deploy it again')
      return codeOf(objects, { key: row.code_key, bytes: row.code_bytes ?? 0 })
    },
    retire: (deploymentId) => endings.retire(deploymentId),

    onNotice(toEnd) {
      if (toEnd === undefined) builder.notify()
      else void builder.end(toEnd).catch((err: unknown) => log.warn({ err, deployment: toEnd }, 'a build could not be ended yet'))
    },

    start() {
      builder.start()
      background ??= lookAfter(stop.signal).catch(() => {}) // ends only by its signal
    },

    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await builder.stop()
      await background
      await Promise.all(deletions)
    },
  }
}
