// Extensions that are unpacked in the session. Chromium loads them while it runs, and loses them by a restart.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const extensions = ({ loader }: Pick<FitParts, 'loader'>): Step => ({
  settings: ['extensions'],
  needsFull: () => true,
  // If Chromium crashes meanwhile, it is restarted.
  tries: 2,
  apply: ({ extensions: names }) => loader.load(names!),
  afterRestart: () => loader.again(),
})
