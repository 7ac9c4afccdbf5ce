// What happens when a session ends: the shape of one step. Modules fill `sessionEnding` (hooks.ts); fleet/endings.ts runs the steps.
import type { END_REASONS } from './contract.ts'

/** Why a session ended. Clients whose sockets are closed by it get it as well. */
export type EndReason = (typeof END_REASONS)[number]

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
  /** Callers who end a session wait for this step and the later ones only if they ask for that. */
  isBehind?: boolean
  /**
   * Does the step. A step that returns no promise had nothing to wait for. A step that resolves with `nothing` had nothing to do: it is not recorded, so the
   * next process may run it again. A step calls `outOfUse` when no caller can reach the session any more and the next service would find the rest of the work.
   * Callers get their answer then.
   */
  run(session: EndingSession, signal: AbortSignal, outOfUse: () => void): Promise<void | 'nothing'> | undefined
}
