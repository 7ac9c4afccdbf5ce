// The states of a flow and the moves between them. Its steps (DISCOVERING, AWAITING_INPUT, …) are a column of their own: what a flow in progress is at.
import { sql } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'

export const flowLifecycle = lifecycle({
  IN_PROGRESS: ['SUCCESS', 'FAILED', 'EXPIRED', 'CANCELED', 'AUTHENTICATED', 'NEEDS_AUTH'],
  SUCCESS: [],
  FAILED: [], // also of health checks that could not tell
  EXPIRED: [],
  CANCELED: [],
  AUTHENTICATED: [], // of health checks
  NEEDS_AUTH: [], // of health checks
})
export type FlowState = (typeof flowLifecycle.states)[number]

const log: MoveLog = { table: 'auth_flow_events', columns: { flow_id: sql`t.id` }, deployment: sql`t.id` }
export const moveFlow = mover({ table: 'auth_flows', lifecycle: flowLifecycle, log })

/** What is forgotten when a flow ends. Its last question stays, as its callers may look at it. */
export const FORGET = { answer: null, typed: null, landing: null, replica: null, input_until: null }
