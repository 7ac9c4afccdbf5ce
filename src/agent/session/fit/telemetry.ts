// What telemetry captures. The event buffer keeps it over a restart of Chromium; what is enabled in Chromium for it follows by itself (telemetry/capture).
import { atOnce, type Step } from './step.ts'
import type { FitParts } from './parts.ts'

export const telemetry = ({ eventBuffer }: Pick<FitParts, 'eventBuffer'>): Step => ({
  settings: ['telemetry'],
  async apply({ telemetry: wanted }) {
    await eventBuffer.capture(wanted!)
    return atOnce
  },
})
