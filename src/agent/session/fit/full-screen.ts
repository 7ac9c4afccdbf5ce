// Full screen: the page fills the screen, without tabs and address bar. And the size of a new session's page, full screen or not.
import type { FitParts } from './parts.ts'
import { atOnce, type Check, type Step } from './step.ts'

/** Tries of a window that does not change, or leaves full screen again. Both were seen on busy machines only. */
const TRIES = 5

export function fullScreen({ window, log }: Pick<FitParts, 'window' | 'log'>): Step {
  /** What the session wants. Each start of Chromium opens a window that is not full screen. */
  let wantsFullscreen = false

  /** `fullscreen` absent: the window stays as it is. */
  async function ofNewSession(fullscreen: boolean | undefined): Promise<Check> {
    const entered = performance.now()
    // One that was fitted ahead may have left full screen since.
    const wanted = fullscreen ?? (wantsFullscreen || undefined)
    const follows = wanted === undefined ? atOnce : await window.setFullscreen(wanted)
    return async () => {
      await follows()
      await window.pageFills(wanted === true)
      // A caller does not wait for this: nearly always Chromium draws at once.
      if (wanted) void window.holdFullscreen(entered).catch((err: unknown) => log.warn({ err }, 'the window may have left full screen'))
    }
  }

  return {
    settings: ['fullscreen'],
    also: ['viewport', 'start_url'],
    tries: TRIES,
    async apply({ fullscreen, timeout_seconds }) {
      if (fullscreen !== undefined) wantsFullscreen = fullscreen
      // Only a new session has a timeout to be told. A later page may hang, or be zoomed, and says nothing about its window.
      if (timeout_seconds !== undefined) return ofNewSession(fullscreen)
      if (fullscreen === undefined) return atOnce
      const entered = performance.now()
      const follows = await window.setFullscreen(fullscreen)
      // Nobody waits for one that is fitted ahead, and nobody looks at it again before a session gets it.
      return async () => {
        await follows()
        await window.pageFills(fullscreen)
        if (fullscreen) await window.holdFullscreen(entered)
      }
    },
    afterRestart: async () => (wantsFullscreen ? window.setFullscreen(true) : atOnce),
  }
}
