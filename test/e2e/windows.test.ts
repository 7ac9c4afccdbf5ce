// Real clients resize and change browser windows: Puppeteer over CDP, Selenium over BiDi.
import puppeteer, { type Browser, type Page } from 'puppeteer-core'
import BIDI from 'selenium-webdriver/bidi/index.js'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit for a window to change and its page to notice. */
const CHANGE_MS = 10_000
/** The same limit while six browsers boot. */
const BOOTS_MS = 30_000

let id: string
let bidiUrl: string
let browser: Browser
let page: Page
const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300, viewport: { width: 1280, height: 800 } })
  id = made.session_id
  bidiUrl = made.webdriver_ws_url
  browser = await puppeteer.connect({ browserWSEndpoint: made.cdp_ws_url, defaultViewport: null })
  page = (await browser.pages())[0]!
})
afterAll(async () => {
  await browser.disconnect()
  await cloud.client.browsers.deleteByID(id)
})

type Bounds = Partial<Record<'left' | 'top' | 'width' | 'height', number>> & { windowState?: 'normal' | 'minimized' | 'maximized' | 'fullscreen' }

async function bounds(): Promise<Bounds> {
  const cdp = await page.createCDPSession()
  const { windowId } = await cdp.send('Browser.getWindowForTarget')
  const found = await cdp.send('Browser.getWindowBounds', { windowId })
  await cdp.detach()
  return found.bounds
}

/** Sets the bounds, and waits until the browser reports them. Where Chromium changes them, it waits for `found`. */
async function become(wanted: Bounds, found = wanted): Promise<void> {
  const cdp = await page.createCDPSession()
  const { windowId } = await cdp.send('Browser.getWindowForTarget')
  await cdp.send('Browser.setWindowBounds', { windowId, bounds: wanted })
  await cdp.detach()
  await expect.poll(bounds, { timeout: CHANGE_MS }).toMatchObject(found)
}
const seen = (): Promise<unknown> =>
  page.evaluate('({ left: screenX, top: screenY, width: outerWidth, height: outerHeight, visible: document.visibilityState })')

test('a window gets the bounds and states that a CDP client sets, its page knows them, and the mouse hits the page there', async () => {
  await page.goto(pages.url('copying.html'))
  await become({ windowState: 'normal' })
  await become({ left: 100, top: 50, width: 800, height: 600 })
  await expect.poll(seen, { timeout: CHANGE_MS }).toEqual({ left: 100, top: 50, width: 800, height: 600, visible: 'visible' })
  await page.evaluate(`document.body.innerHTML = '<button style="position:fixed;inset:0;width:100%;height:100%;border:0;background:#0f0">0</button>'
    document.querySelector('button').onclick = ({ target }) => target.textContent++
    new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`)
  await cloud.client.browsers.computer.clickMouse(id, { x: 500, y: 400 })
  // A click outside the window has no effect.
  await cloud.client.browsers.computer.clickMouse(id, { x: 1000, y: 750 })
  await expect.poll(() => page.evaluate(`document.querySelector('button').textContent`)).toBe('1')
  const screenshot = Buffer.from(await (await cloud.client.browsers.computer.captureScreenshot(id)).arrayBuffer())
  const { data, info } = await sharp(screenshot).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  const green = ([x, y]: number[]) => data.subarray((y! * info.width + x!) * 3, (y! * info.width + x!) * 3 + 3).equals(Buffer.from([0, 255, 0]))
  expect(
    [
      [150, 600],
      [850, 600],
      [950, 600],
      [150, 700],
    ].map(green),
  ).toEqual([true, true, false, false])

  await become({ windowState: 'maximized' })
  await expect.poll(seen, { timeout: CHANGE_MS }).toEqual({ left: 0, top: 0, width: 1280, height: 800, visible: 'visible' })
  await become({ windowState: 'minimized' })
  await expect.poll(seen, { timeout: CHANGE_MS }).toMatchObject({ visible: 'hidden' })
  await page.bringToFront()
  await expect.poll(bounds, { timeout: CHANGE_MS }).toMatchObject({ windowState: 'maximized' })
  await become({ windowState: 'fullscreen' })
  await expect.poll(() => page.evaluate('innerHeight'), { timeout: CHANGE_MS }).toBe(800)
  // From full screen, Chromium returns a window to its state before.
  await become({ windowState: 'normal' }, { windowState: 'maximized' })
  await become({ windowState: 'normal' })
  await expect.poll(seen, { timeout: CHANGE_MS }).toEqual({ left: 100, top: 50, width: 800, height: 600, visible: 'visible' })
})

test('a page gets the size that a client sets, like resize_page of chrome-devtools-mcp', async () => {
  await become({ windowState: 'normal' })
  await page.resize({ contentWidth: 640, contentHeight: 480 })
  await expect.poll(() => page.evaluate('[innerWidth, innerHeight]'), { timeout: CHANGE_MS }).toEqual([640, 480])
})

test('a BiDi client sets states and sizes of windows, and is answered when they are reached', async () => {
  await become({ windowState: 'maximized' })
  const bidi = new BIDI(bidiUrl)
  await bidi.waitForConnection()
  const { result: started } = await bidi.send({ method: 'session.new', params: { capabilities: {} } })
  expect(started.capabilities.setWindowRect).toBe(true)
  const { result: windows } = await bidi.send({ method: 'browser.getClientWindows', params: {} })
  const { clientWindow } = windows.clientWindows[0]
  for (const state of [
    { state: 'normal', x: 20, y: 30, width: 700, height: 500 },
    { state: 'fullscreen' },
    { state: 'minimized' },
    { state: 'maximized' },
    { state: 'fullscreen' },
    { state: 'normal', width: 720, height: 520 },
  ]) {
    const { result } = await bidi.send({ method: 'browser.setClientWindowState', params: { clientWindow, ...state } })
    expect(result).toMatchObject(state)
  }
  bidi.close()
})

test('a changed viewport resizes windows that fill the screen; one with its own size keeps it', async () => {
  await become({ windowState: 'normal' })
  await become({ left: 10, top: 10, width: 600, height: 500 })
  await cloud.client.browsers.update(id, { viewport: { width: 1024, height: 768 } })
  expect(await seen()).toMatchObject({ left: 10, top: 10, width: 600, height: 500 })
  await become({ windowState: 'maximized' })
  await expect.poll(seen, { timeout: CHANGE_MS }).toMatchObject({ left: 0, top: 0, width: 1024, height: 768 })
})

test('a page can open windows without a click', async () => {
  await page.goto(pages.url('opener'))
  const before = (await browser.pages()).length
  expect(await page.evaluate(`Boolean(window.open(${JSON.stringify(pages.url('opened'))}))`)).toBe(true)
  await until('the window', CHANGE_MS, async () => (await browser.pages()).length === before + 1)
})

test('six kiosk sessions created at once all fill their screens, each with its start page', async () => {
  const made = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      cloud.client.browsers.create({
        kiosk_mode: true,
        headless: false,
        viewport: { width: 1000 + index, height: 700 },
        start_url: pages.url(`kiosk-${index}`),
      }),
    ),
  )
  const looks = await Promise.all(
    made.map(async (one) => {
      const own = await puppeteer.connect({ browserWSEndpoint: one.cdp_ws_url, defaultViewport: null })
      // Puppeteer knows the page a moment after it has connected.
      const first = await until('the start page', BOOTS_MS, async () => (await own.pages()).find((known) => known.url() !== 'about:blank'))
      // While five other browsers boot, one that cannot draw for a moment leaves full screen and enters it again.
      const fills = `innerWidth === ${one.viewport!.width} && innerHeight === ${one.viewport!.height}`
      await until('the page to fill the screen', BOOTS_MS, async () => (await first.evaluate(fills)) === true, { everyMs: 50 })
      const look = first.url()
      await own.disconnect()
      await cloud.client.browsers.deleteByID(one.session_id)
      return look
    }),
  )
  expect(looks).toEqual(made.map((_, index) => pages.url(`kiosk-${index}`)))
})
