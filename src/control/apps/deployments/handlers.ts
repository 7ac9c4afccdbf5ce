// Handlers of the Deployments contract.
import { known, type Handlers } from '../../../http/route.ts'
import { parseSince } from '../apps/since.ts'
import type { deployments as contract } from './contract.ts'
import type { Deployments } from './deployments.ts'

export const deploymentHandlers = (deployments: Deployments): Handlers<typeof contract> => ({
  createDeployment: ({ principal, body, signal }) => deployments.create(known(principal).project, body, signal),
  listDeployments: ({ principal, query }) => deployments.list(known(principal).project, query),
  getDeployment: ({ principal, params }) => deployments.get(known(principal).project, params.id),
  deleteDeployment: ({ principal, params }) => deployments.delete(known(principal).project, params.id),
  followDeployment: ({ principal, params, query, headers, signal }) =>
    deployments.follow(known(principal).project, params.id, parseSince(query.since), headers['last-event-id'], signal),
})
