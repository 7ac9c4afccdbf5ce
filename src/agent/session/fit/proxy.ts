// The proxy of the browser. Chromium reads it from a file of policies, also at each start; a lean one is started again with it.
import type { FitParts } from './parts.ts'
import { atOnce, type Step } from './step.ts'

export const proxy = ({ proxy: browserProxy }: Pick<FitParts, 'proxy'>): Step => ({
  settings: ['proxy'],
  // The shell trusts no authorities but the machine's.
  needsFull: ({ proxy: wanted }) => Boolean(wanted?.authorities),
  async apply({ proxy: wanted }) {
    await browserProxy.use(wanted!)
    return () => browserProxy.confirmed()
  },
  afterRestart: async () => (browserProxy.isOn ? () => browserProxy.confirmed({ isNewRun: true }) : atOnce),
})
