// Uses real applications in a page by mouse, wheel and keyboard. Each action has the effect that a person would see.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { become, LOAD_MS, openDesk, TAKE_MS, type Desk } from '../support/desk.ts'
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

type Point = [number, number]

describe('applications in a page', () => {
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

  describe('a drawing application', () => {
    let canvas: Box
    beforeAll(async () => {
      await page.goto(pages.url('drawing.html'))
      canvas = await boxOf(page, '#canvas')
    })
    const onScreen = (path: Point[]): Point[] => path.map(([x, y]) => [x + canvas.x, y + canvas.y])
    const strokes = () => page.evaluate('strokes()') as Promise<Point[][]>

    test('draws strokes exactly where the mouse moves', async () => {
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
      // Each corner is in the path twice, so that the pointer rests there for at least one frame.
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
      // The ink is also visible on the screen.
      const [x, y] = onScreen([[800, 250]])[0]!
      const ink = async () => (await sharp(await desk.shot(id, { x: x - 1, y: y - 1, width: 2, height: 2 })).stats()).dominant
      await expect.poll(async () => Math.max(...Object.values(await ink())), { timeout: TAKE_MS }).toBeLessThan(128)
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

    test('puts an item where it was dropped, further up or down', async () => {
      await drag('a', 'd')
      await become(page, `order('native')`, ['b', 'c', 'd', 'a', 'e'])
      await drag('e', 'b')
      await become(page, `order('native')`, ['e', 'b', 'c', 'd', 'a'])
    })

    test('moves an item into another list', async () => {
      await drag('c', 'y')
      await become(page, `order('native')`, ['a', 'b', 'd', 'e'])
      await become(page, `order('other').includes('c')`, true)
    })

    test('that moves its items by itself can be sorted too', async () => {
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

    test('keeps the grabbed place under the mouse', async () => {
      const [from, to] = [
        [700, 400],
        [350, 230],
      ] as [Point, Point]
      const grabbed = await placeAt(from)
      await computer.dragMouse(id, { path: [onScreen(from), onScreen(to)], duration_ms: 600 })
      await until('the map to have moved', TAKE_MS, async () => distance(await placeAt(to), grabbed) < 0.2, { everyMs: 50 })
    })

    test('zooms around the pointer with the wheel', async () => {
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

    test('zooms in with a double click, and out with shift held', async () => {
      const [x, y] = onScreen([450, 400])
      await computer.clickMouse(id, { x, y, num_clicks: 2 })
      await become(page, 'zoom()', 5)
      await computer.clickMouse(id, { x, y, num_clicks: 2, hold_keys: ['shift'] })
      await become(page, 'zoom()', 4)
    })

    test('stays in place while a marker is dragged', async () => {
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

    test('keeps 5,000 characters that are typed without pause', { timeout: 240_000 }, async () => {
      const source = sourceText(5_000)
      await computer.typeText(id, { text: source, delay: 0 })
      await page.waitForFunction(`text().length >= ${source.length}`, undefined, { timeout: 60_000 }).catch(() => {})
      expect(await page.evaluate('text()')).toBe(source)
    })

    test('supports cut, undo and redo', async () => {
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

    test('selects a word with a double click, a line with a triple click, and typing replaces the selection', async () => {
      await page.evaluate(`setText('first line\\nsecond word here\\nlast')`)
      const [x, y] = ((await page.evaluate(`placeOf('first line\\nsecond w'.length)`)) as Point).map(Math.round) as Point
      await computer.clickMouse(id, { x, y, num_clicks: 2 })
      await become(page, 'selected()', 'word')
      await computer.typeText(id, { text: 'thing' })
      await become(page, 'text()', 'first line\nsecond thing here\nlast')
      // Click elsewhere first; otherwise a fast next click would count as the third.
      await computer.clickMouse(id, await where(page, '#editor'))
      await computer.clickMouse(id, { x, y, num_clicks: 3 })
      await become(page, 'selected()', 'second thing here\n')
      await computer.typeText(id, { text: 'gone\n' })
      await become(page, 'text()', 'first line\ngone\nlast')
    })

    test('selects a range with a drag, and with a click with shift held', async () => {
      await page.evaluate(`setText('alpha beta gamma delta')`)
      const at = async (offset: number) => ((await page.evaluate(`placeOf(${offset})`)) as Point).map(Math.round) as Point
      // A click in the middle of a character may go to either side of it; one a pixel further left goes before it.
      const before = ([x, y]: Point): Point => [x - 2, y]
      const [from, to, further] = [before(await at(6)), before(await at(10)), before(await at(16))]
      await computer.dragMouse(id, { path: [from, to], duration_ms: 400 })
      await become(page, 'selected()', 'beta')
      await computer.clickMouse(id, { x: further[0], y: further[1], hold_keys: ['shift'] })
      await become(page, 'selected()', 'beta gamma')
    })
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

/** Source code of this repository, indented with tabs, with various characters at the end of every fifth line. */
function sourceText(length: number): string {
  const lines = ['src/http/fault.ts', 'src/base/wait.ts', 'src/agent/computer/path.ts', 'src/agent/display/x/windows.ts', 'test/support/session.ts'].flatMap(
    (file) => readFileSync(join(PACKAGE_DIR, file), 'utf8').split('\n'),
  )
  const tabbed = lines.map((line, index) => line.replace(/^( {2})+/, (indent) => '\t'.repeat(indent.length / 2)) + (index % 5 === 0 ? ' // é ü ß 漢 😀' : ''))
  const characters = Array.from(tabbed.join('\n')).slice(0, length)
  if (characters.length < length) throw new Error(`only ${characters.length} characters of source`)
  return characters.join('')
}
