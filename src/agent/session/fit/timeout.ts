// The session's timeout: how long the instance may run without a service that watches it. The agent itself stores it.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const timeout = ({ watchdog }: Pick<FitParts, 'watchdog'>): Step => ({
  settings: ['timeout_seconds'],
  async apply({ timeout_seconds }) {
    const ms = timeout_seconds! * 1000
    watchdog.allow(ms)
    return async () => {
      if (watchdog.allowedMs !== ms) throw new Error(`the watchdog allows ${watchdog.allowedMs} ms`)
    }
  },
})
