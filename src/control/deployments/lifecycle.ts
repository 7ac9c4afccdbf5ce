// The states of a deployment and the moves between them. Creating and building them is later work.
import { lifecycle } from '../../base/lifecycle.ts'
import { mover } from '../../store/moves.ts'

export const deploymentLifecycle = lifecycle({
  queued: ['in_progress', 'failed'],
  in_progress: ['running', 'failed'],
  running: ['stopped'],
  stopped: [],
  failed: [],
})

export const moveDeployment = mover({ table: 'deployments', events: 'deployment_events', key: 'deployment_id', lifecycle: deploymentLifecycle })
