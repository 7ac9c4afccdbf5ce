// What a collector is: it turns what Chromium says of one target into events. Targets come and go by targets.ts.
import type { CdpSession } from '../../chromium/cdp.ts'
import type { SettableCategory, Source } from '../contract.ts'
import type { Teller } from '../telemetry.ts'

/** Where an event happened, as its data says it. Fields that are not known are absent. */
export interface Context {
  target_id: string
  target_type: 'page' | 'iframe' | 'worker' | 'background_page' | 'service_worker' | 'shared_worker' | 'other'
  session_id?: string
  frame_id?: string
  loader_id?: string
  /** Counts the navigations of the target's top frame, from 1. */
  nav_seq?: number
  url?: string
}

/** Where an event of a target comes from: the event of CDP, with the ids of its target and session. */
export const cdpSource = (event: string, { target_id, session_id }: Context): Source => ({
  kind: 'cdp',
  event,
  metadata: { target_id, ...(session_id !== undefined && { session_id }) },
})

/** A target that telemetry watches, in one session of the agent's CDP client that all collectors share. */
export interface WatchedTarget {
  session: CdpSession
  type: Context['target_type']
  /** The context of an event now; what is given replaces what is known. */
  context(more?: Partial<Context>): Context
  /** Aborts when the target has gone, or nothing of it is captured any more. Its timers and listeners end by it. */
  signal: AbortSignal
}

/** Collects events of targets for its categories. */
export interface Collector {
  /** It works while one of them is captured. */
  categories: readonly SettableCategory[]
  /** Whether it finds out what others must not tell. While it does not work on a target of its types, texts of that are left out. */
  isGuard?: boolean
  /** Which targets it watches. */
  types: readonly Context['target_type'][]
  /**
   * Begins with one target: enables the domains that it needs, and listens. Listeners of `target.session` end with the returned function, which also disables
   * what was enabled, unless the target has gone. Called for targets that exist, and for each new one before its first script runs.
   * @throws as CdpSession.send; the target is then reported by `monitor_init_failed`, unless it has gone
   */
  watch(target: WatchedTarget, telemetry: Teller): Promise<() => Promise<void>>
}
