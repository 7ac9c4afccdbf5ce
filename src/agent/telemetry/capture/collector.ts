// The interface of a collector, which turns Chromium's events of one target into telemetry events. targets.ts adds and removes targets.
import type { CdpSession } from '../../chromium/cdp.ts'
import type { SettableCategory, Source } from '../contract.ts'
import type { Teller } from '../telemetry.ts'

/** The place of an event, as in its data. Unknown fields are absent. */
export interface Context {
  target_id: string
  target_type: 'page' | 'iframe' | 'worker' | 'background_page' | 'service_worker' | 'shared_worker' | 'other'
  session_id?: string
  frame_id?: string
  loader_id?: string
  /** Number of navigations of the target's top frame, from 1. */
  nav_seq?: number
  url?: string
}

/** The source of a target's event: the CDP event, with the ids of its target and session. */
export const cdpSource = (event: string, { target_id, session_id }: Context): Source => ({
  kind: 'cdp',
  event,
  metadata: { target_id, ...(session_id !== undefined && { session_id }) },
})

/** A target that telemetry watches, in one session of the agent's CDP client that all collectors share. */
export interface WatchedTarget {
  session: CdpSession
  type: Context['target_type']
  /** The present context of an event; `more` replaces known fields. */
  context(more?: Partial<Context>): Context
  /** Aborts when the target has ended, or is not captured any more. Ends its timers and listeners. */
  signal: AbortSignal
}

/** Collects events of targets for its categories. */
export interface Collector {
  /** The collector works while one of these is captured. */
  categories: readonly SettableCategory[]
  /** Whether it finds secrets that other collectors must leave out. While it does not work on a target of its types, texts of that target are left out. */
  isGuard?: boolean
  /** Which targets it watches. */
  types: readonly Context['target_type'][]
  /**
   * Starts with one target: enables the domains that it needs, and listens. The returned function ends listeners of `target.session`, and disables the domains
   * unless the target has ended. Called for existing targets, and for each new one before its first script runs.
   * @throws as CdpSession.send; the target is then reported by `monitor_init_failed`, unless it has ended
   */
  watch(target: WatchedTarget, telemetry: Teller): Promise<() => Promise<void>>
}

/**
 * Starts with a target, and returns the function that ends it. `end` is also called when the target has ended, or the start failed; `disable` only while the
 * target exists.
 */
export async function watching(
  { session, signal }: WatchedTarget,
  { begin, end, disable }: { begin: () => Promise<unknown>; end: () => void; disable: () => Promise<unknown> },
): Promise<() => Promise<void>> {
  signal.addEventListener('abort', end, { once: true })
  try {
    await begin()
  } catch (error) {
    end()
    throw error
  }
  return async () => {
    end()
    if (!session.detached.aborted) await disable()
  }
}
