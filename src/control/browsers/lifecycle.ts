// The states of a browser and the moves between them.
import { lifecycle } from '../../base/lifecycle.ts'
import { browserMoves, mover } from '../../store/moves.ts'

export const browserLifecycle = lifecycle({
  starting: ['warm', 'running', 'stopping', 'failed'], // an instance is being booted
  warm: ['running', 'stopping', 'failed'], // booted, owned by nobody
  running: ['stopping', 'failed'], // a caller's session
  stopping: ['deleted', 'failed'], // asked to end, by a caller, its timeout or the service
  failed: ['deleted'], // ended by itself; being cleaned up
  deleted: [],
})
export type BrowserState = (typeof browserLifecycle)['states'][number]

export const moveBrowser = mover({ table: 'browsers', lifecycle: browserLifecycle, log: browserMoves })
