// Screenshots through the published SDK: always the current screen, every pixel, and the same bytes when nothing has changed.
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { sitDown, TAKE_MS, type Seat } from '../support/desk.ts'
import type { Box } from '../support/session.ts'

/** The limit from a page's two frames to the screen (its compositor and the X server), on a busy machine. */
const SHOWN_MS = 10_000

let seat: Seat
let cloud: Seat['cloud']
let computer: Seat['computer']
let session: Seat['session']
let id: string
beforeAll(async () => {
  seat = await sitDown({ viewport: { width: 1365, height: 767 } })
  ;({ cloud, computer, session, id } = seat)
  await session.page.goto(seat.pages.url('colours.html'))
})
afterAll(() => seat[Symbol.asyncDispose]())

interface Picture {
  png: Buffer
  width: number
  height: number
  /** The colour of a pixel, `#rrggbb`. */
  at(x: number, y: number): string
  /** The pixels of a region. */
  part(region: Box): Buffer
  colours(): string[]
}

const bytes = async (region?: Box): Promise<Buffer> => Buffer.from(await (await computer.captureScreenshot(id, region ? { region } : {})).arrayBuffer())

async function shot(region?: Box): Promise<Picture> {
  const png = await bytes(region)
  const { data, info } = await sharp(png).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  const { width, height } = info
  const offset = (x: number, y: number) => (y * width + x) * 3
  return {
    png,
    width,
    height,
    at: (x, y) => `#${data.toString('hex', offset(x, y), offset(x, y) + 3)}`,
    part: ({ x, y, width: across, height: down }) =>
      Buffer.concat(Array.from({ length: down }, (_, row) => data.subarray(offset(x, y + row), offset(x + across, y + row)))),
    colours() {
      const found = new Set<number>()
      for (let at = 0; at < data.length; at += 3) found.add(data.readUIntBE(at, 3))
      return [...found].map((colour) => `#${colour.toString(16).padStart(6, '0')}`)
    },
  }
}
const page = (expression: string) => session.page.evaluate(expression)
const hide = (hidden: boolean) => computer.setCursorVisibility(id, { hidden })
const move = (x: number, y: number) => computer.moveMouse(id, { x, y, smooth: false })

/** A page in one colour, with the cursor hidden. */
beforeEach(async () => {
  await hide(true)
  await page(`noise.hidden = true; mark('transparent'); paint('#102030')`)
  await until('the plain page', TAKE_MS, async () => String((await shot()).colours()) === '#102030')
})

describe('a screenshot of an unchanged screen', () => {
  test('has the same bytes every time, whole and by region, also for concurrent callers', async () => {
    await page('detail()')
    const region = { x: 101, y: 53, width: 333, height: 77 }
    await until('the picture', TAKE_MS, async () => (await shot()).colours().length > 10_000)
    const whole = await bytes()
    const part = await bytes(region)
    const more = await Promise.all([bytes(), bytes(region), bytes(), bytes(region)])
    expect(more.map((png, index) => png.equals(index % 2 === 0 ? whole : part))).toEqual([true, true, true, true])
  })
})

describe('the next screenshot shows a change', () => {
  const changes = Array.from({ length: 20 }, (_, index) => `#${((index + 1) * 0x040503).toString(16).padStart(6, '0')}`)
  const corner = { x: 1364, y: 766, width: 1, height: 1 }

  /**
   * On a busy machine up to a third of the screenshots were late, because Chromium shows a frame after it has reported it; on an idle machine none of 800. If
   * screenshots were old pictures, all would be late.
   */
  const LATE = 6

  /** Takes a screenshot right after each change, and counts how many still show the old screen. Each must show the new screen later. */
  async function late(change: (colour: string) => Promise<unknown>, look: () => Promise<string>): Promise<number> {
    let behind = 0
    for (const colour of changes) {
      await change(colour)
      if ((await look()) === colour) continue
      behind++
      await until('the change to be seen at all', SHOWN_MS, async () => (await look()) === colour)
    }
    return behind
  }

  test('of the whole page, 20 times', async () => {
    expect(
      await late(
        (colour) => page(`paint('${colour}')`),
        async () => (await shot()).at(700, 400),
      ),
    ).toBeLessThanOrEqual(LATE)
  })

  test('of a single pixel in the corner, 20 times, whole and by region', async () => {
    for (const look of [async () => (await shot()).at(corner.x, corner.y), async () => (await shot(corner)).at(0, 0)])
      expect(await late((colour) => page(`mark('${colour}')`), look)).toBeLessThanOrEqual(LATE)
  })

  test('of the position of the pointer, by one pixel and far', async () => {
    await hide(false)
    await move(300, 300)
    let before = await bytes()
    for (const [x, y] of [
      [301, 300],
      [301, 301],
      [900, 500],
      [0, 0],
      [700, 700],
    ] as const) {
      await move(x, y)
      const after = await bytes()
      expect(after.equals(before), `${x}, ${y}`).toBe(false)
      before = after
    }
  })

  test('that a click, a key or the wheel made the page draw', async () => {
    await page(`onmousedown = () => paint('#aa0000'); onkeydown = () => paint('#00aa00'); onwheel = () => paint('#0000aa')`)
    for (const [colour, act] of [
      ['#aa0000', () => computer.clickMouse(id, { x: 400, y: 400 })],
      ['#00aa00', () => computer.pressKey(id, { keys: ['k'] })],
      ['#0000aa', () => computer.scroll(id, { x: 400, y: 400, delta_y: 1 })],
    ] as const) {
      await act()
      await until(`the page in ${colour}`, SHOWN_MS, async () => (await shot()).at(100, 100) === colour)
    }
    await page('onmousedown = onkeydown = onwheel = null')
  })
})

describe('a screenshot of a region', () => {
  beforeEach(() => page('detail()'))
  /** Resolves when the whole screen is drawn. */
  const whole = () => until('a still picture', TAKE_MS, async () => ((await shot()).colours().length > 10_000 ? shot() : false))

  test('equals that part of the whole screenshot, at odd positions and with odd sizes', async () => {
    const full = await whole()
    expect([full.width, full.height]).toEqual([1365, 767])
    for (const region of [
      { x: 0, y: 0, width: 1365, height: 767 },
      { x: 0, y: 0, width: 1, height: 1 },
      { x: 1, y: 1, width: 3, height: 5 },
      { x: 3, y: 2, width: 4, height: 4 },
      { x: 101, y: 203, width: 501, height: 307 },
      { x: 1362, y: 700, width: 3, height: 67 },
      { x: 1363, y: 0, width: 2, height: 767 },
      { x: 0, y: 766, width: 1365, height: 1 },
      { x: 7, y: 11, width: 1024, height: 333 },
    ]) {
      const part = await shot(region)
      expect([part.width, part.height]).toEqual([region.width, region.height])
      expect(part.part({ ...region, x: 0, y: 0 }).equals(full.part(region)), JSON.stringify(region)).toBe(true)
    }
  })

  test.each([
    [801, 601],
    [1366, 768],
  ])('and of the whole screen are correct in every pixel when the screen became %i by %i', async (width, height) => {
    await cloud.client.browsers.update(id, { viewport: { width, height } })
    expect(await sharp(await bytes()).metadata()).toMatchObject({ width, height })
    await session.page.waitForFunction(`innerWidth === ${width} && innerHeight === ${height}`, undefined, { timeout: TAKE_MS })
    await page('detail()')
    const drawn = Buffer.from((await page(`Array.from(noise.getContext('2d').getImageData(0, 300, innerWidth, 1).data)`)) as number[])
    const row = Buffer.from(drawn.filter((_, index) => index % 4 < 3))
    await until('the row as the page drew it', TAKE_MS, async () => (await shot()).part({ x: 0, y: 300, width, height: 1 }).equals(row), { everyMs: 50 })
    const full = await shot()
    const region = { x: width - 333, y: height - 111, width: 333, height: 111 }
    expect((await shot(region)).part({ ...region, x: 0, y: 0 }).equals(full.part(region))).toBe(true)
  })
})

describe('the mouse cursor', () => {
  const around = { x: 380, y: 280, width: 60, height: 60 }
  const colours = async () => (await shot(around)).colours()

  test("is in the screenshot at the pointer's position, and absent when hidden", async () => {
    await move(400, 300)
    expect(await colours()).toEqual(['#102030'])
    const without = await bytes()
    expect(await hide(false)).toEqual({ ok: true })
    expect((await colours()).length).toBeGreaterThan(1)
    expect((await bytes()).equals(without)).toBe(false)
    await move(900, 600)
    expect(await colours()).toEqual(['#102030'])
    expect((await shot({ x: 880, y: 580, width: 60, height: 60 })).colours().length).toBeGreaterThan(1)
    await move(400, 300)
    expect((await colours()).length).toBeGreaterThan(1)
    await hide(true)
    expect(await bytes()).toEqual(without)
  })

  test('that is hidden twice is shown by one call, and the other way round', async () => {
    await move(400, 300)
    for (const [hidden, seen] of [
      [true, false],
      [true, false],
      [false, true],
      [false, true],
      [true, false],
    ] as const) {
      expect(await hide(hidden)).toEqual({ ok: true })
      expect((await colours()).length > 1).toBe(seen)
    }
  })

  test('is hidden and shown in a batch', async () => {
    await computer.batch(id, {
      actions: [
        { type: 'set_cursor', set_cursor: { hidden: false } },
        { type: 'move_mouse', move_mouse: { x: 400, y: 300, smooth: false } },
      ],
    })
    expect((await colours()).length).toBeGreaterThan(1)
    await computer.batch(id, { actions: [{ type: 'set_cursor', set_cursor: { hidden: true } }] })
    expect(await colours()).toEqual(['#102030'])
  })

  test('can move and click while it is hidden', async () => {
    await page('onclick = ({ clientX, clientY }) => (clicked = [clientX, clientY])')
    await computer.clickMouse(id, { x: 555, y: 333 })
    await until('the click', TAKE_MS, async () => String(await page('globalThis.clicked')) === '555,333')
    expect(await computer.getMousePosition(id)).toEqual({ x: 555, y: 333 })
    await page('onclick = null')
  })
})

test('while the page changes with every frame, each screenshot is one complete frame', async () => {
  const frames = ['#ff0000', '#0000ff']
  await page(`alternate(${frames.map((colour) => `'${colour}'`).join()})`)
  try {
    await until('the first of them', TAKE_MS, async () => frames.includes((await shot()).at(5, 5)))
    const torn: string[][] = []
    const seen = new Set<string>()
    for (let count = 0; count < 20; count++) {
      const colours = (await shot()).colours()
      if (colours.length > 1) torn.push(colours)
      for (const colour of colours) seen.add(colour)
    }
    expect(torn).toEqual([])
    expect([...seen].toSorted()).toEqual(frames.toSorted())
  } finally {
    await page('stop()')
  }
})
