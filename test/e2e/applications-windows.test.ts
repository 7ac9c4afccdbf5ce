// Uses Chromium's own windows and controls by mouse and keyboard.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { become, LOAD_MS, openDesk, TAKE_MS, WINDOW_MS, type Desk } from '../support/desk.ts'
import { runInside } from '../support/inside.ts'
import { boxOf, openSession, where, type Box, type Session } from '../support/session.ts'

let desk: Desk
let cloud: Desk['cloud']
let pages: Desk['pages']
let computer: Desk['computer']
beforeAll(async () => {
  desk = await openDesk()
  ;({ cloud, pages, computer } = desk)
})
afterAll(() => desk[Symbol.asyncDispose]())

describe('windows outside the page', () => {
  const middle: Box = { x: 700, y: 400, width: 500, height: 300 }

  test.each([
    ['in a headless session', { headless: true }],
    ['in a headful session', { headless: false }],
  ])('a file can be chosen in the file dialog by typing its path: %s', async (_kind, options) => {
    await using session = await openSession(cloud, { timeout_seconds: 300, ...options })
    const { id, page } = session
    expect(await runInside(cloud, id, `printf 'what the note says' > note.txt; printf 'another' > other.txt`)).toMatchObject({ code: 0 })
    await page.goto(pages.url('chooser.html'))
    const field = await where(page, '#file')
    const openDialog = () => desk.comesUp('the file dialog', id, middle, () => computer.clickMouse(id, field))
    const shut = await desk.shot(id, middle)
    const dialogGone = () => until('the dialog to be gone', WINDOW_MS, async () => shut.equals(await desk.shot(id, middle)), { everyMs: 50 })

    // A slash opens the path field. In this dialog Return means Cancel; Alt and O means Open.
    await openDialog()
    await computer.typeText(id, { text: '/home/kernel/note.txt' })
    await computer.pressKey(id, { keys: ['alt+o'] })
    await become(page, 'chosen', { name: 'note.txt', text: 'what the note says' })
    await dialogGone()
    // Ctrl and L opens the path field too.
    await openDialog()
    await computer.pressKey(id, { keys: ['ctrl+l'] })
    await computer.typeText(id, { text: '/home/kernel/other.txt' })
    await computer.pressKey(id, { keys: ['alt+o'] })
    await become(page, 'chosen', { name: 'other.txt', text: 'another' })
    await dialogGone()
    // Escape keeps the choice and returns the focus to the page.
    await openDialog()
    await computer.pressKey(id, { keys: ['Escape'] })
    await dialogGone()
    await become(page, 'chosen.name', 'other.txt')
    await computer.pressKey(id, { keys: ['Tab', 'b'] })
    await become(page, `document.getElementById('colour').value`, 'blue')
  })

  test('an entry of a drop-down list can be chosen with the mouse and with keys', async () => {
    await using session = await openSession(cloud, { headless: true })
    const { id, page } = session
    await page.goto(pages.url('chooser.html'))
    const { x, y, width, height } = await boxOf(page, '#colour')
    // Compare an area without the pointer, because the pointer is part of the picture.
    const below: Box = { x: x + 100, y: y + height + 2, width: Math.round(width) - 100, height: 60 }
    const [left, centre] = [x + 40, Math.round(y + height / 2)]
    const shut = await desk.shot(id, below)
    await desk.comesUp('the list', id, below, () => computer.clickMouse(id, { x: left, y: centre }))
    await computer.pressKey(id, { keys: ['Down', 'Return'] })
    await become(page, `document.getElementById('colour').value`, 'green')
    await until('the list to be gone', WINDOW_MS, async () => shut.equals(await desk.shot(id, below)), { everyMs: 50 })
    await desk.comesUp('the list again', id, below, () => computer.clickMouse(id, { x: left, y: centre }))
    // The first entry is right below the field.
    await computer.clickMouse(id, { x: left, y: y + height + 12 })
    await become(page, `document.getElementById('colour').value`, 'red')
  })
})

describe("the browser's own controls", () => {
  let session: Session
  let id: string
  beforeAll(async () => {
    session = await openSession(cloud, { timeout_seconds: 600, headless: false })
    ;({ id } = session)
  })
  afterAll(async () => {
    await session[Symbol.asyncDispose]()
  })
  // A page from the back/forward cache fires no load event, so wait for its URL.
  const arrive = (page: Page, name: string) => until(`the page ${name}`, LOAD_MS, () => page.url() === pages.url(name))

  /** Opens the page's context menu and presses keys in it. */
  async function menu(keys: string[]): Promise<void> {
    const [x, y] = [700, 500]
    await desk.comesUp('the context menu', id, { x: x + 20, y: y + 20, width: 100, height: 100 }, () => computer.clickMouse(id, { x, y, button: 'right' }))
    await computer.pressKey(id, { keys })
  }

  test('a URL typed into the address bar is opened', async () => {
    await computer.pressKey(id, { keys: ['ctrl+l'] })
    await computer.typeText(id, { text: `${pages.url('typed')}\n` })
    await arrive(session.page, 'typed')
    // Repeat with the mouse: it must reach Chromium's own controls above the page.
    const { y } = await boxOf(session.page, 'html')
    await computer.clickMouse(id, { x: 600, y: Math.round(y * 0.7), num_clicks: 3 })
    await computer.typeText(id, { text: `${pages.url('clicked')}\n` })
    await arrive(session.page, 'clicked')
  })

  test('shortcuts of one batch have the focus that the previous one set: ctrl+l, ctrl+a, ctrl+c always copy the address', async () => {
    const { page } = session
    await page.goto(pages.url('writing.html'))
    const address = page.url()
    const copied: string[] = []
    for (let round = 0; round < 15; round++) {
      await computer.writeClipboard(id, { text: 'nothing yet' })
      await computer.batch(id, {
        actions: [
          { type: 'click_mouse', click_mouse: { x: 700, y: 500 } },
          { type: 'press_key', press_key: { keys: ['ctrl+l'] } },
          { type: 'press_key', press_key: { keys: ['ctrl+a'] } },
          { type: 'press_key', press_key: { keys: ['ctrl+c'] } },
        ],
      })
      copied.push((await computer.readClipboard(id)).text!)
    }
    expect(new Set(copied)).toEqual(new Set([address]))
  })

  test('entries of the context menu can be chosen with arrow keys and with letters', async () => {
    const { page } = session
    await page.goto(pages.url('before'))
    await page.goto(pages.url('after'))
    // The first entry is Back.
    await menu(['Down', 'Return'])
    await arrive(page, 'before')
    const hits = pages.hits('before')
    await page.evaluate('void (window.isOld = true)')
    await menu(['r'])
    // Chromium closes a menu that is opened before the new page is ready.
    await page.waitForFunction('!window.isOld && document.readyState === "complete"', undefined, { timeout: LOAD_MS })
    expect(pages.hits('before')).toBe(hits + 1)
    // Escape closes the menu without an action, and the page gets the keys again.
    await page.evaluate('void addEventListener("keydown", ({ key }) => (window.pressed = key))')
    await menu(['Escape'])
    await until(
      'a key in the page',
      TAKE_MS,
      async () => {
        await computer.pressKey(id, { keys: ['j'] })
        return (await page.evaluate('window.pressed')) === 'j'
      },
      { everyMs: 200 },
    )
    expect(pages.hits('before')).toBe(hits + 1)
  })

  test('a click and a key before the first frame of a page reach it', async () => {
    const { page } = session
    for (let count = 0; count < 15; count++) {
      await page.goto(pages.url('before'))
      await page.goto(pages.url('unpainted.html'), { waitUntil: 'commit' })
      await computer.clickMouse(id, { x: 700, y: 500 })
      await computer.pressKey(id, { keys: ['j'] })
      await become(page, 'presses', [0, 'j'])
    }
  })

  test("the mouse's back and forward buttons and alt with arrows navigate the history", async () => {
    const { page } = session
    await page.goto(pages.url('one'))
    await page.goto(pages.url('two'))
    await computer.clickMouse(id, { x: 700, y: 500, button: 'back' })
    await arrive(page, 'one')
    await computer.clickMouse(id, { x: 700, y: 500, button: 'forward' })
    await arrive(page, 'two')
    await computer.pressKey(id, { keys: ['alt+Left'] })
    await arrive(page, 'one')
    await computer.pressKey(id, { keys: ['alt+Right'] })
    await arrive(page, 'two')
  })

  test('ctrl+t opens a tab whose address bar gets the typed text; ctrl+w closes it', async () => {
    const tabs = () => session.browser.contexts()[0]!.pages()
    const [first] = tabs()
    await computer.pressKey(id, { keys: ['ctrl+t'] })
    const second = await until('a second tab', LOAD_MS, () => tabs().find((tab) => tab !== first))
    await computer.typeText(id, { text: `${pages.url('second')}\n` })
    await arrive(second, 'second')
    await computer.pressKey(id, { keys: ['ctrl+w'] })
    await until('one tab', TAKE_MS, () => tabs().length === 1 && tabs()[0] === first)
  })

  test('ctrl with the wheel, plus and 0 zooms the page', async () => {
    const { page } = session
    await page.goto(pages.url('zoomed'))
    await computer.scroll(id, { x: 700, y: 500, delta_y: -1, hold_keys: ['ctrl'] })
    await page.waitForFunction('devicePixelRatio > 1', undefined, { timeout: TAKE_MS })
    await computer.pressKey(id, { keys: ['ctrl+0'] })
    await page.waitForFunction('devicePixelRatio === 1', undefined, { timeout: TAKE_MS })
    await computer.pressKey(id, { keys: ['ctrl+plus'] })
    await page.waitForFunction('devicePixelRatio > 1', undefined, { timeout: TAKE_MS })
    await computer.pressKey(id, { keys: ['ctrl+0'] })
    await page.waitForFunction('devicePixelRatio === 1', undefined, { timeout: TAKE_MS })
  })
})
