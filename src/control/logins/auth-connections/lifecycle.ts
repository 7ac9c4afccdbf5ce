// The states of a flow and the moves between them. Its steps (DISCOVERING, AWAITING_INPUT, …) are a separate column: the progress of a flow.
import { sql } from 'kysely'
import { lifecycle } from '../../../base/lifecycle.ts'
import { mover, type MoveLog } from '../../../store/moves.ts'

export const flowLifecycle = lifecycle({
  IN_PROGRESS: ['SUCCESS', 'FAILED', 'EXPIRED', 'CANCELED', 'AUTHENTICATED', 'NEEDS_AUTH'],
  SUCCESS: [],
  FAILED: [], // also for inconclusive health checks
  EXPIRED: [],
  CANCELED: [],
  AUTHENTICATED: [], // for health checks
  NEEDS_AUTH: [], // for health checks
})
export type FlowState = (typeof flowLifecycle.states)[number]

const log: MoveLog = { table: 'auth_flow_events', columns: { flow_id: sql`t.id` }, topic: sql`t.id` }
export const moveFlow = mover({ table: 'auth_flows', lifecycle: flowLifecycle, log })

/** The columns that are cleared when a flow ends. Its last question stays, because callers may still read it. */
export const FORGET = { answer: null, typed: null, landing: null, replica: null, input_until: null }
