// Window sizes and states for BiDi clients: sends the commands in the order that Chromium needs, and answers when the window has changed.
import { until, WaitTimeout } from '../../base/wait.ts'

/** A window change without an animation takes a few frames. */
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
 * When a window fills the screen, Chromium restores it but drops the bounds that came with the command, and it answers before the window has changed.
 * This wraps a client's `sendCommand`. @throws when the window does not reach the requested state
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
      // A window that leaves full screen or the minimized state returns to its previous state, which may be maximized.
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
      // Chromium changes between two states other than normal only by way of normal.
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
