// Print previews. Each is a page of its own beside the tab that prints, and blocks that tab until it is closed, as a dialog does.
import type { Cdp } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'

const PREVIEW = 'chrome://print/'

/** What its button "Cancel" says to Chromium. `Target.closeTarget` and `Page.close` succeed and close nothing. */
const CANCEL = `chrome.send('dialogClose')`

/** The longest wait for one to close. It takes some milliseconds. */
const CLOSE_MS = 1_000

/** Notes the previews that open, from what Chromium tells since `Target.setDiscoverTargets` (painted.ts). The result closes those that are open. */
export function watchPrintPreviews(cdp: Cdp): () => Promise<void> {
  const open = new Set<string>()
  const onInfo = ({ targetInfo: { targetId, type, url } }: { targetInfo: Protocol.Target.TargetInfo }) => {
    if (type === 'page' && url === PREVIEW) open.add(targetId)
  }
  cdp.on('Target.targetCreated', onInfo)
  cdp.on('Target.targetInfoChanged', onInfo)
  cdp.on('Target.targetDestroyed', ({ targetId }) => void open.delete(targetId))
  const close = async (targetId: string) => {
    await using preview = await cdp.session(targetId, { limitMs: CLOSE_MS })
    await preview.send('Runtime.evaluate', { expression: CANCEL }, { limitMs: CLOSE_MS })
  }
  return async () => {
    const all = [...open]
    open.clear()
    // One that has been closed meanwhile is refused; one that hangs must not keep the caller.
    await Promise.allSettled(all.map(close))
  }
}
