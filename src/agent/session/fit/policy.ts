// Managed policies. Chromium is restarted for them: it reads many only at its start, so a reload while it runs would apply only some. They are in a file, which
// it reads again at each start.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const policy = ({ browser, writePolicy }: Pick<FitParts, 'browser' | 'writePolicy'>): Step => ({
  settings: ['chrome_policy'],
  needsFull: () => true,
  async apply({ chrome_policy }) {
    writePolicy(chrome_policy!)
    const writtenAt = performance.now()
    await browser.restart()
    // No CDP command tells which policies Chromium applies.
    return async () => {
      if ((await browser.run()).startedAt < writtenAt) throw new Error('Chromium runs since before the policy was written')
    }
  },
})
