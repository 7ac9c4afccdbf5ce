// Tells when a person may act in the browser of a login: in the step AWAITING_EXTERNAL_ACTION only. In other steps the login itself acts, and fields may
// contain stored values.
import type { Log } from '../../../base/log.ts'
import type { FlowRow } from './flow-rows.ts'
import type { Flows } from './flows.ts'

export const mayAct = (flow: Pick<FlowRow, 'state' | 'step'> | undefined): boolean => flow?.state === 'IN_PROGRESS' && flow.step === 'AWAITING_EXTERNAL_ACTION'

/** A signal that aborts when this step of a flow ends, at any replica; undefined when the flow is not in it. `signal` ends the watching. */
export async function whileActing(id: string, flows: Pick<Flows, 'get' | 'next'>, log: Log, signal: AbortSignal): Promise<AbortSignal | undefined> {
  // Subscribe before reading, so that an end in between is not missed.
  const first = flows.next(id, signal)
  first.promise.catch(() => {}) // nobody may wait for it
  try {
    if (!mayAct(await flows.get(id))) return undefined
  } catch (error) {
    first.leave()
    throw error
  }
  const over = new AbortController()
  const watch = async () => {
    for (let next = first; ; next = flows.next(id, signal)) {
      try {
        await next.promise
      } finally {
        next.leave()
      }
      if (!mayAct(await flows.get(id))) return
    }
  }
  watch()
    .catch(
      (err: unknown) => signal.aborted || log.warn({ err, flow: id }, 'the step of a login is not known; nobody acts in its browser until the page asks again'),
    )
    .finally(() => over.abort())
  return over.signal
}
