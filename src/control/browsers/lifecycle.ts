// The states of a browser and the moves between them.
import { lifecycle } from '../../base/lifecycle.ts'
import { browserMoves, firstMover, mover } from '../../store/moves.ts'
import type { BrowserRow } from './rows.ts'

export const browserLifecycle = lifecycle({
  starting: ['warm', 'running', 'stopping', 'failed'], // an instance is being booted
  warm: ['running', 'stopping', 'failed'], // booted, not yet claimed
  running: ['stopping', 'failed'], // claimed by a caller
  stopping: ['deleted', 'failed'], // being ended by a caller, its timeout or the service
  failed: ['deleted'], // ended by itself; being cleaned up
  deleted: [],
})
export type BrowserState = (typeof browserLifecycle)['states'][number]

const moving = { table: 'browsers', lifecycle: browserLifecycle, log: browserMoves } as const

export const moveBrowser = mover(moving)
/** Moves one of several browsers, and returns its row. */
export const moveFirstBrowser = firstMover<BrowserRow, BrowserState>(moving)
