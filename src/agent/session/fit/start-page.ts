// The start page, opened as if typed by a user; without one, a page in full screen gets the focus. After a crash Chromium restores
// the pages that it has saved.
import { within } from '../../../base/wait.ts'
import type { FitParts } from './parts.ts'
import { atOnce, type Check, type Step } from './step.ts'

/** Chromium reports within milliseconds that it has begun to load an address. */
const BEGIN_MS = 5_000

export function startPage({ browser, log }: Pick<FitParts, 'browser' | 'log'>): Step {
  /** A new window focuses its address bar, even when the bar is hidden. */
  const focus = () => browser.withFirstPage((page) => page.send('Page.bringToFront', {}))

  /** The result resolves when Chromium has begun to load the page. Whether that loads does not matter here. */
  async function open(url: string): Promise<Check> {
    await focus()
    const begun = Promise.withResolvers<void>()
    begun.promise.catch(() => {})
    const work = browser.withFirstPage(async (page) => {
      page.on('Page.frameStartedNavigating', () => begun.resolve())
      await page.send('Page.enable', {})
      // Chromium answers when the page has loaded or failed. A failed load (`errorText`) is the page's problem, not an error of this call.
      const { errorText } = await page.send('Page.navigate', { url }).catch((error: Error) => {
        if (error.message.startsWith('Cannot navigate')) return { errorText: error.message }
        throw error
      })
      if (errorText) log.info({ errorText }, 'start_url did not open')
      begun.resolve()
    })
    work.catch((error: unknown) => begun.reject(error))
    return () => within('the start page to begin', BEGIN_MS, begun.promise)
  }

  return {
    settings: ['start_url'],
    also: ['fullscreen'],
    tries: 2,
    async apply({ start_url, fullscreen }) {
      if (start_url !== undefined) return open(start_url)
      if (fullscreen) await focus()
      return atOnce
    },
  }
}
