// Cleans up after a caller: keys and buttons that are down are released. The next caller's stream of telemetry begins after this one's events and without its
// secrets.
import type { Step } from './step.ts'
import type { FitParts } from './parts.ts'

/** The calls of that caller have ended, and each releases its own keys and buttons. */
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
