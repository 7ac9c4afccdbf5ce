// The checks of the first page's window, over a Chromium and a window manager that do not do what they are told.
import { expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { fakeCdp, type FakeCdp } from '../../../test/support/fake-cdp.ts'
import type { ChromiumRun } from './process.ts'
import { openPageWindow } from './window.ts'

const viewport = { width: 800, height: 600, refresh_rate: 60 }
/** How long a check may wait here: it sees the wrong state at once, and then polls. */
const WAIT_MS = 200

function windowOf(replies: FakeCdp['replies'], front: { fullscreen: boolean } = { fullscreen: true }) {
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
  const windows = { expectNotice: () => {}, front: () => front, caughtUp: async () => {} }
  return { window: openPageWindow(browser, { viewport }, windows, silentLog, AbortSignal.timeout(WAIT_MS)), sent }
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

test('full screen: a window that stays as it is does not, and its bounds are told', async () => {
  const { window } = windowOf({ 'Browser.getWindowBounds': () => ({ bounds: { width: 800, height: 600, windowState: 'maximized' } }) })
  await expect((await window.setFullscreen(true))()).rejects.toThrow(
    'the window did not fill the screen: it is {"width":800,"height":600,"windowState":"maximized"}',
  )
})

test('full screen: nor does one that the window manager has in another state', async () => {
  const { window } = windowOf({}, { fullscreen: false })
  await expect((await window.setFullscreen(true))()).rejects.toThrow('the window manager does not have the window fullscreen')
})

test('the screen: a window of another size does not pass, unless the user has given it that size', async () => {
  const bounds = (windowState: string) => ({ 'Browser.getWindowBounds': () => ({ bounds: { width: 640, height: 480, windowState } }) })
  await expect(windowOf(bounds('maximized')).window.fillsScreen()).rejects.toThrow('the window did not fill the screen: it is {"width":640')
  await windowOf(bounds('normal')).window.fillsScreen()
})

test('the page: one of another size does not pass, and nor does one whose window has left full screen', async () => {
  await expect(windowOf({ 'Runtime.evaluate': () => ({ result: { value: false } }) }).window.pageFills(false)).rejects.toThrow()
  await expect(windowOf({}, { fullscreen: false }).window.pageFills(true)).rejects.toThrow('the window has left full screen')
})
