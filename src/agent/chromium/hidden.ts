// A page that is in no window, no list of tabs and no client's list of pages.
import type { Cdp } from './cdp.ts'

/** Opens a hidden page in the profile in use; `opened` closes it. Returns its target. */
export async function openHidden(pipe: Cdp, opened: AsyncDisposableStack): Promise<string> {
  const { targetId } = await pipe.send('Target.createTarget', { url: 'about:blank', hidden: true })
  opened.defer(async () => void (await pipe.send('Target.closeTarget', { targetId })))
  return targetId
}
