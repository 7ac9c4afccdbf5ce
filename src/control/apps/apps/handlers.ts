// Handlers of the Apps contract, from the versions and the deployments that they point at.
import { known, type Handlers } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import { holds, isNamed } from '../../../store/names.ts'
import type { apps } from './contract.ts'

export const appHandlers = (db: Db): Handlers<typeof apps> => ({
  async listApps({ principal, query: { app_name, version, query, offset, limit } }) {
    const { project } = known(principal)
    let select = db
      .selectFrom('app_versions as v')
      .innerJoin('deployments as d', 'd.id', 'v.deployment_id')
      .select(['v.id', 'v.app_name', 'v.version', 'v.deployment_id', 'v.actions', 'd.region', 'd.env_keys'])
      .where('v.project_id', '=', project)
      .where('d.deletion', '=', 'kept')
    if (app_name) select = select.where(isNamed('v.app_name', app_name))
    if (version) select = select.where('v.version', '=', version)
    if (query) select = select.where((eb) => eb.or([eb('v.id', '=', query), eb('d.id', '=', query), holds('v.app_name', query)]))
    const rows = await select
      .orderBy('v.created_at', 'desc')
      .orderBy('v.app_name')
      .orderBy('v.id')
      .offset(offset)
      .limit(limit + 1)
      .execute()
    return pageOf(rows, { offset, limit }, (row) => ({
      id: row.id,
      app_name: row.app_name,
      version: row.version,
      deployment: row.deployment_id,
      region: row.region as 'aws.us-east-1a',
      actions: row.actions.map(({ name }) => ({ name, input_schema: null, output_schema: null })),
      env_vars: Object.fromEntries(row.env_keys.map((name) => [name, ''])),
    }))
  },
})
