// The session's timeout: how long the instance may run without a service that watches it. The agent itself keeps it.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const timeout = ({ lease }: Pick<FitParts, 'lease'>): Step => ({
  settings: ['timeout_seconds'],
  async apply({ timeout_seconds }) {
    const ms = timeout_seconds! * 1000
    lease.allow(ms)
    return async () => {
      if (lease.allowedMs !== ms) throw new Error(`the lease allows ${lease.allowedMs} ms`)
    }
  },
})
