// Hides automation in ways that cannot be on for every session: Chromium is restarted as a person starts it. Its flags and a file keep this over later
// restarts.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const stealth = ({ browser, writePopupPolicy }: Pick<FitParts, 'browser' | 'writePopupPolicy'>): Step => ({
  settings: ['stealth'],
  needsFull: () => true,
  async apply() {
    writePopupPolicy()
    const writtenAt = performance.now()
    await browser.restart({ asPerson: true })
    return async () => {
      if ((await browser.run()).startedAt < writtenAt) throw new Error('Chromium runs since before it was to be started as a person does')
    }
  },
})
