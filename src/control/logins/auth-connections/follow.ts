// Follows a login: sends its whole state at once, then after each change, until it has ended.
import { resultWithin } from '../../../base/wait.ts'
import type { FlowEvent } from './contract.ts'
import type { FlowRow } from './flow-rows.ts'
import type { Flows } from './flows.ts'
import { flowLifecycle } from './lifecycle.ts'
import { stateEvent, type Links } from './present.ts'
import type { ConnectionWithProfile } from './rows.ts'

/** After this silence, readers get a heartbeat. */
const HEARTBEAT_MS = 15_000

interface Followed {
  read: () => Promise<ConnectionWithProfile | undefined>
  /** The last login, read before the stream begins: so a reader gets its end even if the connection is deleted just then. */
  last: FlowRow | undefined
  flows: Pick<Flows, 'next' | 'get'>
  linksOf: (flow: FlowRow) => Promise<Links>
}

const now = (): string => new Date().toISOString()

/** Ends with the login. Without one, sends only a heartbeat. If the connection is deleted meanwhile, the login counts as canceled. */
export async function* followFlow({ read, last, flows, linksOf }: Followed, signal: AbortSignal): AsyncGenerator<FlowEvent> {
  if (!last) return yield { event: 'sse_heartbeat', timestamp: now() }
  let before: Omit<Extract<FlowEvent, { event: 'managed_auth_state' }>, 'timestamp'> | undefined
  let saidAt = performance.now()
  while (!signal.aborted) {
    // Subscribe before reading, so that no change between the two is missed.
    const next = flows.next(last.id, signal)
    try {
      // In this order: a reader that gets the end also sees its effects on the connection.
      const flow = await flows.get(last.id)
      const connection = await read()
      if (!connection || !flow) {
        yield { event: 'managed_auth_state', flow_type: before?.flow_type, flow_status: 'CANCELED', flow_step: 'COMPLETED', timestamp: now() }
        return
      }
      const state = stateEvent(connection, flow, await linksOf(flow))
      if (JSON.stringify(state) !== JSON.stringify(before)) {
        before = state
        saidAt = performance.now()
        yield { ...state, timestamp: now() }
      }
      if (flowLifecycle.isTerminal(flow.state)) return
      await resultWithin(Math.max(1, saidAt + HEARTBEAT_MS - performance.now()), next.promise, signal)
    } finally {
      next.leave()
    }
    if (performance.now() < saidAt + HEARTBEAT_MS || signal.aborted) continue
    saidAt = performance.now()
    yield { event: 'sse_heartbeat', timestamp: now() }
  }
}
