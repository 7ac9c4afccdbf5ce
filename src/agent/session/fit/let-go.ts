// Keys and buttons: what a caller has left down is released.
import { atOnce, type Step } from './step.ts'
import type { FitParts } from './steps.ts'

/** The calls of that caller have ended, and each releases what it holds. */
const TURN_MS = 5_000

export const letGo = ({ hands }: Pick<FitParts, 'hands'>): Step => ({
  settings: ['let_go'],
  async apply() {
    await hands.letGo(AbortSignal.timeout(TURN_MS))
    return atOnce
  },
})
