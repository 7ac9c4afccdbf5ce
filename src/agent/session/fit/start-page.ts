// The start page; without one, a page in full screen gets the focus. After a crash Chromium restores the pages that it has saved.
import type { FitParts } from './parts.ts'
import { atOnce, type Step } from './step.ts'

export const startPage = ({ pages }: Pick<FitParts, 'pages'>): Step => ({
  settings: ['start_url'],
  also: ['fullscreen'],
  tries: 2,
  async apply({ start_url, fullscreen }) {
    if (start_url !== undefined) return pages.open(start_url)
    if (fullscreen) await pages.focus()
    return atOnce
  },
})
