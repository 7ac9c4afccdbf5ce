// What telemetry captures. The journal keeps it over a restart of Chromium; what is enabled in Chromium for it follows by itself (telemetry/capture).
import { atOnce, type Step } from './step.ts'
import type { FitParts } from './steps.ts'

export const telemetry = ({ journal }: Pick<FitParts, 'journal'>): Step => ({
  settings: ['telemetry'],
  async apply({ telemetry: wanted }) {
    await journal.capture(wanted!)
    return atOnce
  },
})
