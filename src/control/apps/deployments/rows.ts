// The deployments' rows: their columns, the answers made of them, and the queries.
import { sql, type NotNull, type RawBuilder, type Selectable, type SqlBool } from 'kysely'
import type { Db } from '../../../store/db.ts'
import { newest, type Paging } from '../../../store/lists.ts'
import { holds, isNamed } from '../../../store/names.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import type { Tables } from '../../../store/tables.ts'
import type { Deployment } from './contract.ts'
import type { Deletion, DeploymentState } from './lifecycle.ts'

export type DeploymentRow = Omit<Selectable<Tables['deployments']>, 'state' | 'deletion'> & { state: DeploymentState; deletion: Deletion }

/** The secrets of a deployment, which are stored sealed. */
export interface Secrets {
  /** The caller's own variables. */
  env: Record<string, string>
  /** Its key for the API. */
  key: string
  /** The token for a private repository. */
  token?: string
}

/** The answer for a deployment. Of its variables only the names: no answer contains their values. */
export function record(row: DeploymentRow): Deployment {
  const optional = {
    entrypoint_rel_path: row.entrypoint_rel_path,
    source_type: row.source_type as Deployment['source_type'] | null,
    source_url: row.source_url,
    source_ref: row.source_ref,
    source_path: row.source_path,
    source_checksum: row.source_checksum,
    status_reason: row.status_reason,
  }
  return {
    id: row.id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    region: row.region as Deployment['region'],
    status: row.state,
    env_vars: withoutValues(row.env_keys),
    ...(Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null)) as Partial<Deployment>),
  }
}

export const withoutValues = (names: readonly string[]): Record<string, string> => Object.fromEntries(names.map((name) => [name, '']))

export const findDeployment = async (db: Db, id: string): Promise<DeploymentRow | undefined> =>
  (await db.selectFrom('deployments').selectAll().where('id', '=', id).executeTakeFirst()) as unknown as DeploymentRow | undefined

export interface DeploymentFilter extends Paging {
  app_name?: string | undefined
  app_version?: string | undefined
  query?: string | undefined
}

/** One deployment may have several apps. Its row names the first; its log names all of them. */
const hasApp = (matches: (name: string) => RawBuilder<SqlBool>): RawBuilder<SqlBool> => sql`(${matches('d.app_name')} or exists (
  select from (select data->>'app_name' as app_name from app_events where deployment_id = d.id and kind = 'app') found where ${matches('found.app_name')}))`

/** One page of deployments, newest first, with one row more than `limit` when there are more. */
export async function listDeployments(db: Db, project: string, { app_name, app_version, query, ...paging }: DeploymentFilter): Promise<DeploymentRow[]> {
  let select = db.selectFrom('deployments as d').selectAll('d').where('d.project_id', '=', project).where('d.deletion', '=', 'kept')
  if (app_name) select = select.where(hasApp((name) => isNamed(name, app_name)))
  if (app_version) select = select.where('d.app_version', '=', app_version)
  if (query) select = select.where((eb) => eb.or([eb('d.id', '=', query), hasApp((name) => holds(name, query))]))
  return (await select.$call(newest('d', paging)).execute()) as unknown as DeploymentRow[]
}

/** The next deployment of this scope to build, without those named: builds in progress first, then the queue. */
export async function nextToBuild(db: Db, scope: string, except: string[]): Promise<DeploymentRow | undefined> {
  return (await db
    .selectFrom('deployments')
    .selectAll()
    .where('scope', '=', scope)
    .where('state', 'in', ['queued', 'in_progress'])
    .where('deletion', '=', 'kept')
    .where(sql<SqlBool>`id <> all(${except})`)
    .orderBy('state')
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()) as unknown as DeploymentRow | undefined
}

/** Deployments of this scope with a build in progress that are not being deleted. A row names its sandbox before the sandbox exists. */
export const buildsInProgress = (db: Db, scope: string): Promise<{ id: string; sandbox_id: string }[]> =>
  db
    .selectFrom('deployments')
    .select(['id', 'sandbox_id'])
    .where('scope', '=', scope)
    .where('state', '=', 'in_progress')
    .where('deletion', '=', 'kept')
    .where('sandbox_id', 'is not', null)
    .$narrowType<{ sandbox_id: NotNull }>()
    .execute()

/** The sandboxes that the rows of these deployments name now. */
export const sandboxesNamed = (db: Db, ids: string[]): Promise<(Pick<DeploymentRow, 'id' | 'sandbox_id'> & { state: string })[]> =>
  db.selectFrom('deployments').select(['id', 'sandbox_id', 'state']).where('id', 'in', ids).execute()

const ARCHIVES = 'archives'

/** The key of a deployment's archive. */
export const archiveKey = (id: string): string => `${ARCHIVES}/${id}`

const CODE = 'code'

/** The key of a deployment's code. It holds the deployment's id, by which the sweep finds the row. */
export const codeKey = (id: string, fresh: string): string => `${CODE}/${id}.${fresh}`

/** The code of deployments; the sweep removes objects that no row names. */
export const codeObjects = (db: Db, scope: string): ObjectOwner => namedBy(db, scope, CODE, 'code_key')

/** The archives of deployments; the sweep removes objects that no row names. */
export const archiveObjects = (db: Db, scope: string): ObjectOwner => namedBy(db, scope, ARCHIVES, 'archive')

/** The objects that one column of deployments names. */
const namedBy = (db: Db, scope: string, prefix: string, column: 'archive' | 'code_key'): ObjectOwner => ({
  prefix,
  async named(ids) {
    const rows = await db.selectFrom('deployments').select(`${column} as key`).where('id', 'in', ids).where(column, 'is not', null).execute()
    return rows.map(({ key }) => key!)
  },
  async expected(after, limit) {
    const keys = db
      .selectFrom('deployments')
      .select(['id', `${column} as key`])
      .where('scope', '=', scope)
      .where(column, 'is not', null)
    const rows = await keys.where('id', '>', after).orderBy('id').limit(limit).execute()
    return rows.map(({ id, key }) => ({ id, keys: [key!] }))
  },
})
