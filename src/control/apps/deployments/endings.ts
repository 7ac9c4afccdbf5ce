// The ends of deployments: superseded, deleted, failed, lost. And the cleanup after them, at once and later.
import { sql, type SqlBool } from 'kysely'
import type { Log } from '../../../base/log.ts'
import type { AppSandboxes } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { lockEvents } from '../../../store/events.ts'
import type { Objects } from '../../../store/objects.ts'
import { releaseDeploymentKey } from '../../access/keys.ts'
import type { Rights } from '../../access/rights.ts'
import { deploymentLifecycle, moveDeletion, moveDeployment } from './lifecycle.ts'
import { findDeployment } from './rows.ts'

const DELETED = 'it was deleted'
const TERMINAL = deploymentLifecycle.states.filter((state) => deploymentLifecycle.isTerminal(state))

interface EndingSettings {
  db: Db
  rights: Rights
  objects: Objects
  sandboxes: AppSandboxes
  scope: string
  log: Log
  /** Ends a deployment's build, if there is one. */
  endBuild: (id: string) => Promise<void>
  /** Ends every run of a deployment, and its warm sandbox. */
  endRuns: (id: string, reason: string) => Promise<void>
}

export type Endings = ReturnType<typeof makeEndings>

export function makeEndings({ db, rights, objects, sandboxes, scope, log, endBuild, endRuns }: EndingSettings) {
  const cleaning = new Map<string, Promise<void>>()
  /** Removes the data of a failed or stopped deployment: code, archive, key, secrets. Repeated calls are harmless. */
  function clean(id: string): Promise<void> {
    const under = cleaning.get(id) ?? cleanNow(id).finally(() => cleaning.delete(id))
    cleaning.set(id, under)
    return under
  }
  async function cleanNow(id: string): Promise<void> {
    const row = await findDeployment(db, id)
    if (!row || row.scope !== scope || !deploymentLifecycle.isTerminal(row.state)) return
    await releaseDeploymentKey(db, rights, id)
    // Nothing runs any more, but a warm sandbox may still wait for the next run.
    if (row.state === 'stopped') await endRuns(id, DELETED)
    if (row.code_key !== null) await sandboxes.forget(row.code_key)
    for (const key of [row.archive, row.code_key]) if (key !== null) await objects.delete(key)
    // Last: while the row has secrets, the cleanup counts as unfinished.
    await db.updateTable('deployments').set({ archive: null, code_key: null, code_bytes: null, secrets: null }).where('id', '=', id).execute()
  }

  /** Stops a running deployment to which no version points and on which nothing runs. Repeated calls are harmless. */
  async function retire(id: string): Promise<void> {
    const isStopped = await db.transaction().execute(async (tx) => {
      // A run is created under a lock on the version that points here. When no version points here, no run can be created.
      await sql`select ${lockEvents(sql`${id}`)}`.execute(tx)
      await sql`select from deployments where id = ${id} for no key update`.execute(tx)
      const idle = await tx
        .selectFrom('deployments as d')
        .select('d.deletion')
        .where('d.id', '=', id)
        .where('d.state', '=', 'running')
        .where(IS_SUPERSEDED)
        .where(sql<SqlBool>`not exists (select from invocations i where i.deployment_id = d.id and i.finished_at is null)`)
        .executeTakeFirst()
      if (idle === undefined) return false
      return (await moveDeployment(tx, id, 'stopped', idle.deletion !== 'kept' ? DELETED : 'a newer deployment has taken its place')) !== undefined
    })
    if (isStopped) await clean(id)
  }

  /** Carries out a recorded deletion (`deleting`): ends everything that belongs to the deployment. Repeated calls are harmless. */
  async function finishDeletion(id: string): Promise<void> {
    await db.deleteFrom('app_versions').where('deployment_id', '=', id).execute()
    if ((await moveDeployment(db, id, 'failed', DELETED)) === undefined) {
      await endRuns(id, 'its deployment was deleted')
      await moveDeployment(db, id, 'stopped', DELETED)
    }
    await endBuild(id)
    await clean(id)
    // Secrets are removed last. While they exist, the next round of tidy() continues.
    if ((await findDeployment(db, id))?.secrets === null) await moveDeletion(db, id, 'deleted', null)
  }

  /** Finishes work that a crash or an unavailable database has interrupted. */
  async function tidy(): Promise<void> {
    const mine = db.selectFrom('deployments as d').select('d.id').where('d.scope', '=', scope)
    const each = async (what: string, rows: { id: string }[], work: (id: string) => Promise<void>) => {
      for (const { id } of rows) await work(id).catch((err: unknown) => log.error({ err, deployment: id }, `${what} did not work yet`))
    }
    const deleted = await mine.where('d.deletion', '=', 'deleting').execute()
    await each('ending a deleted deployment', deleted, finishDeletion)
    const superseded = await mine.where('d.state', '=', 'running').where('d.deletion', '=', 'kept').where(IS_SUPERSEDED).execute()
    await each('retiring a deployment', superseded, retire)
    await each('cleaning up after a deployment', await mine.where('d.state', 'in', TERMINAL).where('d.secrets', 'is not', null).execute(), async (id) => {
      await endBuild(id)
      await clean(id)
    })
  }

  return { clean, retire, finishDeletion, tidy }
}

const IS_SUPERSEDED = sql<SqlBool>`not exists (select from app_versions v where v.deployment_id = d.id)`
