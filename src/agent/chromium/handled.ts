// Whether pages have handled the keys that were sent to them, so that Chromium has done what they left to it.
import type { Log } from '../../base/log.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import type { Browser } from './keeper.ts'
import type { CdpPipe } from './pipe.ts'

/** A page that shows nothing new answers after two frames. One whose script is busy, or that shows an alert, does not answer; its keys wait as they do for a person. */
const HANDLED_MS = 1_000
/** Pages and frames that are asked at most: those on the screen are a few. */
const MAX_ASKED = 32

interface Target {
  targetId: string
  type: string
}

/**
 * Makes a wait for what the pages on the screen have still to handle. A shortcut goes to the page first; only when the page has let it pass does
 * Chromium act on it, for example by moving the keyboard to its address bar. Chromium's answer to a gesture of no distance comes behind those
 * to all input before it, on the same line between browser and page, and no page sees it.
 */
export function pagesHandled(browser: Pick<Browser, 'run'>, log: Log): () => Promise<void> {
  return async () => {
    const work = async () => {
      const { pipe } = await browser.run()
      const { targetInfos } = await pipe.send<{ targetInfos: Target[] }>('Target.getTargets')
      const asked = targetInfos.filter(({ type }) => type === 'page' || type === 'iframe').slice(0, MAX_ASKED)
      // A page may close because of the very key.
      await Promise.all(asked.map((target) => handled(pipe, target).catch((err: unknown) => log.debug({ err }, 'a page did not say what it has handled'))))
    }
    await within('pages to handle keys', HANDLED_MS, work()).catch((err: unknown) => {
      if (!(err instanceof WaitTimeout)) throw err
      log.debug({ err }, 'a page is busy')
    })
  }
}

async function handled(pipe: CdpPipe, { targetId, type }: Target): Promise<void> {
  const { sessionId } = await pipe.send<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true })
  const ask = <T>(method: string, params: object) => pipe.send<T>(method, params, sessionId)
  try {
    // Only what is on the screen draws frames, and only what has the focus gets keys.
    const expression = type === 'page' ? 'document.visibilityState === "visible"' : 'document.visibilityState === "visible" && document.hasFocus()'
    const { result } = await ask<{ result: { value: unknown } }>('Runtime.evaluate', { expression, returnByValue: true })
    if (result.value === true) await ask('Input.synthesizeScrollGesture', { x: 1, y: 1, xDistance: 0, yDistance: 0, gestureSourceType: 'mouse' })
  } finally {
    await pipe.send('Target.detachFromTarget', { sessionId })
  }
}
