// Pictures of the visible page, after it has loaded and after clicks and scrolling. They are frames of a screencast: Chromium scales them itself, and neither
// the page nor its size changes.
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import { CdpGone, type CdpSession } from '../../chromium/cdp.ts'
import type { Teller } from '../telemetry.ts'
import type { Collector, WatchedTarget } from './collector.ts'
import { worldOf } from './world.ts'
import { FRAME_MS, MAX_ASKED, MAX_PICTURE, PICTURE_EVERY_MS, PICTURE_SIDES, PICTURE_SOON_MS } from '../limits.ts'

export function screenshot(log: Log): Collector {
  /** All frames with their own process: a picture of a page can show them. */
  const frames = new Set<WatchedTarget>()
  let nextAt = 0
  let waiting: NodeJS.Timeout | undefined
  let last: { target: WatchedTarget; telemetry: Teller } | undefined

  async function take(target: WatchedTarget, telemetry: Teller): Promise<void> {
    const showsSecret = async () => {
      const worlds = [target, ...frames].map(worldOf)
      if (worlds.reduce((sum, { size }) => sum + size, 0) > MAX_ASKED) return true
      return (await Promise.all(worlds.map((world) => world.showsSecret()))).includes(true)
    }
    if (target.signal.aborted || !telemetry.captures('screenshot')) return
    if (await showsSecret()) return
    const { target_id, session_id = '' } = target.context()
    const source = { kind: 'cdp', event: 'Page.screencastFrame', metadata: { target_id, session_id } } as const
    for (const side of PICTURE_SIDES) {
      const png = await frameOf(target.session, side)
      // The frame may be from before or after the secret was shown.
      if (png === undefined || (await showsSecret())) return
      if (png.length <= MAX_PICTURE) return telemetry.emit({ type: 'monitor_screenshot', source, data: { png } })
    }
    telemetry.emit({ type: 'monitor_screenshot', source, truncated: true })
  }

  /** The picture shows the page of the last cause. */
  function soon(target: WatchedTarget, telemetry: Teller): void {
    last = { target, telemetry }
    waiting ??= setTimeout(
      () => {
        waiting = undefined
        nextAt = performance.now() + PICTURE_EVERY_MS
        take(last!.target, last!.telemetry).catch((err: unknown) => {
          if (!(err instanceof CdpGone)) log.debug({ err }, 'telemetry got no picture of a page')
        })
      },
      Math.max(PICTURE_SOON_MS, nextAt - performance.now()),
    )
  }

  return {
    categories: ['screenshot'],
    types: ['page', 'iframe'],
    async watch(target, telemetry) {
      const cause = () => soon(target, telemetry)
      if (target.type === 'iframe') {
        frames.add(target)
        target.signal.addEventListener('abort', () => frames.delete(target), { once: true })
        return async () => void frames.delete(target)
      }
      const unload = target.session.on('Page.loadEventFired', cause)
      try {
        const unsubscribe = await worldOf(target).use('interaction', ({ type }) => {
          if (type === 'click' || type === 'scroll') cause()
        })
        return async () => {
          unload()
          await unsubscribe()
        }
      } catch (error) {
        unload()
        throw error
      }
    },
  }
}

/** A picture of the page; undefined when it is not visible. */
async function frameOf(session: CdpSession, side: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const off = session.on('Page.screencastFrame', ({ data }) => resolve(data))
  try {
    await session.send('Page.startScreencast', { format: 'png', maxWidth: side, maxHeight: side }, { limitMs: FRAME_MS })
    return await within('a frame', FRAME_MS, promise).catch(() => undefined)
  } finally {
    off()
    await session.send('Page.stopScreencast', {}, { limitMs: FRAME_MS })
  }
}
