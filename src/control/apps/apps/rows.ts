// The rows of apps: versions, and the deployments that they point at.
import type { Db } from '../../../store/db.ts'
import type { Paging } from '../../../store/lists.ts'
import { holds, isNamed } from '../../../store/names.ts'
import type { App } from './contract.ts'

export interface AppFilter extends Paging {
  app_name?: string | undefined
  version?: string | undefined
  query?: string | undefined
}

/** One page, newest first, with one row more than `limit` when there are more. */
export function listApps(db: Db, project: string, { app_name, version, query, offset, limit }: AppFilter) {
  let select = db
    .selectFrom('app_versions as v')
    .innerJoin('deployments as d', 'd.id', 'v.deployment_id')
    .select(['v.id', 'v.app_name', 'v.version', 'v.deployment_id', 'v.actions', 'd.region', 'd.env_keys'])
    .where('v.project_id', '=', project)
    .where('d.deletion', '=', 'kept')
  if (app_name) select = select.where(isNamed('v.app_name', app_name))
  if (version) select = select.where('v.version', '=', version)
  if (query) select = select.where((eb) => eb.or([eb('v.id', '=', query), eb('d.id', '=', query), holds('v.app_name', query)]))
  return select
    .orderBy('v.created_at', 'desc')
    .orderBy('v.app_name')
    .orderBy('v.id')
    .offset(offset)
    .limit(limit + 1)
    .execute()
}

/** The answer for a row. */
export const record = (row: Awaited<ReturnType<typeof listApps>>[number]): App => ({
  id: row.id,
  app_name: row.app_name,
  version: row.version,
  deployment: row.deployment_id,
  region: row.region as App['region'],
  actions: row.actions.map(({ name }) => ({ name, input_schema: null, output_schema: null })),
  env_vars: Object.fromEntries(row.env_keys.map((name) => [name, ''])),
})
