// The states of a browser and the moves between them.
import { sql } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'
import type { EndReason } from './end-step.ts'

export const browserLifecycle = lifecycle({
  starting: ['warm', 'running', 'stopping', 'failed'], // an instance is being booted
  warm: ['running', 'stopping', 'failed'], // booted, not yet claimed
  running: ['releasing', 'stopping', 'failed'], // claimed by a caller
  releasing: ['warm', 'stopping', 'failed'], // given back to its pool; its settings are being restored
  stopping: ['deleted', 'failed'], // being ended by a caller, its timeout or the service
  failed: ['deleted'], // ended by itself; being cleaned up
  deleted: [],
})
export type BrowserState = (typeof browserLifecycle)['states'][number]

const log: MoveLog = { table: 'browser_events', columns: { browser_id: sql`t.id` } }
/** For movers of browsers: those of this file, and the one in rows.ts. */
export const moving = { table: 'browsers', lifecycle: browserLifecycle, log } as const

export const moveBrowser = mover(moving)

/** The columns that a move to `stopping`, `failed` or `deleted` sets. For callers, the first of these moves deletes the session. */
export const ended = (reason: EndReason) => ({ end_reason: reason, deleted_at: sql`coalesce(deleted_at, now())` })
