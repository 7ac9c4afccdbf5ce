// The states of a replay and the moves between them.
import { lifecycle } from '../../base/lifecycle.ts'
import { mover, replayMoves } from '../../store/moves.ts'

export const replayLifecycle = lifecycle({
  starting: ['recording'], // its agent has been asked, and nobody has been told of it; if that fails, the row is removed
  recording: ['finished'], // it grows
  finished: ['ready'], // its last picture is known; what was recorded is being made a film
  ready: [], // it can be downloaded, until its retention has passed and it is removed
})
export type ReplayState = (typeof replayLifecycle)['states'][number]

export const moveReplay = mover({ table: 'replays', lifecycle: replayLifecycle, log: replayMoves })
