// Waits until pages have handled the keys sent to them, so that Chromium has also acted on the keys that the pages left to it.
import type { Log } from '../../base/log.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import type { Cdp } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'
import type { Keeper } from './keeper.ts'
import { read } from './unseen.ts'

/** An idle page answers after two frames. A page with a busy script or an open alert does not answer; its keys wait, as they would for a person. */
const HANDLED_MS = 1_000
/** Most pages and frames that are asked; few are on the screen at once. */
const MAX_ASKED = 32

/**
 * Returns a function that waits until the pages on the screen have handled their input. A shortcut goes to the page first. Only when the page lets it
 * pass does Chromium act on it, for example by focusing its address bar. Chromium answers a gesture of zero distance after all earlier input, because
 * both use the same channel between browser and page, and no page can see such a gesture.
 */
export function pagesHandled(browser: Pick<Keeper, 'run'>, log: Log): () => Promise<void> {
  return async () => {
    const work = async () => {
      const { pipe } = await browser.run()
      const { targetInfos } = await pipe.send('Target.getTargets', {})
      const asked = targetInfos.filter(({ type }) => type === 'page' || type === 'iframe').slice(0, MAX_ASKED)
      // The key itself may close the page.
      await Promise.all(asked.map((target) => handled(pipe, target).catch((err: unknown) => log.debug({ err }, 'a page could not be asked about its input'))))
    }
    // The input itself may close the last page, and the browser with it. Then there is nothing to wait for.
    await within('pages to handle input', HANDLED_MS, work()).catch((err: unknown) => {
      log.debug({ err }, err instanceof WaitTimeout ? 'a page is busy' : 'the browser is gone')
    })
  }
}

async function handled(cdp: Cdp, { targetId, type }: Protocol.Target.TargetInfo): Promise<void> {
  await using page = await cdp.session(targetId)
  // Only visible pages draw frames, and only the focused one gets keys.
  const expression = type === 'page' ? 'document.visibilityState === "visible"' : 'document.visibilityState === "visible" && document.hasFocus()'
  if ((await read(page, expression)) === true)
    await page.send('Input.synthesizeScrollGesture', { x: 1, y: 1, xDistance: 0, yDistance: 0, gestureSourceType: 'mouse' })
}
