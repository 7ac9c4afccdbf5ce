// The pages of the browser, as sessions use them: their list, and the first one, which shows the start page.
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import type { DevTools } from '../session/contract.ts'
import type { Keeper } from './keeper.ts'

/** The pages; the fake driver has its own implementation. */
export interface Pages {
  /** The answer of DevTools about the browser: its version and its pages. */
  list(): Promise<DevTools>
  /** Gives the focus to the first page. A new window focuses its address bar, even when the bar is hidden. */
  focus(): Promise<void>
  /** Opens an address in the first page, as if a user had typed it. The result resolves when Chromium has begun to load it. */
  open(url: string): Promise<() => Promise<void>>
}

/** Chromium reports within milliseconds that it has begun to load an address. */
const BEGIN_MS = 5_000

export function openPages(browser: Pick<Keeper, 'run' | 'withFirstPage' | 'opens'>, log: Log): Pages {
  const focus = () => browser.withFirstPage((page) => page.send('Page.bringToFront', {}))
  return {
    focus,
    async list() {
      const { pipe } = await browser.run()
      const [version, { targetInfos }] = await Promise.all([pipe.send('Browser.getVersion', {}), pipe.send('Target.getTargets', {})])
      const targets = targetInfos.filter(({ type }) => type === 'page').slice(0, 1000)
      return {
        version,
        targets: targets.map(({ targetId, type, title, url }) => ({ id: targetId, type, title: title.slice(0, 1024), url: url.slice(0, 8192) })),
      }
    },
    async open(url) {
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
      browser.opens(work)
      return () => within('the start page to begin', BEGIN_MS, begun.promise)
    },
  }
}
