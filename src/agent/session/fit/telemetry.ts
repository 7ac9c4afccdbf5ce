// The categories that telemetry captures. The event buffer keeps them over a restart of Chromium; the capture in Chromium follows by itself
// (telemetry/capture).
import { atOnce, type Step } from './step.ts'
import type { FitParts } from './parts.ts'

export const telemetry = ({ eventBuffer }: Pick<FitParts, 'eventBuffer'>): Step => ({
  settings: ['telemetry'],
  async apply({ telemetry: wanted }) {
    await eventBuffer.capture(wanted!)
    return atOnce
  },
})
