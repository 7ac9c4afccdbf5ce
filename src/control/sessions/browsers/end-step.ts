// What happens when a session ends: the shape of one step. Modules fill `sessionEnding` (hooks.ts); fleet/endings.ts runs the steps.
import type { END_REASONS } from './contract.ts'

/** Why a session ended. Clients whose sockets are closed by it get it as well. */
export type EndReason = (typeof END_REASONS)[number]

/** A session that ends. */
export interface EndingSession {
  id: string
  reason: EndReason
}

/**
 * One step of an end. Steps run in the order of their list, one after the other. A step that the service did not finish runs again, in this process
 * or in the next one, so it must do no harm when it runs twice.
 */
export interface EndStep {
  /** Stored with the session when the step is done, so a name never changes. */
  name: string
  /** Time limit in milliseconds. `run` gets a signal that aborts then. */
  limitMs: number
  /**
   * Whether the end continues without this step when it fails or exceeds its limit. Otherwise the end is tried again later, from this step on.
   */
  mayFail: boolean
  /** Whether callers who end a session wait for this step, and for those after it, only when they ask for that. */
  isBehind?: boolean
  /**
   * Does the step. A step that returns no promise had nothing to wait for, and one that resolves with `nothing` has found nothing to do: it is not recorded by a statement of
   * its own, and the next process may run it again. A step whose work callers need not wait for says so by `outOfUse`, once nobody reaches the session any more and the next service would find that
   * work: callers then get their answer.
   */
  run(session: EndingSession, signal: AbortSignal, outOfUse: () => void): Promise<void | 'nothing'> | undefined
}
