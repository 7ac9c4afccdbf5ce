// The size and the refresh rate of the screen. The X server keeps them, and Chromium is started with them (chromium/flags.ts).
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const viewport = ({ screen, window }: Pick<FitParts, 'screen' | 'window'>): Step => ({
  settings: ['viewport'],
  async apply({ viewport: wanted }) {
    await screen.resize(wanted!)
    return () => window.fillsScreen()
  },
})
