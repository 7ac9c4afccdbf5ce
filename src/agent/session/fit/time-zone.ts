// The time zone for pages. It is in a file, which Chromium reads again at each start.
import type { FitParts } from './parts.ts'
import type { Step } from './step.ts'

export const timeZone = ({ setTimeZone }: Pick<FitParts, 'setTimeZone'>): Step => ({
  settings: ['time_zone'],
  apply:
    async ({ time_zone }) =>
    () =>
      setTimeZone(time_zone!),
})
