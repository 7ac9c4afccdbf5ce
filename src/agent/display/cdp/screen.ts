// The picture of a browser without a display: the page in front, and the mouse cursor.
import { crc32 } from 'node:zlib'
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { WaitTimeout } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { CdpSession } from '../../chromium/cdp.ts'
import type { Viewport } from '../../session/contract.ts'
import type { Captured, Region, Screen } from '../display.ts'
import { drawArrow } from './arrow.ts'
import { followFrames } from './frames.ts'
import type { FrontPage } from './front.ts'
import type { CdpInput } from './input.ts'
import { decodePng } from './png.ts'

/** The longest wait for a picture. A page that is not busy needs 30 to 100 ms. */
const PICTURE_MS = 5_000

export interface CdpScreen extends Screen {
  /** Grows while somebody watches, whenever the page has drawn, or another page has come to the front. Unlike the version, moves of the cursor do not count. */
  readonly drawn: number
  /** Reports a change that the page does not draw: the mouse cursor has moved. */
  touch(): void
  /** Stops watching the page. */
  close(): void
}

export function openScreen(front: FrontPage, input: Pick<CdpInput, 'at'>, first: Viewport, log: Log): CdpScreen {
  const listeners: (() => Promise<void>)[] = []
  const watchers = new Set<() => void>()
  const fitted = new Set<string>()
  /** After a picture, Chromium gives the page back the size that it had before: a new one would be lost. */
  const turns = new Mutex()
  let viewport = first
  let hidden = false
  let version = 0
  let drawn = 0
  /** What the last picture showed. */
  let last = ''
  let watching: AbortController | undefined

  const touch = () => {
    version++
    for (const watcher of watchers) watcher()
  }

  const onDrawn = () => {
    drawn++
    touch()
  }

  /** Gives each window the size of the viewport: those that were opened before it was changed have the earlier one. */
  async function fit(): Promise<void> {
    const { pipe, targets } = await front.all()
    for (const targetId of targets.filter((each) => !fitted.has(each))) {
      fitted.add(targetId)
      try {
        const { windowId } = await pipe.send('Browser.getWindowForTarget', { targetId })
        await pipe.send('Browser.setWindowBounds', { windowId, bounds: { windowState: 'normal' } })
        await pipe.send('Browser.setWindowBounds', { windowId, bounds: { width: viewport.width, height: viewport.height } })
      } catch (error) {
        if (await front.isOpen(targetId)) throw error
      }
    }
    for (const targetId of fitted) if (!targets.includes(targetId)) fitted.delete(targetId)
  }
  const fitSoon = () => void fit().catch((err: unknown) => log.debug({ err }, 'a window could not be given its size'))

  async function capture(region: Region): Promise<Captured> {
    const before = version
    const clip = { ...region, scale: 1 }
    const take = (page: CdpSession) => page.send('Page.captureScreenshot', { format: 'png', optimizeForSpeed: true, clip }, { limitMs: PICTURE_MS })
    const { data } = await turns
      .run(() => front.use(take))
      .catch((error: unknown) => {
        throw error instanceof WaitTimeout ? fault.unavailable('the page is busy or shows a dialog, so there is no picture of it', error) : error
      })
    // Unwatched, the picture itself tells whether something has changed.
    const sum = `${JSON.stringify(clip)} ${hidden ? '' : input.at.join()} ${crc32(data)} ${data.length}`
    if (!watching && sum !== last) version++
    last = sum
    const pixels = await decodePng(Buffer.from(data, 'base64'), region.width * region.height * 4)
    if (!hidden) drawArrow(pixels, input.at[0] - region.x, input.at[1] - region.y)
    return { pixels, version: watching ? before : version }
  }

  front.onChange(() => {
    fitSoon()
    onDrawn()
  })
  return {
    get viewport() {
      return viewport
    },
    get drawn() {
      return drawn
    },
    async resize(wanted) {
      viewport = wanted
      fitted.clear()
      await turns.run(async () => {
        await front.use(async (page) => {
          const { screenInfos } = await page.send('Emulation.getScreenInfos', {})
          await page.send('Emulation.updateScreen', { screenId: screenInfos[0]!.id, width: wanted.width, height: wanted.height })
        })
        await fit()
      })
      onDrawn()
      for (const listener of listeners) await listener()
    },
    cursor: {
      get hidden() {
        return hidden
      },
      hide(wanted) {
        if (wanted !== hidden) touch()
        hidden = wanted
      },
    },
    // Unwatched, nobody knows whether the page has drawn. NaN equals nothing.
    version: async () => (watching ? version : NaN),
    capture,
    touch,
    async copy(room) {
      const { pixels, version: of } = await capture({ x: 0, y: 0, width: viewport.width, height: viewport.height })
      pixels.data.copy(room({ ...viewport, width: pixels.width, height: pixels.height }))
      return { ...viewport, width: pixels.width, height: pixels.height, version: of }
    },
    watch(onChange) {
      watchers.add(onChange)
      if (!watching) {
        watching = new AbortController()
        void followFrames(front, onDrawn, log, watching.signal)
      }
      return () => {
        watchers.delete(onChange)
        if (watchers.size > 0) return
        watching?.abort()
        watching = undefined
      }
    },
    onResize: (listener) => void listeners.push(listener),
    close: () => watching?.abort(),
  }
}
