// Where events of targets come from, as they say it.
import type { Source } from '../contract.ts'
import type { Context } from './collector.ts'

/** The event of CDP, with the ids of its target and session. */
export const cdpSource = (event: string, { target_id, session_id }: Context): Source => ({
  kind: 'cdp',
  event,
  metadata: { target_id, ...(session_id !== undefined && { session_id }) },
})
