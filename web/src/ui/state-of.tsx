// States of the API in words and colours.
import { State } from './show.tsx'

type Look = readonly [kind: 'good' | 'busy' | 'bad' | 'off', text: string]

const LOOKS: Record<string, Look> = {
  queued: ['busy', 'Queued'],
  in_progress: ['busy', 'Building'],
  running: ['good', 'Running'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed'],
  stopped: ['off', 'Stopped'],
  active: ['good', 'Active'],
  paused: ['off', 'Paused'],
  archived: ['off', 'Archived'],
  invited: ['busy', 'Invited'],
  available: ['good', 'Works'],
  unavailable: ['bad', 'Does not work'],
  AUTHENTICATED: ['good', 'Logged in'],
  NEEDS_AUTH: ['bad', 'Needs a login'],
  IN_PROGRESS: ['busy', 'In progress'],
  SUCCESS: ['good', 'Succeeded'],
  FAILED: ['bad', 'Failed'],
  EXPIRED: ['off', 'Expired'],
  CANCELED: ['off', 'Cancelled'],
  operational: ['good', 'Works'],
  degraded_performance: ['busy', 'Slow'],
  partial_outage: ['bad', 'Partly out'],
  full_outage: ['bad', 'Out'],
  maintenance: ['busy', 'Maintenance'],
}

export function StateOf({ state }: { state: string }) {
  const [kind, text] = LOOKS[state] ?? ['off', state]
  return <State kind={kind}>{text}</State>
}

/** Turns `AWAITING_INPUT` into "awaiting input". */
export const words = (name: string): string => name.toLowerCase().replaceAll('_', ' ')
