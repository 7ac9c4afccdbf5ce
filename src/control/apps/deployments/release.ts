// Releases a successful build as its apps' new version, in one transaction: it replaces the old version, and followers are told.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { badText } from '../../../http/body.ts'
import type { AppsFound } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import { lockEvents } from '../../../store/events.ts'
import { appendEvents } from '../apps/app-events.ts'
import type { StoredCode } from './code.ts'
import { moveDeployment } from './lifecycle.ts'
import { findDeployment, withoutValues } from './rows.ts'

/** A label that every deploy may replace; others need `force`. */
const FREE_VERSION = 'latest'
const MAX_APPS = 100
const MAX_ACTIONS = 1_000
/** Most actions of all apps together: all are in events that every follower reads. */
const MAX_ALL_ACTIONS = 10_000
const MAX_NAME = 255

export type Released = { ok: true; superseded: string[] } | { ok: false; reason: string }

/**
 * Makes the apps of a build the versions for new runs, with the object of their code. Undefined when the deployment is not being built any more (it was deleted).
 * Locks are always taken in this order: versions, then the log, then the deployment.
 */
export async function release(db: Db, id: string, found: AppsFound, code: StoredCode): Promise<Released | undefined> {
  const apps = [...new Map(found.map((app) => [app.name, app])).values()]
  const problem = problemOf(apps)
  if (problem !== undefined) return { ok: false, reason: problem }
  const made = await db.selectFrom('deployments').select(['app_version', 'project_id']).where('id', '=', id).executeTakeFirstOrThrow()
  const version = made.app_version ?? FREE_VERSION

  // A new run locks its version's row. So either the run is inserted before, and retire() sees it, or it uses the new deployment.
  const taken = await db
    .selectFrom('app_versions')
    .select(['id', 'app_name', 'deployment_id'])
    .where(
      'app_name',
      'in',
      apps.map(({ name }) => name),
    )
    .where('version', '=', version)
    .where('project_id', 'is not distinct from', made.project_id)
    .orderBy('app_name')
    .forUpdate()
    .execute()
  await sql`select ${lockEvents(sql`${id}`)}`.execute(db)
  await sql`select from deployments where id = ${id} for no key update`.execute(db)
  const row = await findDeployment(db, id)
  if (row?.state !== 'in_progress' || row.deletion !== 'kept') return undefined

  const clash = taken.at(0)
  if (clash && version !== FREE_VERSION && !row.force)
    return { ok: false, reason: `app ${clash.app_name} version ${version} exists already; deploy with force to replace it` }

  const ids = new Map(taken.map((held) => [held.app_name, held.id]))
  const actionsOf = ({ actions }: AppsFound[number]) => [...new Set(actions.map(({ name }) => name))].map((name) => ({ name }))
  for (const app of apps.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const columns = { deployment_id: id, actions: JSON.stringify(actionsOf(app)), created_at: sql<Date>`clock_timestamp()` }
    const held = ids.get(app.name)
    if (held !== undefined) await db.updateTable('app_versions').set(columns).where('id', '=', held).execute()
    else {
      const fresh = newId()
      ids.set(app.name, fresh)
      await db
        .insertInto('app_versions')
        .values({ id: fresh, project_id: made.project_id, app_name: app.name, version, ...columns })
        .execute()
    }
  }
  const summaries = apps.map((app) => ({
    id: ids.get(app.name)!,
    app_name: app.name,
    version,
    region: row.region,
    actions: actionsOf(app).map(({ name }) => ({ name, input_schema: null, output_schema: null })),
    env_vars: withoutValues(row.env_keys),
  }))
  await appendEvents(
    db,
    id,
    null,
    summaries.map((data) => ({ kind: 'app', data })),
  )
  await moveDeployment(db, id, 'running', null, { app_name: apps[0]!.name, code_key: code.key, code_bytes: code.bytes })
  return { ok: true, superseded: [...new Set(taken.map(({ deployment_id }) => deployment_id))] }
}

/** The problem of the apps of a build. The code is untrusted, so names may be anything. */
function problemOf(apps: AppsFound): string | undefined {
  if (apps.length === 0) return 'the code makes no app'
  if (apps.every(({ actions }) => actions.length === 0)) return `app ${shown(apps[0]!.name)} has no actions`
  if (apps.length > MAX_APPS) return `the code makes more than ${MAX_APPS} apps`
  if (apps.reduce((sum, { actions }) => sum + actions.length, 0) > MAX_ALL_ACTIONS) return `the code has more than ${MAX_ALL_ACTIONS} actions`
  for (const { name, actions } of apps) {
    if (actions.length > MAX_ACTIONS) return `app ${shown(name)} has more than ${MAX_ACTIONS} actions`
    const bad = [name, ...actions.map((action) => action.name)].find((text) => text === '' || text.length > MAX_NAME || badText(text))
    if (bad !== undefined) return `the name ${shown(bad)} cannot be used: names of apps and actions have 1 to ${MAX_NAME} characters, none of them U+0000`
  }
  return undefined
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 80).toWellFormed())
