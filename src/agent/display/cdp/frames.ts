// Tells when the page in front has drawn.
import type { Log } from '../../../base/log.ts'
import { resultWithin, sleep } from '../../../base/wait.ts'
import type { FrontPage } from './front.ts'

/** Frames of this size tell that a page has drawn, and cost nearly nothing. */
const SIGNAL_PX = 16
/** The wait before the page in front is watched again after it could not be. */
const AGAIN_MS = 100

/** Calls `onFrame` for each frame of the page in front, whichever page that is, until the signal aborts. Never rejects. */
export async function followFrames(front: FrontPage, onFrame: () => void, log: Log, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const page = await front.session()
      const left = Promise.withResolvers<void>()
      const offFront = front.onChange(left.resolve)
      const offFrame = page.on('Page.screencastFrame', ({ sessionId }) => {
        onFrame()
        page.send('Page.screencastFrameAck', { sessionId }).catch(() => {}) // the page is gone
      })
      try {
        await page.send('Page.startScreencast', { format: 'jpeg', quality: 1, maxWidth: SIGNAL_PX, maxHeight: SIGNAL_PX })
        onFrame()
        await resultWithin(undefined, left.promise, AbortSignal.any([signal, page.detached]))
      } finally {
        offFront()
        offFrame()
      }
      if (!page.detached.aborted) await page.send('Page.stopScreencast', {})
    } catch (err) {
      log.debug({ err }, 'the page in front could not be watched')
      await sleep(AGAIN_MS)
    }
  }
}
