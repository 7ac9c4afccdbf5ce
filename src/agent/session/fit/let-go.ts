// What a caller leaves: keys and buttons that are down are released, and the next caller's stream of telemetry begins after its events, with nothing known of its secrets.
import type { Step } from './step.ts'
import type { FitParts } from './parts.ts'

/** The calls of that caller have ended, and each releases what it holds. */
const TURN_MS = 5_000

export const letGo = ({ inputQueue, eventBuffer, secrets }: Pick<FitParts, 'inputQueue' | 'eventBuffer' | 'secrets'>): Step => ({
  settings: ['let_go'],
  async apply() {
    await inputQueue.letGo(AbortSignal.timeout(TURN_MS))
    return async () => {
      eventBuffer.hideFromNext()
      secrets.forget()
    }
  },
})
