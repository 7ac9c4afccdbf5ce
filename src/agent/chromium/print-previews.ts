// Print previews. Each is a separate page beside the tab that prints, and blocks that tab like a dialog until it is closed.
import type { Cdp } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'

const PREVIEW = 'chrome://print/'

/** The message of its button "Cancel" to Chromium. `Target.closeTarget` and `Page.close` succeed and close nothing. */
const CANCEL = `chrome.send('dialogClose')`

/** The longest wait for one to close. It takes some milliseconds. */
const CLOSE_MS = 1_000

/** Records the previews that open, by Chromium's events after `Target.setDiscoverTargets` (painted.ts). The result closes the open ones. */
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
    // A preview that was closed meanwhile is refused; one that hangs must not block the caller.
    await Promise.allSettled(all.map(close))
  }
}
