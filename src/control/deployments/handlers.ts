// Handlers of the Deployments contract.
import type { Handlers } from '../../http/route.ts'
import { parseSince } from '../apps/since.ts'
import type { deployments as contract } from './contract.ts'
import type { Deployments } from './deployments.ts'

export const deploymentHandlers = (deployments: Deployments): Handlers<typeof contract> => ({
  createDeployment: ({ body, signal }) => deployments.create(body, signal),
  listDeployments: ({ query }) => deployments.list(query),
  getDeployment: ({ params }) => deployments.get(params.id),
  deleteDeployment: ({ params }) => deployments.delete(params.id),
  followDeployment: ({ params, query, headers, signal }) => deployments.follow(params.id, parseSince(query.since), headers['last-event-id'], signal),
})
