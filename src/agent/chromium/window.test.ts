// The checks of the first page's window, over a Chromium and a window manager that do not do as they are told.
import { expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { fakeCdp, type FakeCdp } from '../../../test/support/fake-cdp.ts'
import type { ChromiumRun } from './process.ts'
import { openPageWindow } from './window.ts'

const viewport = { width: 800, height: 600, refresh_rate: 60 }
/** `stop` ends the waits of a check, which would poll for seconds. */
function windowOf(replies: FakeCdp['replies'], { front = { fullscreen: true }, stop = new AbortController() } = {}) {
  const { cdp, sent } = fakeCdp({
    'Target.getTargets': () => ({ targetInfos: [{ targetId: 'page', type: 'page' }] }),
    'Browser.getWindowForTarget': () => ({ windowId: 7 }),
    'Browser.getWindowBounds': () => ({ bounds: { width: 800, height: 600, windowState: 'fullscreen' } }),
    'Runtime.evaluate': () => ({ result: { value: true } }),
    ...replies,
  })
  const run = { pipe: cdp, firstPage: 'page' } as ChromiumRun
  const browser = {
    run: async () => run,
    isCurrent: () => true,
    firstDrawn: async () => {},
    async withFirstPage(work: (page: Awaited<ReturnType<typeof cdp.session>>) => Promise<unknown>) {
      await using page = await cdp.session('page')
      await work(page)
    },
  }
  const windows = { alwaysFull: false, expectNotice: () => {}, front: () => front, caughtUp: async () => {} }
  return { window: openPageWindow(browser, { viewport }, windows, silentLog, stop.signal), sent }
}

test('a window that does what it is told passes', async () => {
  const { window, sent } = windowOf({})
  await (
    await window.setFullscreen(true)
  )()
  await window.fillsScreen()
  await window.pageFills(true)
  expect(sent.find(({ method }) => method === 'Browser.setWindowBounds')?.params).toEqual({ windowId: 7, bounds: { windowState: 'fullscreen' } })
})

/** An answer of Chromium after which the check is stopped, so that it fails with this answer. */
const last = <T>(stop: AbortController, answer: T) => {
  stop.abort(new Error('stopped'))
  return answer
}

test('full screen: a window that stays as it is does not pass, and its bounds are told', async () => {
  const stop = new AbortController()
  const bounds = { width: 800, height: 600, windowState: 'maximized' }
  const { window } = windowOf({ 'Browser.getWindowBounds': () => last(stop, { bounds }) }, { stop })
  await expect((await window.setFullscreen(true))()).rejects.toThrow(`the window did not fill the screen: it is ${JSON.stringify(bounds)}`)
})

test('full screen: nor does one that the window manager has in another state', async () => {
  const { window } = windowOf({}, { front: { fullscreen: false } })
  await expect((await window.setFullscreen(true))()).rejects.toThrow('the window manager does not have the window fullscreen')
})

test('the screen: a window of another size does not pass, unless the user has given it that size', async () => {
  const stop = new AbortController()
  const bounds = (windowState: string) => ({ bounds: { width: 640, height: 480, windowState } })
  const { window } = windowOf({ 'Browser.getWindowBounds': () => last(stop, bounds('maximized')) }, { stop })
  await expect(window.fillsScreen()).rejects.toThrow('the window did not fill the screen: it is {"width":640')
  await windowOf({ 'Browser.getWindowBounds': () => bounds('normal') }).window.fillsScreen()
})

test('the page: one of another size does not pass, and nor does one whose window has left full screen', async () => {
  const stop = new AbortController()
  await expect(windowOf({ 'Runtime.evaluate': () => last(stop, { result: { value: false } }) }, { stop }).window.pageFills(false)).rejects.toThrow('stopped')
  await expect(windowOf({}, { front: { fullscreen: false } }).window.pageFills(true)).rejects.toThrow('the window has left full screen')
})
