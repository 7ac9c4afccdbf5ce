// Waits for the first frame of pages that were just navigated: until then Chromium drops clicks and keys for the page.
import type { Log } from '../../base/log.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import type { Cdp } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'
import { evaluateApart } from './unseen.ts'

/** A page that was navigated longer ago has its first frame, or waits for something that may never come. */
const FRESH_MS = 2_000

/** The longest wait of input for first frames. They came within 16 ms on an idle machine, and within 0.5 s on one with ten times its load. */
const PAINTED_MS = 1_000

/** Resolves with the second frame after this. A hidden page has no frames. */
const NEXT_FRAMES = `document.visibilityState === 'visible' && new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

/** How long to wait, after its frames, until a page is on the screen. An empty page never reports that, but accepts input. */
const SHOWN_MS = 250

/**
 * The same, and then waits until the page's first content is on the screen: Chromium drops input until then, and on a busy machine that is later than the
 * second frame (one of 15 clicks was lost).
 */
const SHOWN = `Promise.resolve(${NEXT_FRAMES}).then((drawn) => !drawn || performance.getEntriesByType('paint').length > 0 || new Promise((done) => {
  new PerformanceObserver(() => done(true)).observe({ type: 'paint', buffered: true })
  setTimeout(() => done(true), ${SHOWN_MS})
}))`

/**
 * Resolves when a page has drawn two frames from now, or is hidden; or with another condition in `expression`. @throws WaitTimeout after `ms`; when the page
 * has ended
 */
export async function drawn(cdp: Cdp, targetId: string, ms: number, log: Log, expression = NEXT_FRAMES): Promise<void> {
  const page = await cdp.session(targetId)
  try {
    await evaluateApart(page, expression, { limitMs: ms })
  } finally {
    // Do not wait: a page that hangs answers late.
    page.detach().catch((err: unknown) => log.debug({ err }, 'a page was gone'))
  }
}

/** Listens for navigations. The result resolves when recently navigated pages have been painted, or after {@link PAINTED_MS}. */
export async function watchPaints(cdp: Cdp, log: Log): Promise<(signal: AbortSignal) => Promise<void>> {
  /** Time of each page's navigation, in milliseconds of `performance.now()`. */
  const fresh = new Map<string, number>()
  /** Whether a client is attached to each page, by Chromium's last event. */
  const attached = new Map<string, boolean>()
  // Chromium reports each navigation, also a reload and one within the document; then `info` may be unchanged. It also sends an event when the first client
  // attaches and when the last one detaches, as this module and Playwright do all the time: those are no navigations.
  const onInfo = ({ targetInfo: info }: { targetInfo: Protocol.Target.TargetInfo }) => {
    if (info.type !== 'page') return
    const before = attached.get(info.targetId)
    attached.set(info.targetId, info.attached)
    if (before === undefined || before === info.attached) fresh.set(info.targetId, performance.now())
  }
  cdp.on('Target.targetCreated', onInfo)
  cdp.on('Target.targetInfoChanged', onInfo)
  cdp.on('Target.targetDestroyed', ({ targetId }) => {
    fresh.delete(targetId)
    attached.delete(targetId)
  })
  // Some pages, such as a print preview (print-previews.ts), first have the type "other".
  await cdp.send('Target.setDiscoverTargets', { discover: true, filter: [{ type: 'page' }, { type: 'other' }] })

  return async (signal) => {
    const now = performance.now()
    const pages = [...fresh].filter(([, at]) => now - at < FRESH_MS).map(([targetId]) => targetId)
    fresh.clear()
    if (pages.length === 0) return
    const all = Promise.all(
      pages.map((targetId) =>
        drawn(cdp, targetId, PAINTED_MS, log, SHOWN).catch((err: unknown) => {
          // The page was closed, or shows nothing. Input goes to the visible page.
          if (!(err instanceof WaitTimeout)) log.debug({ err }, 'a page was gone')
        }),
      ),
    )
    await within('first frames', PAINTED_MS, all, signal).catch((error: unknown) => {
      if (!(error instanceof WaitTimeout)) throw error
    })
  }
}
