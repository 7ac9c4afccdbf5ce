// The proxy of the browser. Chromium reads it from a file, also at each start.
import type { FitParts } from './parts.ts'
import { atOnce, type Step } from './step.ts'

export const proxy = ({ proxy: browserProxy }: Pick<FitParts, 'proxy'>): Step => ({
  settings: ['proxy'],
  async apply({ proxy: wanted }) {
    await browserProxy.use(wanted!)
    return () => browserProxy.confirmed()
  },
  afterRestart: async () => (browserProxy.isOn ? () => browserProxy.confirmed({ isNewRun: true }) : atOnce),
})
