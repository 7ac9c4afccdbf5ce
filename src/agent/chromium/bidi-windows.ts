// Sizes and states of windows for BiDi clients: asked of Chromium in the order that it needs, and answered when they are so.
import { until, WaitTimeout } from '../../base/wait.ts'

/** A window's animation-free change takes some frames. */
const CHANGED_MS = 5_000

interface Bounds {
  left?: number
  top?: number
  width?: number
  height?: number
  windowState?: string
}

type Send = (method: string, params?: object) => Promise<unknown>

/**
 * Chromium restores a window that fills the screen and drops the bounds that came with it, and answers before the window has changed.
 * Takes the place of a client's `sendCommand`. @throws when the window does not become what was asked for
 */
export function windowsInOrder(send: Send): Send {
  return async (method, params) => {
    if (method !== 'Browser.setWindowBounds') return send(method, params)
    const { windowId, bounds } = params as { windowId: number; bounds: Bounds }
    const { windowState = 'normal', ...size } = bounds
    const now = async () => ((await send('Browser.getWindowBounds', { windowId })) as { bounds: Bounds }).bounds
    const become = async (wanted: Bounds) => {
      await send(method, { windowId, bounds: wanted })
      await until('the window to change', CHANGED_MS, async () => {
        const found = await now()
        return (Object.keys(wanted) as (keyof Bounds)[]).every((name) => found[name] === wanted[name])
      })
    }
    const restore = async () => {
      // From full screen a window goes back to the state before: maximized, perhaps. A minimized one, too.
      for (let state = (await now()).windowState; state !== 'normal';) {
        await send(method, { windowId, bounds: { windowState: 'normal' } })
        const before = state
        state = await until('the window to change', CHANGED_MS, async () => {
          const { windowState: found } = await now()
          return found !== before && found
        })
      }
    }
    try {
      // From one state that is not normal to another Chromium goes by way of the normal one only.
      if ((await now()).windowState !== windowState) await restore()
      if (windowState !== 'normal') await become({ windowState })
      if (Object.keys(size).length > 0) await become(size)
    } catch (error) {
      if (!(error instanceof WaitTimeout)) throw error
      throw new Error(`the window did not become ${JSON.stringify(bounds)}; it is ${JSON.stringify(await now())}`, { cause: error })
    }
    return {}
  }
}
