// The live view in a real browser, of a full session, and of a lean one (project "lean"). The test observes the watched session over CDP.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { chromium, type BrowserContextOptions, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { sleep, until } from '../../src/base/wait.ts'
import { problemsOf } from '../support/axe.ts'
import { startCloud } from '../support/cloud.ts'
import { areLean } from '../support/desk.ts'
import { forTests } from '../support/for-tests.ts'
import { processesOf } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { invitePerson, live, SEEN_MS, sees, spot, type Person } from '../support/person.ts'
import { openSession, where, type Session } from '../support/session.ts'
import { tlsInFrontOf } from '../support/tls.ts'
import { serveSockets } from '../support/upstreams.ts'

const VIEWPORT = { width: 1024, height: 768 }
/** How many times in a row the viewport changes. */
const CHANGES = 20
const SIZES = [{ width: 390, height: 640 }, { width: 1600, height: 1000 }, { width: 800, height: 600 }, VIEWPORT]
const WHITE = [255, 255, 255]
const RED = [208, 32, 32]

let person: Person
let session: Session
const open = () => openSession(cloud, { timeout_seconds: 600, headless: true, viewport: VIEWPORT })

const scope = new AsyncDisposableStack()
const pages = forTests(() => servePages())
const cloud = forTests(() => startCloud({ COB_LOG_LEVEL: 'debug', ...(areLean && { COB_HEADLESS: 'auto' }) }))
beforeAll(async () => {
  person = scope.use(await invitePerson())
  session = scope.use(await open())
})
afterAll(() => scope.disposeAsync())
beforeEach(async () => {
  await session.page.goto(pages.url('watched.html'))
})
afterEach(async () => {
  // A screenshot waits for all earlier input. Without this, an Escape of this test could stop the next test's navigation.
  await cloud.client.browsers.computer.captureScreenshot(session.id)
  await person.leave()
})

const viewOf = ({ made }: Session): string => made.browser_live_view_url!

const look = (url = viewOf(session), options: BrowserContextOptions = {}) => person.look(url, options)
const clickOn = async (page: Page, selector: string) => {
  const { x, y } = await where(session.page, selector)
  await page.mouse.click(...(await spot(page, x, y)))
}
const sizeOf = (page: Page) => () => page.evaluate("(({ width, height } = {}) => `${width},${height}`)(document.querySelector('#screen canvas') ?? undefined)")
const field = (): Promise<string> => session.page.inputValue('#field')
const fieldBecomes = async (text: string) => {
  await until('the text', SEEN_MS, async () => (await field()) === text, { everyMs: 20 }).catch(() => {})
  expect(await field()).toBe(text)
}
interface Heard {
  type: string
  key?: string
  button?: number
  trusted: boolean
}
const heard = (): Promise<Heard[]> => session.page.evaluate('heard')

describe('a viewer', () => {
  test('clicks, and sees the result', async () => {
    const page = await look()
    await sees(page, WHITE)
    await clickOn(page, '#paint')
    await sees(page, RED)
    expect(await session.page.evaluate('painted')).toBe(1)
    expect((await heard()).every(({ trusted }) => trusted)).toBe(true)
  })

  test('types everything that a keyboard can: capitals, symbols, other scripts, emoji, and keys without characters', async () => {
    const page = await look()
    await clickOn(page, '#field')
    await page.keyboard.type('Hello, World! 1+1=2?')
    await page.keyboard.press('Enter')
    await page.keyboard.type('Grüße 漢字 Ж 😀x')
    await page.keyboard.press('Backspace')
    await page.keyboard.press('Shift+ArrowLeft')
    await page.keyboard.press('Shift+ArrowLeft')
    await page.keyboard.press('Delete')
    await fieldBecomes('Hello, World! 1+1=2?\nGrüße 漢字 Ж')
  })

  test('scrolls, and uses the right button and shortcuts', async () => {
    const page = await look()
    await clickOn(page, '#field')
    await page.keyboard.type('one')
    await page.keyboard.press('Control+a')
    await page.keyboard.type('two')
    await fieldBecomes('two')
    await page.mouse.wheel(0, 200)
    const { x, y } = await where(session.page, '#paint')
    await page.mouse.click(...(await spot(page, x, y + 200)), { button: 'right' })
    await until('both', SEEN_MS, async () => (await heard()).some(({ type }) => type === 'wheel') && (await heard()).some(({ button }) => button === 2))
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
  })

  test('on a phone touches the screen, and opens the keyboard with its button', async () => {
    const page = await look(viewOf(session), { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true })
    const tapOn = async (selector: string) => {
      const { x, y } = await where(session.page, selector)
      await page.touchscreen.tap(...(await spot(page, x, y)))
    }
    await tapOn('#paint')
    await sees(page, RED)
    await tapOn('#field')
    await until('the focus', SEEN_MS, () => session.page.evaluate('document.activeElement.id === "field"'))
    await page.getByRole('button', { name: 'Keyboard' }).click()
    await page.keyboard.insertText('von Hand ✓')
    await fieldBecomes('von Hand ✓')
  })

  test('that leaves, leaves nothing pressed', async () => {
    const page = await look()
    const { x, y } = await where(session.page, '#paint')
    await page.mouse.move(...(await spot(page, x, y)))
    await page.mouse.down()
    await page.keyboard.down('Control')
    await until('both to be down', SEEN_MS, async () => (await heard()).some(({ key, type }) => key === 'Control' && type === 'keydown'))
    await page.close()
    await until('both to be up', SEEN_MS, async () => {
      const types = (await heard()).map(({ type }) => type)
      return types.includes('keyup') && types.includes('pointerup')
    })
  })
})

describe('the clipboard of the live view', () => {
  const granted = (): BrowserContextOptions => ({ permissions: ['clipboard-read', 'clipboard-write'] })
  const text = 'copied: äß 漢字 😀\nsecond line'
  const mine = (page: Page): Promise<string> => page.evaluate('navigator.clipboard.readText()')

  test("has on the viewer's side what was copied in the session", async () => {
    const page = await look(viewOf(session), granted())
    await session.page.fill('#field', text)
    await clickOn(page, '#field')
    await page.keyboard.press('Control+a')
    await page.keyboard.press('Control+c')
    await until('the copy', SEEN_MS, async () => (await mine(page)) === text, { everyMs: 50 })
  })

  test('has in the session what the viewer copied, immediately and for any length', async () => {
    const page = await look(viewOf(session), granted())
    const long = `${text} ${'0123456789'.repeat(20_000)}`
    await clickOn(page, '#field')
    await page.evaluate(
      (value) => (globalThis as unknown as { navigator: { clipboard: { writeText(text: string): Promise<void> } } }).navigator.clipboard.writeText(value),
      long,
    )
    await page.keyboard.press('Control+v')
    await until('the paste', SEEN_MS, async () => (await field()).length >= long.length, { everyMs: 50 })
    expect((await field()) === long).toBe(true)
    expect((await cloud.client.browsers.computer.readClipboard(session.id)).text === long).toBe(true)
  })

  test('can be read and set in its panel', async () => {
    await cloud.client.browsers.computer.writeClipboard(session.id, { text: 'from before' })
    const page = await look()
    await page.getByRole('button', { name: 'Clipboard' }).click()
    const panel = page.getByRole('textbox', { name: 'Clipboard' })
    await until('what was there', SEEN_MS, async () => (await panel.inputValue()) === 'from before')
    await panel.fill('from the panel')
    await page.getByRole('button', { name: 'Put into the session' }).click()
    await until('it there', SEEN_MS, async () => (await cloud.client.browsers.computer.readClipboard(session.id)).text === 'from the panel')
    await page.keyboard.press('Escape')
    expect(await page.locator('#clipboard-panel').isHidden()).toBe(true)
  })
})

describe('a read-only live view', () => {
  test('shows everything and accepts no input', async () => {
    const page = await look(`${viewOf(session)}?readOnly=true`)
    expect(page.url()).not.toContain(new URL(viewOf(session)).pathname)
    await clickOn(page, '#paint')
    await page.keyboard.type('abc')
    await page.mouse.wheel(0, 100)
    // All earlier input has arrived before another viewer's later click.
    const other = await look()
    await clickOn(other, '#paint')
    await sees(page, RED)
    expect((await heard()).filter(({ type }) => type !== 'pointerdown' && type !== 'pointerup')).toEqual([])
    expect(await session.page.evaluate('painted')).toBe(1)
  })

  test('is enforced by the service, whatever a page sends', async () => {
    const watch = (await look(`${viewOf(session)}?readOnly=true`)).url()
    await cloud.client.browsers.computer.writeClipboard(session.id, { text: 'untouched' })
    const { x, y } = await where(session.page, '#paint')
    const socket = new WebSocket(`${watch.replace('http', 'ws')}/socket?readOnly=false`)
    const received: string[] = []
    socket.on('message', (data, isBinary) => !isBinary && received.push(String(data as Buffer)))
    await once(socket, 'open')
    const word = (...bytes: number[]) => socket.send(Buffer.from(bytes))
    socket.send(Buffer.from('RFB 003.008\n'))
    word(1)
    word(1)
    word(5, 1, x >> 8, x & 255, y >> 8, y & 255)
    word(5, 0, x >> 8, x & 255, y >> 8, y & 255)
    word(4, 1, 0, 0, 0, 0, 0, 0x61)
    word(4, 0, 0, 0, 0, 0, 0, 0x61)
    word(255, 0, 0, 1, 0, 0, 0, 0x62, 0, 0, 0, 0x30)
    word(6, 0, 0, 0, 0, 0, 0, 3, 0x61, 0x62, 0x63)
    word(251, 0, 1, 0x90, 1, 0x90, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x90, 1, 0x90, 0, 0, 0, 0)
    socket.send(JSON.stringify({ type: 'clipboard', text: 'stolen' }))
    await cloud.client.browsers.computer.writeClipboard(session.id, { text: 'untouched too' })
    const other = await look()
    await clickOn(other, '#field')
    await other.keyboard.type('z')
    await fieldBecomes('z')
    expect(await session.page.evaluate('[painted, innerWidth]')).toEqual([0, VIEWPORT.width])
    expect((await heard()).filter(({ key }) => key !== undefined).map(({ key }) => key)).toEqual(['z', 'z'])
    expect((await cloud.client.browsers.computer.readClipboard(session.id)).text).toBe('untouched too')
    // The viewer also does not receive what others copy.
    expect(received.join()).not.toMatch(/untouched|clipboard/)
    socket.terminate()
  })

  test('has a link to share, in the toolbar', async () => {
    const page = await look(viewOf(session), { permissions: ['clipboard-read', 'clipboard-write'] })
    await page.getByRole('button', { name: 'Copy view-only link' }).click()
    await page.getByText('View-only link copied').waitFor()
    const link = (await page.evaluate('navigator.clipboard.readText()')) as string
    const other = await look(link)
    expect(await other.getByText('View only').isVisible()).toBe(true)
  })
})

describe('the connection of the live view', () => {
  test('is restored after it breaks, and the last picture stays visible meanwhile', async () => {
    const page = await look()
    await cloud.kill()
    await page.waitForSelector('[data-state=connecting]')
    expect(await page.locator('#last').isVisible()).toBe(true)
    expect(await page.getByRole('status').first().textContent()).toContain('Reconnecting')
    await cloud.start()
    await live(page)
    expect(await page.locator('#last').isHidden()).toBe(true)
    // The session continues, but the test's own CDP connection has closed.
    const browser = await chromium.connectOverCDP(session.made.cdp_ws_url)
    session.browser = browser
    session.page = browser.contexts()[0]!.pages()[0]!
    await clickOn(page, '#paint')
    await sees(page, RED)
  })

  test('shows that the session has ended, and why; so does the link afterwards', async () => {
    const made = await cloud.client.browsers.create()
    const page = await look(made.browser_live_view_url)
    await cloud.client.browsers.deleteByID(made.session_id)
    await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
    expect(await page.locator('#notice-text').textContent()).toBe('The owner of this session has ended it.')
    const again = await page.reload()
    expect(again!.status()).toBe(410)
    expect(await page.getByText('The owner of this session has ended it.').isVisible()).toBe(true)
  })

  test('does not break while the page draws and the viewport changes many times', { timeout: CHANGES * SEEN_MS }, async () => {
    await session.page.evaluate(`(() => {
      let turn = 0
      const draw = () => requestAnimationFrame(draw, document.body.style.background = 'hsl(' + (turn++ * 7) % 360 + ' 80% 50%)')
      draw()
    })()`)
    const page = await look()
    await page.evaluate(
      `new MutationObserver(() => document.body.dataset.state !== 'live' && (window.broke = true)).observe(document.body, { attributes: true })`,
    )
    const size = sizeOf(page)
    for (let count = 0; count < CHANGES; count++) {
      const { width, height } = SIZES[count % SIZES.length]!
      await cloud.client.browsers.update(session.id, { viewport: { width, height } })
      await until('the new size', SEEN_MS, async () => (await size()) === `${width},${height}`, { everyMs: 20 })
    }
    expect(await page.evaluate('window.broke')).toBeUndefined()
    await session.page.reload()
    await clickOn(page, '#paint')
    await sees(page, RED)
  })

  test('counts as use of the session, which times out only when nobody watches', { timeout: 60_000 }, async () => {
    const short = await cloud.client.browsers.create({ timeout_seconds: 10 })
    const page = await look(short.browser_live_view_url)
    const goBack = () => cloud.query(`update browsers set last_active_at = now() - interval '1 hour' where id = $1`, [short.session_id])
    // Longer than two checks for idle sessions.
    const LOOKS_MS = 2_200
    await page.waitForTimeout(LOOKS_MS)
    // Set the clock back by less than the timeout: a check may be between recording uses and ending idle sessions.
    await cloud.query(`update browsers set last_active_at = now() - interval '9 seconds' where id = $1`, [short.session_id])
    await page.waitForTimeout(LOOKS_MS)
    expect(await page.getAttribute('body', 'data-state')).toBe('live')
    await page.close()
    await sleep(LOOKS_MS)
    await goBack()
    await until('its end', 20_000, async () => (await cloud.fetch(`/browsers/${short.session_id}`)).status === 404, { everyMs: 200 })
  })
})

test('several viewers see the same picture and their number', async () => {
  const views = [await look(), await look(), await look(`${viewOf(session)}?readOnly=true`)]
  await clickOn(views[0]!, '#paint')
  for (const view of views) {
    await sees(view, RED)
    await view.getByText('3 watching').waitFor()
  }
})

// A lean session has no such program. cdp-picture.test.ts has the same of its pictures.
test.skipIf(areLean)('one server produces the picture of several viewers, and only while somebody watches', async () => {
  const server = () => processesOf(cloud, session.id).filter(({ command }) => command.startsWith('X0tigervnc')).length
  await until('no server of the test before', 20_000, () => server() === 0, { everyMs: 100 })
  const views = [await look(), await look()]
  expect(server()).toBe(1)
  await Promise.all(views.map((view) => view.close()))
  await until('the server to end', 20_000, () => server() === 0, { everyMs: 100 })
})

test('a viewer with a hidden tab gets nothing until the tab is visible again', async () => {
  const socket = new WebSocket(`${viewOf(session).replace('http', 'ws')}/socket`)
  let bytes = 0
  socket.on('message', (data, isBinary) => isBinary && (bytes += (data as Buffer).length))
  await once(socket, 'open')
  const ask = (incremental: number) =>
    socket.send(Buffer.from([3, incremental, 0, 0, 0, 0, VIEWPORT.width >> 8, VIEWPORT.width & 255, VIEWPORT.height >> 8, VIEWPORT.height & 255]))
  socket.send(Buffer.from('RFB 003.008\n\x01\x01'))
  socket.send(Buffer.from([2, 0, 0, 1, 0, 0, 0, 7]))
  ask(0)
  await until('the picture', SEEN_MS, () => bytes > 1_000)
  socket.send(JSON.stringify({ type: 'hidden', hidden: true }))
  let before = -1
  await until('the rest of it', SEEN_MS, () => bytes === before || ((before = bytes), false), { everyMs: 1_000 })
  ask(1)
  await session.page.evaluate("document.body.style.background = 'teal'")
  await sleep(1_000)
  expect(bytes).toBe(before)
  socket.send(JSON.stringify({ type: 'hidden', hidden: false }))
  await until('what had changed', SEEN_MS, () => bytes > before)
  socket.terminate()
})

test('the live view works behind a proxy with TLS', async () => {
  await using proxy = await tlsInFrontOf(cloud.url)
  const page = await look(proxy.url + new URL(viewOf(session)).pathname, { ignoreHTTPSErrors: true })
  await clickOn(page, '#paint')
  await sees(page, RED)
  await page.close()
})

test('the live view works in the frame of another site', async () => {
  const frameOfIt = `<iframe src="${viewOf(session)}" width="1000" height="800" allow="clipboard-read; clipboard-write"></iframe>`
  await using site = await serveSockets(createServer((_request, response) => response.setHeader('content-type', 'text/html').end(frameOfIt)))
  const page = await person.newPage()
  await page.goto(`http://localhost:${site.port}/`)
  const frame = page.frameLocator('iframe')
  await frame.locator('[data-state=live]').waitFor()
  const canvas = frame.locator('#screen canvas')
  await until('a picture', SEEN_MS, async () => ((await canvas.boundingBox())?.width ?? 0) > 100)
  const [box, { x, y }] = [(await canvas.boundingBox())!, await where(session.page, '#paint')]
  await page.mouse.click(box.x + (x * box.width) / VIEWPORT.width, box.y + (y * box.width) / VIEWPORT.width)
  await until('the click', SEEN_MS, async () => (await session.page.evaluate('painted')) === 1)
})

test('the live view passes the accessibility check: live, with its panel, read-only, on a phone, ended', async () => {
  const made = await cloud.client.browsers.create({ headless: true, name: 'looked at' })
  const view = made.browser_live_view_url!
  const page = await look(view)
  expect(await problemsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'Clipboard' }).click()
  expect(await problemsOf(page)).toEqual([])
  expect(await problemsOf(await look(`${view}?readOnly=true`))).toEqual([])
  expect(await problemsOf(await look(view, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }))).toEqual([])
  await cloud.client.browsers.deleteByID(made.session_id)
  await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
  expect(await problemsOf(page)).toEqual([])
  await page.reload()
  expect(await problemsOf(page)).toEqual([])
})

test('the live view can be used with the keyboard alone: out of the session with Ctrl+Alt+Shift, along the toolbar, and back', async () => {
  const page = await look()
  await until('the focus', SEEN_MS, () => page.evaluate("document.activeElement.id === 'keys'"))
  await page.keyboard.press('Control+Alt+Shift')
  expect(await page.evaluate('document.activeElement.id')).toBe('full')
  for (const _ of ['share', 'actual']) await page.keyboard.press('Shift+Tab')
  expect(await page.evaluate('document.activeElement.id')).toBe('actual')
  await page.keyboard.press('Space')
  expect(await page.getByRole('button', { name: 'Actual size' }).getAttribute('aria-pressed')).toBe('true')
  for (const _ of ['share', 'full', 'keys']) await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.id')).toBe('keys')
})

test('no token of a live view is in the log', async () => {
  const page = await look()
  const token = new URL(viewOf(session)).pathname.split('/').at(-1)!
  for (const path of [`/browser/live/${token}/nothing`, `//browser//live/${token}`, `/browser/%6Cive/${token}`]) await cloud.fetch(path)
  await cloud.fetch(`/browser/live/${token}`, { method: 'POST' })
  await page.close()
  await until('a request to be logged', SEEN_MS, () => cloud.log().includes('/browser/live/…'))
  expect(cloud.log()).not.toContain(token.slice(25))
})
