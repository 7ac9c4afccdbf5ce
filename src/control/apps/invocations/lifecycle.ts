// The states of a run and the moves between them.
import { sql } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'

export const invocationLifecycle = lifecycle({
  queued: ['running', 'succeeded', 'failed'], // waits for a sandbox; a caller may end it before it gets one
  running: ['succeeded', 'failed'], // the run was sent to its sandbox
  succeeded: [],
  failed: [],
})
export type InvocationState = (typeof invocationLifecycle)['states'][number]
/** The final states of a run. */
export type EndState = 'succeeded' | 'failed'
export const END_STATES = invocationLifecycle.states.filter((state) => invocationLifecycle.isTerminal(state))

const log: MoveLog = {
  table: 'app_events',
  columns: { deployment_id: sql`t.deployment_id`, invocation_id: sql`t.id`, kind: sql`'state'` },
  topic: sql`t.deployment_id`,
}
export const moveInvocation = mover({ table: 'invocations', lifecycle: invocationLifecycle, log })
