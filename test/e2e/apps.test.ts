// Real applications worked by mouse, wheel and keyboard: what a person would see done is done.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { runInside } from '../support/inside.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { boxOf, openSession, where, type Box, type Session } from '../support/session.ts'

/** A page takes up what it was given. */
const TAKE_MS = 10_000
/** A menu or a dialog comes up or goes away: GTK reads its icons first. */
const WINDOW_MS = 20_000
/** A page loads. */
const LOAD_MS = 20_000

let cloud: Cloud
let pages: Pages
let computer: Cloud['client']['browsers']['computer']
beforeAll(async () => {
  pages = await servePages()
  cloud = await startCloud()
  computer = cloud.client.browsers.computer
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await pages[Symbol.asyncDispose]()
})

type Point = [number, number]

/** Waits until a value of the page is what it should be, and says what it was when it never is. */
async function become(page: Page, expression: string, wanted: unknown): Promise<void> {
  const text = JSON.stringify(wanted)
  await page.waitForFunction(`JSON.stringify(${expression}) === ${JSON.stringify(text)}`, undefined, { timeout: TAKE_MS }).catch(() => {})
  expect(await page.evaluate(expression)).toEqual(wanted)
}

const shot = async (id: string, region: Box): Promise<Buffer> => Buffer.from(await (await computer.captureScreenshot(id, { region })).arrayBuffer())

/** Does something, and waits until this part of the screen looks different: a window has come up there. */
async function comesUp(what: string, id: string, region: Box, action: () => Promise<void>): Promise<void> {
  const before = await shot(id, region)
  await action()
  await until(what, WINDOW_MS, async () => !before.equals(await shot(id, region)), { everyMs: 50 })
}

describe('in a page', () => {
  let session: Session
  let id: string
  let page: Page
  beforeAll(async () => {
    session = await openSession(cloud, { timeout_seconds: 600, headless: true })
    ;({ id, page } = session)
  })
  afterAll(async () => {
    await session[Symbol.asyncDispose]()
  })

  describe('a drawing', () => {
    let canvas: Box
    beforeAll(async () => {
      await page.goto(pages.url('drawing.html'))
      canvas = await boxOf(page, '#canvas')
    })
    const onScreen = (path: Point[]): Point[] => path.map(([x, y]) => [x + canvas.x, y + canvas.y])
    const strokes = () => page.evaluate('strokes()') as Promise<Point[][]>

    test('strokes drawn with the mouse are in the drawing where they were drawn', async () => {
      const first: Point[] = [
        [100, 100],
        [300, 400],
        [500, 100],
        [700, 400],
      ]
      const second: Point[] = [
        [800, 450],
        [800, 50],
        [950, 50],
      ]
      // Each corner twice: the pointer rests there, so that no frame passes it by.
      for (const path of [first, second])
        await computer.dragMouse(id, { path: onScreen(path.flatMap((point) => [point, point])), smooth: false, steps_per_segment: 10, step_delay_ms: 20 })
      await become(page, 'strokes().length', 2)
      const drawn = await strokes()
      for (const [index, path] of [first, second].entries()) {
        const points = drawn[index]!
        expect(points.length).toBeGreaterThan(10)
        expect(Math.max(...points.map((point) => distanceToPath(point, path)))).toBeLessThanOrEqual(2)
        for (const corner of path) expect(Math.min(...points.map((point) => distance(point, corner)))).toBeLessThanOrEqual(2)
        expect(distance(points[0]!, path[0]!)).toBeLessThanOrEqual(2)
        expect(distance(points.at(-1)!, path.at(-1)!)).toBeLessThanOrEqual(2)
      }
      // And the ink can be seen on the screen.
      const [x, y] = onScreen([[800, 250]])[0]!
      const { dominant } = await sharp(await shot(id, { x: x - 1, y: y - 1, width: 2, height: 2 })).stats()
      expect(Math.max(dominant.r, dominant.g, dominant.b)).toBeLessThan(128)
    })

    test('a stroke in three calls, down, move, up, is one stroke', async () => {
      await page.evaluate('pad.clear()')
      const [from, to] = onScreen([
        [200, 200],
        [600, 300],
      ]) as [Point, Point]
      await computer.clickMouse(id, { x: from[0], y: from[1], click_type: 'down' })
      await computer.moveMouse(id, { x: to[0], y: to[1], smooth: true, duration_ms: 500 })
      await computer.clickMouse(id, { x: to[0], y: to[1], click_type: 'up' })
      await become(page, 'strokes().length', 1)
      const [points] = await strokes()
      expect(points!.length).toBeGreaterThan(10)
      expect(distance(points![0]!, [200, 200])).toBeLessThanOrEqual(2)
      expect(distance(points!.at(-1)!, [600, 300])).toBeLessThanOrEqual(2)
    })
  })

  describe('a sortable list', () => {
    beforeEach(async () => {
      await page.goto(pages.url('sortable.html'))
    })
    const item = (name: string) => where(page, `[data-id="${name}"]`)
    async function drag(from: string, to: string): Promise<void> {
      const [start, end] = [await item(from), await item(to)]
      const path = [
        [start.x, start.y],
        [end.x, end.y],
      ]
      await computer.dragMouse(id, { path, smooth: false, steps_per_segment: 20, step_delay_ms: 30, delay: 100 })
    }

    test('an item dragged down or up stands where it was dropped', async () => {
      await drag('a', 'd')
      await become(page, `order('native')`, ['b', 'c', 'd', 'a', 'e'])
      await drag('e', 'b')
      await become(page, `order('native')`, ['e', 'b', 'c', 'd', 'a'])
    })

    test('an item dragged into another list leaves the first', async () => {
      await drag('c', 'y')
      await become(page, `order('native')`, ['a', 'b', 'd', 'e'])
      await become(page, `order('other').includes('c')`, true)
    })

    test('a list that moves its items by itself is sorted too', async () => {
      await drag('1', '4')
      await become(page, `order('fallback')`, ['2', '3', '4', '1', '5'])
      await drag('5', '2')
      await become(page, `order('fallback')`, ['5', '2', '3', '4', '1'])
    })
  })

  test('the handles of a slider follow the mouse', async () => {
    await page.goto(pages.url('slider.html'))
    const pull = async (handle: string, by: number): Promise<void> => {
      const { x, y } = await where(page, handle)
      const path = [
        [x, y],
        [x + by, y + 30],
      ]
      await computer.dragMouse(id, { path, duration_ms: 500 })
    }
    const values = () => page.evaluate('values()') as Promise<[number, number]>
    await pull('.noUi-handle-lower', 150)
    await page.waitForFunction('values()[0] > 345', undefined, { timeout: TAKE_MS })
    await pull('.noUi-handle-upper', -100)
    await page.waitForFunction('values()[1] < 505', undefined, { timeout: TAKE_MS })
    const [lower, upper] = await values()
    expect([Math.abs(lower - 350) < 3, Math.abs(upper - 500) < 3]).toEqual([true, true])
  })

  describe('a map', () => {
    let map: Box
    beforeEach(async () => {
      await page.goto(pages.url('map.html'))
      map = await boxOf(page, '#map')
    })
    const placeAt = ([x, y]: Point) => page.evaluate(`placeAt(${x}, ${y})`) as Promise<Point>
    const onScreen = ([x, y]: Point): Point => [x + map.x, y + map.y]

    test('the place that was grabbed is under the mouse where it was let go', async () => {
      const [from, to] = [
        [700, 400],
        [350, 230],
      ] as [Point, Point]
      const grabbed = await placeAt(from)
      await computer.dragMouse(id, { path: [onScreen(from), onScreen(to)], duration_ms: 600 })
      await until('the map to have moved', TAKE_MS, async () => distance(await placeAt(to), grabbed) < 0.2, { everyMs: 50 })
    })

    test('the wheel zooms in and out around the pointer', async () => {
      const point: Point = [250, 150]
      const place = await placeAt(point)
      const [x, y] = onScreen(point)
      await computer.scroll(id, { x, y, delta_y: -3 })
      await page.waitForFunction('zoom() > 4', undefined, { timeout: TAKE_MS })
      expect(distance(await placeAt(point), place)).toBeLessThan(0.5)
      const near = (await page.evaluate('zoom()')) as number
      await computer.scroll(id, { x, y, delta_y: 2 })
      await page.waitForFunction(`zoom() < ${near}`, undefined, { timeout: TAKE_MS })
    })

    test('a double click zooms in; with shift held it zooms out', async () => {
      const [x, y] = onScreen([450, 400])
      await computer.clickMouse(id, { x, y, num_clicks: 2 })
      await become(page, 'zoom()', 5)
      await computer.clickMouse(id, { x, y, num_clicks: 2, hold_keys: ['shift'] })
      await become(page, 'zoom()', 4)
    })

    test('a marker is dragged alone, and the map stays', async () => {
      const centre = await placeAt([450, 275])
      const { x, y } = await where(page, '.leaflet-marker-icon')
      const path = [
        [x, y],
        [x + 200, y + 100],
      ]
      await computer.dragMouse(id, { path, duration_ms: 500 })
      await become(page, 'markerAt().map(Math.round)', [650, 375])
      expect(await placeAt([450, 275])).toEqual(centre)
    })
  })

  describe('a code editor', () => {
    beforeEach(async () => {
      await page.goto(pages.url('editor.html'))
      await page.waitForFunction('window.ready', undefined, { timeout: LOAD_MS })
      await computer.clickMouse(id, await where(page, '#editor'))
    })

    test('5,000 characters of source typed without pause arrive as they are', { timeout: 240_000 }, async () => {
      const source = sourceText(5_000)
      await computer.typeText(id, { text: source, delay: 0 })
      await page.waitForFunction(`text().length >= ${source.length}`, undefined, { timeout: TAKE_MS }).catch(() => {})
      expect(await page.evaluate('text()')).toBe(source)
    })

    test('select all and copy put the document into the clipboard; paste puts the clipboard into the document', async () => {
      const source = sourceText(2_000)
      await page.evaluate(`setText(${JSON.stringify(source)})`)
      await computer.pressKey(id, { keys: ['ctrl+a', 'ctrl+c'] })
      await until('the copy', TAKE_MS, async () => (await computer.readClipboard(id)).text === source, { everyMs: 100 })
      const other = `${sourceText(1_000)}\n\tthe end é ü 漢 😀`
      await computer.writeClipboard(id, { text: other })
      await computer.pressKey(id, { keys: ['ctrl+a', 'ctrl+v'] })
      await become(page, 'text()', other)
    })

    test('cut, undo and redo do what they do under a hand', async () => {
      await computer.typeText(id, { text: 'one two three' })
      await become(page, 'text()', 'one two three')
      await computer.pressKey(id, { keys: ['ctrl+shift+Left', 'ctrl+x'] })
      await become(page, 'text()', 'one two ')
      await until('the cut', TAKE_MS, async () => (await computer.readClipboard(id)).text === 'three', { everyMs: 100 })
      await computer.pressKey(id, { keys: ['ctrl+z'] })
      await become(page, 'text()', 'one two three')
      await computer.pressKey(id, { keys: ['ctrl+y'] })
      await become(page, 'text()', 'one two ')
    })

    test('a double click selects a word, a third the line, and what is typed replaces them', async () => {
      await page.evaluate(`setText('first line\\nsecond word here\\nlast')`)
      const [x, y] = ((await page.evaluate(`placeOf('first line\\nsecond w'.length)`)) as Point).map(Math.round) as Point
      await computer.clickMouse(id, { x, y, num_clicks: 2 })
      await become(page, 'selected()', 'word')
      await computer.typeText(id, { text: 'thing' })
      await become(page, 'text()', 'first line\nsecond thing here\nlast')
      // A click elsewhere, or a quick hand's next click would count as the third.
      await computer.clickMouse(id, await where(page, '#editor'))
      await computer.clickMouse(id, { x, y, num_clicks: 3 })
      await become(page, 'selected()', 'second thing here\n')
      await computer.typeText(id, { text: 'gone\n' })
      await become(page, 'text()', 'first line\ngone\nlast')
    })

    test('a drag and a click with shift held select what lies between', async () => {
      await page.evaluate(`setText('alpha beta gamma delta')`)
      const at = async (offset: number) => ((await page.evaluate(`placeOf(${offset})`)) as Point).map(Math.round) as Point
      // The middle of a character may fall to either side of it; a pixel further left is before it.
      const before = ([x, y]: Point): Point => [x - 2, y]
      const [from, to, further] = [before(await at(6)), before(await at(10)), before(await at(16))]
      await computer.dragMouse(id, { path: [from, to], duration_ms: 400 })
      await become(page, 'selected()', 'beta')
      await computer.clickMouse(id, { x: further[0], y: further[1], hold_keys: ['shift'] })
      await become(page, 'selected()', 'beta gamma')
    })

    test('one batch writes, selects, copies and pastes, in this order', async () => {
      await computer.batch(id, {
        actions: [
          { type: 'type_text', type_text: { text: 'again ' } },
          { type: 'press_key', press_key: { keys: ['ctrl+a', 'ctrl+c', 'Right'] } },
          { type: 'sleep', sleep: { duration_ms: 200 } },
          { type: 'press_key', press_key: { keys: ['ctrl+v', 'ctrl+v'] } },
        ],
      })
      await become(page, 'text()', 'again again again ')
    })
  })
})

describe('windows beside the page', () => {
  const middle: Box = { x: 700, y: 400, width: 500, height: 300 }

  test.each([
    ['in a headless session', { headless: true }],
    ['in a headful session', { headless: false }],
  ])('a file is chosen in the dialog by typing its path: %s', async (_kind, options) => {
    await using session = await openSession(cloud, { timeout_seconds: 300, ...options })
    const { id, page } = session
    expect(await runInside(cloud, id, `printf 'what the note says' > note.txt; printf 'another' > other.txt`)).toMatchObject({ code: 0 })
    await page.goto(pages.url('chooser.html'))
    const field = await where(page, '#file')
    const openDialog = () => comesUp('the file dialog', id, middle, () => computer.clickMouse(id, field))
    const shut = await shot(id, middle)
    const dialogGone = () => until('the dialog to be gone', WINDOW_MS, async () => shut.equals(await shot(id, middle)), { everyMs: 50 })

    // A slash opens the field for paths. In this dialog of Chromium's, Return is Cancel; Alt and O is Open.
    await openDialog()
    await computer.typeText(id, { text: '/home/kernel/note.txt' })
    await computer.pressKey(id, { keys: ['alt+o'] })
    await become(page, 'chosen', { name: 'note.txt', text: 'what the note says' })
    await dialogGone()
    // So does the key for it.
    await openDialog()
    await computer.pressKey(id, { keys: ['ctrl+l'] })
    await computer.typeText(id, { text: '/home/kernel/other.txt' })
    await computer.pressKey(id, { keys: ['alt+o'] })
    await become(page, 'chosen', { name: 'other.txt', text: 'another' })
    await dialogGone()
    // Left with Escape, the choice stays, and the page has the keyboard again.
    await openDialog()
    await computer.pressKey(id, { keys: ['Escape'] })
    await dialogGone()
    await become(page, 'chosen.name', 'other.txt')
    await computer.pressKey(id, { keys: ['Tab', 'b'] })
    await become(page, `document.getElementById('colour').value`, 'blue')
  })

  test('an entry of a drop-down list is chosen with the mouse and with keys', async () => {
    await using session = await openSession(cloud, { headless: true })
    const { id, page } = session
    await page.goto(pages.url('chooser.html'))
    const { x, y, width, height } = await boxOf(page, '#colour')
    // Not where the pointer is: it is part of the picture.
    const below: Box = { x: x + 100, y: y + height + 2, width: Math.round(width) - 100, height: 60 }
    const [left, centre] = [x + 40, Math.round(y + height / 2)]
    await comesUp('the list', id, below, () => computer.clickMouse(id, { x: left, y: centre }))
    await computer.pressKey(id, { keys: ['Down', 'Return'] })
    await become(page, `document.getElementById('colour').value`, 'green')
    await comesUp('the list again', id, below, () => computer.clickMouse(id, { x: left, y: centre }))
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
  // A page that comes back from the history is not loaded anew, so its URL is what tells.
  const arrive = (page: Page, name: string) => until(`the page ${name}`, LOAD_MS, () => page.url() === pages.url(name))

  /** Opens the page's context menu and presses keys in it. */
  async function menu(keys: string[]): Promise<void> {
    const [x, y] = [700, 500]
    await comesUp('the context menu', id, { x: x + 20, y: y + 20, width: 100, height: 100 }, () => computer.clickMouse(id, { x, y, button: 'right' }))
    await computer.pressKey(id, { keys })
  }

  test('a URL typed into the address bar is opened', async () => {
    await computer.pressKey(id, { keys: ['ctrl+l'] })
    await computer.typeText(id, { text: `${pages.url('typed')}\n` })
    await arrive(session.page, 'typed')
    // With the mouse, too: Chromium's own controls are above the page.
    const { y } = await boxOf(session.page, 'html')
    await computer.clickMouse(id, { x: 600, y: Math.round(y * 0.7), num_clicks: 3 })
    await computer.typeText(id, { text: `${pages.url('clicked')}\n` })
    await arrive(session.page, 'clicked')
  })

  test('entries of the context menu are chosen by arrow keys and by letter', async () => {
    const { page } = session
    await page.goto(pages.url('before'))
    await page.goto(pages.url('after'))
    // The first entry is Back.
    await menu(['Down', 'Return'])
    await arrive(page, 'before')
    const hits = pages.hits('before')
    await menu(['r'])
    await until('the page to be loaded again', LOAD_MS, () => pages.hits('before') > hits)
    // A menu left with Escape does nothing, and the keys are the page's again.
    await page.waitForLoadState()
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

  test("the mouse's buttons and alt with arrows walk through the history", async () => {
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

  test('ctrl+t opens a tab, and its address bar takes what is typed; ctrl+w closes it', async () => {
    const tabs = () => session.browser.contexts()[0]!.pages()
    const [first] = tabs()
    await computer.pressKey(id, { keys: ['ctrl+t'] })
    const second = await until('a second tab', LOAD_MS, () => tabs().find((tab) => tab !== first))
    await computer.typeText(id, { text: `${pages.url('second')}\n` })
    await arrive(second, 'second')
    await computer.pressKey(id, { keys: ['ctrl+w'] })
    await until('one tab', TAKE_MS, () => tabs().length === 1 && tabs()[0] === first)
  })

  test('ctrl and the wheel, and ctrl with plus and 0, zoom the page', async () => {
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

const distance = ([x, y]: Point, [u, v]: Point): number => Math.hypot(x - u, y - v)

function distanceToPath(point: Point, path: Point[]): number {
  return Math.min(...path.slice(1).map((end, index) => distanceToLine(point, path[index]!, end)))
}

function distanceToLine([x, y]: Point, [x1, y1]: Point, [x2, y2]: Point): number {
  const [dx, dy] = [x2 - x1, y2 - y1]
  const part = Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy)))
  return distance([x, y], [x1 + part * dx, y1 + part * dy])
}

/** Source code of this repository, with tabs for its indents and characters of many kinds at the end of every fifth line. */
function sourceText(length: number): string {
  const lines = ['src/http/fault.ts', 'src/base/wait.ts', 'src/agent/computer/path.ts', 'src/agent/display/windows.ts', 'test/support/session.ts'].flatMap(
    (file) => readFileSync(join(PACKAGE_DIR, file), 'utf8').split('\n'),
  )
  const tabbed = lines.map((line, index) => line.replace(/^( {2})+/, (indent) => '\t'.repeat(indent.length / 2)) + (index % 5 === 0 ? ' // é ü ß 漢 😀' : ''))
  const characters = Array.from(tabbed.join('\n')).slice(0, length)
  if (characters.length < length) throw new Error(`only ${characters.length} characters of source`)
  return characters.join('')
}
