// The states of a replay and the moves between them.
import { sql } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'

export const replayLifecycle = lifecycle({
  starting: ['recording'], // its agent has been asked, and nobody has been told of it; if that fails, the row is removed
  recording: ['finished'], // it grows
  finished: ['ready'], // its last picture is known; what was recorded is being made a video
  ready: [], // it can be downloaded, until its retention has passed and it is removed
})
export type ReplayState = (typeof replayLifecycle)['states'][number]

const log: MoveLog = { table: 'replay_events', columns: { replay_id: sql`t.id` } }
/** For movers of replays: this one, and the one of rows.ts. */
export const moving = { table: 'replays', lifecycle: replayLifecycle, log } as const

export const moveReplay = mover(moving)
