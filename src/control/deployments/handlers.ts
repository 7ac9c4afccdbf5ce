// The Deployments contract, answered from its table.
import type { z } from 'zod'
import { fault } from '../../http/fault.ts'
import type { Handlers } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import type { Deployment, deployments } from './contract.ts'

export const deploymentHandlers = (db: Db): Handlers<typeof deployments> => ({
  async getDeployment({ params }) {
    const row = await db.selectFrom('deployments').selectAll().where('id', '=', params.id).executeTakeFirst()
    if (!row) throw fault.notFound('deployment', params.id)
    const { id, created_at, updated_at, region, state, env_keys, app_name: _app, app_version: _version, ...optional } = row
    const present = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null))
    return {
      ...present,
      id,
      created_at: created_at.toISOString(),
      updated_at: updated_at.toISOString(),
      region: region as 'aws.us-east-1a',
      status: state as z.infer<typeof Deployment>['status'],
      env_vars: Object.fromEntries(env_keys.map((name) => [name, ''])),
    }
  },
})
