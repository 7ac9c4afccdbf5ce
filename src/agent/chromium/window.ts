// The window of the first page: full screen or not, its size, and the size of the page in it.
import type { Log } from '../../base/log.ts'
import { sleep, until, within } from '../../base/wait.ts'
import type { Screen } from '../display/display.ts'
import type { WindowManager } from '../display/display.ts'
import type { Cdp, CdpSession } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'
import type { Keeper } from './keeper.ts'
import { drawn } from './painted.ts'
import { read } from './unseen.ts'

/** A window changes within a few frames; with six browsers starting at once on two cores it took 2 s. */
const WINDOW_MS = 5_000
/** The first frame of a new browser. Six that started at once on two busy cores needed 3 s. */
const DRAWN_MS = 10_000
/** Chromium leaves full screen this long after it entered, if it could not draw meanwhile: 1.48 to 1.57 s were measured. */
const LEAVES_MS = 1_400
/** If frames took longer than this, they may have come too late. Chromium then leaves within AGAIN_MS after them. */
const UNDRAWN_MS = 1_000
const AGAIN_MS = 1_000
/** A page gets its size within milliseconds. Longer than the control plane waits for a warm browser, which it then replaces. */
const SIZED_MS = 15_000

/** The window of the first page, as the steps of fitting use it (session/fit). The fake driver has its own implementation. */
export interface PageWindow {
  /**
   * Makes the window fill the screen without tabs and address bar, or with them. The result resolves when the window has done so. @throws when the command
   * fails; the result rejects when the window does not follow
   */
  setFullscreen(fullscreen: boolean): Promise<() => Promise<void>>
  /** Resolves when the window fills the viewport, or the user has given it another size. @throws when it does not */
  fillsScreen(): Promise<void>
  /**
   * Resolves when the page, which is still empty, has the size of its window. Chromium tells its pages the size a moment after it has changed the window: a
   * start page that opens in between would have the layout for a tab bar that does not exist. @throws when the page does not get its size
   */
  pageFills(fullscreen: boolean): Promise<void>
  /**
   * Chromium leaves full screen by itself when it cannot draw for 1.5 s after it entered, for example on a very busy machine. This enters it again as soon as
   * Chromium draws. A window that a client took out of full screen earlier is left alone. `entered` is in milliseconds of `performance.now()`.
   */
  holdFullscreen(entered: number): Promise<void>
}

/** The window of the browser's first page, whichever run of Chromium that is. */
export function openPageWindow(
  browser: Pick<Keeper, 'run' | 'isCurrent' | 'firstDrawn' | 'withFirstPage'>,
  screen: Pick<Screen, 'viewport'>,
  windows: Pick<WindowManager, 'alwaysFull' | 'expectNotice' | 'front' | 'caughtUp'>,
  log: Log,
  signal: AbortSignal,
): PageWindow {
  /** Resolves when the window fills the viewport in `windowState`; if that is not given, also when the user has resized it. */
  async function filled(pipe: Cdp, windowId: number, windowState?: string): Promise<void> {
    let found: Protocol.Browser.Bounds = {}
    const fills = async () => {
      found = (await pipe.send('Browser.getWindowBounds', { windowId })).bounds
      const { width, height } = screen.viewport
      if (windowState === undefined && found.windowState !== 'fullscreen' && found.windowState !== 'maximized') return true
      return found.width === width && found.height === height && (windowState === undefined || found.windowState === windowState)
    }
    await until('the window to fill the screen', WINDOW_MS, fills, { everyMs: 3, signal }).catch((error: unknown) => {
      throw new Error(`the window did not fill the screen: it is ${JSON.stringify(found)}`, { cause: error })
    })
  }

  async function setFullscreen(fullscreen: boolean): Promise<() => Promise<void>> {
    if (windows.alwaysFull) return async () => {}
    const { pipe, firstPage } = await browser.run()
    const { windowId } = await pipe.send('Browser.getWindowForTarget', { targetId: firstPage })
    const windowState = fullscreen ? 'fullscreen' : 'maximized'
    // A browser that has not drawn yet may leave full screen again.
    await browser.firstDrawn()
    // The window manager tells a new window its state. If that message arrives after ours, the window leaves full screen again, so wait for it first.
    await until('the window to come up', WINDOW_MS, () => windows.front() !== undefined, { everyMs: 3, signal })
    await windows.caughtUp()
    if (fullscreen) windows.expectNotice()
    await pipe.send('Browser.setWindowBounds', { windowId, bounds: { windowState } })
    return async () => {
      await filled(pipe, windowId, windowState)
      await windows.caughtUp()
      await filled(pipe, windowId, windowState)
      if (windows.front()?.fullscreen !== fullscreen) throw new Error(`the window manager does not have the window ${windowState}`)
    }
  }

  return {
    setFullscreen,
    async fillsScreen() {
      const { pipe, firstPage } = await browser.run()
      const { targetInfos } = await pipe.send('Target.getTargets', {})
      // The user may have closed the page.
      if (!targetInfos.some(({ targetId }) => targetId === firstPage)) return
      const { windowId } = await pipe.send('Browser.getWindowForTarget', { targetId: firstPage })
      await filled(pipe, windowId)
    },
    async pageFills(fullscreen) {
      const { width, height } = screen.viewport
      const expression = `innerWidth === ${width} && ${fullscreen ? 'innerHeight' : 'outerHeight'} === ${height}`
      const fits = async (page: CdpSession): Promise<boolean> => {
        if (fullscreen && !windows.front()?.fullscreen) throw new Error('the window has left full screen')
        return (await read(page, expression)) === true
      }
      const wait = browser.withFirstPage((page) => until('the page to have its size', SIZED_MS, () => fits(page), { everyMs: 3, signal }))
      await within('the page to have its size', SIZED_MS, wait, signal)
    },
    async holdFullscreen(entered) {
      const run = await browser.run()
      const draws = () =>
        drawn(run.pipe, run.firstPage, DRAWN_MS, log).then(
          () => true,
          () => !browser.isCurrent(run), // the page was navigated, or the browser has ended
        )
      await until('a frame in full screen', DRAWN_MS, draws, { everyMs: 50, signal })
      if (performance.now() - entered < UNDRAWN_MS) return
      await sleep(AGAIN_MS, signal)
      const { fullscreen, leftFullscreen } = windows.front() ?? {}
      if (!browser.isCurrent(run) || fullscreen !== false || leftFullscreen === undefined || leftFullscreen - entered < LEAVES_MS) return
      log.warn({}, 'Chromium could not draw and left full screen; entering it again')
      await (
        await setFullscreen(true)
      )()
    },
  }
}
