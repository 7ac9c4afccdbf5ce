// The states of a deployment and the moves between them.
import { sql, type RawBuilder } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import type { Db } from '../../../store/db.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'

export const deploymentLifecycle = lifecycle({
  queued: ['in_progress', 'failed'],
  in_progress: ['running', 'failed'],
  running: ['stopped'],
  stopped: [],
  failed: [],
})

export type DeploymentState = (typeof deploymentLifecycle.states)[number]

/** The event log of a deployment. `kind`: which of its lifecycles has moved. */
const logOf = (kind: RawBuilder<string>): MoveLog => ({ table: 'app_events', columns: { deployment_id: sql`t.id`, kind }, topic: sql`t.id` })
const move = mover({ table: 'deployments', lifecycle: deploymentLifecycle, log: logOf(sql`'state'`) })

/** Moves a deployment if its lifecycle allows it; undefined when another caller was first. Callers see the reason. */
export function moveDeployment(db: Db, id: string, to: DeploymentState, reason: string | null, columns: Record<string, unknown> = {}) {
  const now = new Date()
  return move(db, id, to, reason, {
    status_reason: reason,
    updated_at: now,
    ...(deploymentLifecycle.isTerminal(to) && { finished_at: now }),
    ...columns,
  })
}

/** Whether a deployment is being deleted. This is separate from its state, because a deleted deployment must first come to an end. */
export const deletionLifecycle = lifecycle({
  kept: ['deleting'],
  deleting: ['deleted'], // not found by callers any more; its build, runs and code are being removed
  deleted: [], // only its record and its log are left
})

export type Deletion = (typeof deletionLifecycle.states)[number]

export const moveDeletion = mover({ table: 'deployments', column: 'deletion', lifecycle: deletionLifecycle, log: logOf(sql`'deletion'`) })
