// Full screen: the page fills the screen, without tabs and address bar. Also the size of a new session's page, full screen or not.
import type { FitParts } from './parts.ts'
import { atOnce, type Check, type Step } from './step.ts'

/** Attempts with a window that does not change, or leaves full screen again. Both happened only on busy machines. */
const TRIES = 5

export function fullScreen({ window, log }: Pick<FitParts, 'window' | 'log'>): Step {
  /** The session's setting. Each start of Chromium opens a window that is not full screen. */
  let wantsFullscreen = false

  /** `fullscreen` absent: the window stays as it is. */
  async function ofNewSession(fullscreen: boolean | undefined): Promise<Check> {
    const entered = performance.now()
    // A browser that was fitted in advance may have left full screen since.
    const wanted = fullscreen ?? (wantsFullscreen || undefined)
    const follows = wanted === undefined ? atOnce : await window.setFullscreen(wanted)
    return async () => {
      await follows()
      await window.pageFills(wanted === true)
      // A caller does not wait for this: Chromium nearly always draws at once.
      if (wanted) void window.holdFullscreen(entered).catch((err: unknown) => log.warn({ err }, 'the window may have left full screen'))
    }
  }

  return {
    settings: ['fullscreen'],
    also: ['viewport', 'start_url'],
    tries: TRIES,
    async apply({ fullscreen, timeout_seconds }) {
      if (fullscreen !== undefined) wantsFullscreen = fullscreen
      // Only a new session gets a timeout. Later, a page may hang or be zoomed, so it cannot tell its window's size.
      if (timeout_seconds !== undefined) return ofNewSession(fullscreen)
      if (fullscreen === undefined) return atOnce
      const entered = performance.now()
      const follows = await window.setFullscreen(fullscreen)
      // Nobody waits for a browser that is fitted in advance, and it is not checked again before a session gets it.
      return async () => {
        await follows()
        await window.pageFills(fullscreen)
        if (fullscreen) await window.holdFullscreen(entered)
      }
    },
    afterRestart: async () => (wantsFullscreen ? window.setFullscreen(true) : atOnce),
  }
}
