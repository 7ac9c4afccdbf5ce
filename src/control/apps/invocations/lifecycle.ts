// The states of a run and the moves between them.
import { lifecycle } from '../../../base/lifecycle.ts'
import { invocationMoves, mover } from '../../../store/moves.ts'

export const invocationLifecycle = lifecycle({
  queued: ['running', 'succeeded', 'failed'], // waits for a sandbox; a caller may end it before that
  running: ['succeeded', 'failed'], // its sandbox has been given the run
  succeeded: [],
  failed: [],
})
export type InvocationState = (typeof invocationLifecycle)['states'][number]
/** How a run can end. */
export type EndState = 'succeeded' | 'failed'
export const END_STATES = invocationLifecycle.states.filter((state) => invocationLifecycle.isTerminal(state))

export const moveInvocation = mover({ table: 'invocations', lifecycle: invocationLifecycle, log: invocationMoves })
