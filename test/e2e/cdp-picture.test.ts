// What viewers get of a browser without a display, with the real headless shell and a small RFB client. live-view.test.ts has the whole live view (project "lean").
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ChromiumRun } from '../../src/agent/chromium/process.ts'
import { openCdpDisplay } from '../../src/agent/display/cdp/display.ts'
import { makeLog } from '../../src/base/log.ts'
import { sleep, until, within } from '../../src/base/wait.ts'
import { openShell } from '../support/shell.ts'

const VIEWPORT = { width: 1000, height: 700, refresh_rate: 60 }
const [TIGHT, DESKTOP_SIZE, CURSOR] = [7, -223, -239]
/** Kinds of Tight: a picture, and one colour. */
const [JPEG, FILL] = [0x90, 0x80]
const SEEN_MS = 10_000
/** Longer than the agent waits before it tries again. */
const QUIET_MS = 800
const RED = [208, 32, 32]
const GREEN = [32, 160, 32]

const log = makeLog('test', 'silent')
const stop = new AbortController()
const { signal } = stop
const shell = openShell(VIEWPORT, log, signal)
let run: ChromiumRun
/** How many sessions with pages the display has opened: one for each picture, besides the one that it keeps. */
let opened = 0
let counted: Pick<ChromiumRun, 'pipe' | 'firstPage'>
const display = openCdpDisplay({ run: async () => counted }, VIEWPORT, log)
const picture = display.openPicture(() => {})
const { input } = await display.openControls()
let client: Browser
let page: Page

beforeAll(async () => {
  run = await shell.start()
  const { pipe, firstPage } = run
  counted = { firstPage, pipe: { ...pipe, session: (...args) => (opened++, pipe.session(...args)) } }
  client = await chromium.connectOverCDP(`http://127.0.0.1:${run.port}`)
  page = client.contexts()[0]!.pages()[0]!
})
afterAll(async () => {
  display.close()
  await client.close()
  await run.close()
  stop.abort()
  shell[Symbol.dispose]()
})
beforeEach(() => page.goto('about:blank'))

const paint = (colour: number[], of = page) => of.evaluate(`document.body.style.background = 'rgb(${colour.join()})'`)
const animate = () =>
  page.evaluate(
    `{ let turn = 0; const draw = () => requestAnimationFrame(draw, document.body.style.background = 'hsl(' + turn++ % 360 + ' 80% 50%)'); draw() }`,
  )

interface Rectangle {
  x: number
  y: number
  width: number
  height: number
  encoding: number
  /** Of Tight. */
  kind: number | undefined
  data: Buffer
}

function encodingsOf(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 + 4 * values.length)
  bytes[0] = 2
  bytes.writeUInt16BE(values.length, 2)
  values.forEach((value, index) => bytes.writeInt32BE(value, 4 + 4 * index))
  return bytes
}
const REQUEST = (isIncremental: boolean) => Buffer.from([3, isIncremental ? 1 : 0, 0, 0, 0, 0, 0, 1, 0, 1])

const read = async (connection: Duplex, bytes: number): Promise<Buffer> =>
  bytes === 0 ? Buffer.alloc(0) : until(`${bytes} bytes`, SEEN_MS, () => (connection.read(bytes) as Buffer | null) ?? undefined, { everyMs: 2 })

async function readRectangle(connection: Duplex): Promise<Rectangle> {
  const head = await read(connection, 12)
  const [x, y, width, height] = [head.readUInt16BE(0), head.readUInt16BE(2), head.readUInt16BE(4), head.readUInt16BE(6)]
  const encoding = head.readInt32BE(8)
  const kind = encoding === TIGHT ? (await read(connection, 1))[0] : undefined
  let bytes = kind === FILL ? 3 : { [CURSOR]: width * height * 4 + Math.ceil(width / 8) * height, [DESKTOP_SIZE]: 0 }[encoding]
  if (kind === JPEG) {
    bytes = 0
    for (const shift of [0, 7, 14]) {
      const byte = (await read(connection, 1))[0]!
      bytes |= (shift === 14 ? byte : byte & 127) << shift
      if (byte < 128) break
    }
  }
  return { x, y, width, height, encoding, kind, data: await read(connection, bytes!) }
}

/** A viewer after the handshake. */
async function join(encodings = [TIGHT, DESKTOP_SIZE]) {
  const connection = await picture.connect(signal)
  connection.write('RFB 003.008\n')
  expect(String(await read(connection, 12))).toBe('RFB 003.008\n')
  connection.write(Buffer.from([1]))
  expect([...(await read(connection, 2)), ...(await read(connection, 4))]).toEqual([1, 1, 0, 0, 0, 0])
  connection.write(Buffer.from([1]))
  const first = await read(connection, 27)
  connection.write(encodingsOf(...encodings))
  const next = async (isIncremental = true): Promise<Rectangle[]> => {
    connection.write(REQUEST(isIncremental))
    const count = (await read(connection, 4)).readUInt16BE(2)
    const rectangles: Rectangle[] = []
    while (rectangles.length < count) rectangles.push(await readRectangle(connection))
    return rectangles
  }
  return {
    connection,
    size: [first.readUInt16BE(0), first.readUInt16BE(2)],
    next,
    /** Asks for pictures until one has this colour at its end. */
    sees: (colour: number[]) =>
      until(`the colour ${String(colour)}`, SEEN_MS, async () => (await next()).some((each) => each.kind === JPEG && isNear(colourOf(each), colour))),
    async [Symbol.asyncDispose]() {
      if (connection.closed) return
      const closed = once(connection, 'close')
      connection.destroy()
      await closed
    },
  }
}

/** The last pixel of a picture in JPEG. */
function colourOf({ data, width, height }: Rectangle): number[] {
  const pixels = execFileSync('ffmpeg', ['-v', 'error', '-i', '-', '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-'], { input: data, maxBuffer: 100_000_000 })
  expect(pixels.length).toBe(width * height * 3)
  return [...pixels.subarray(-3)]
}
const isNear = (seen: number[], wanted: number[]) => seen.every((value, index) => Math.abs(value - wanted[index]!) <= 4)

test('a viewer gets the page in front, again after each change, and nothing of a page that stands still', async () => {
  await paint(RED)
  await using viewer = await join()
  expect(viewer.size).toEqual([1000, 700])
  await viewer.sees(RED)
  await paint(GREEN)
  await viewer.sees(GREEN)
  const other = await page.context().newPage()
  await paint(RED, other)
  await viewer.sees(RED)
  await other.close()
  await viewer.sees(GREEN)
  viewer.connection.write(REQUEST(true))
  await sleep(QUIET_MS)
  const before = opened
  await sleep(QUIET_MS)
  expect([opened - before, viewer.connection.readableLength]).toEqual([0, 0])
  // All of it is asked for: the same picture again.
  const [again] = await viewer.next(false)
  expect(again).toMatchObject({ kind: JPEG, width: 1000, height: 700 })
})

test('the cursor of an action is in the picture, as far as it is inside; a viewer draws the cursor of its own mouse itself', async () => {
  await using viewer = await join([TIGHT, DESKTOP_SIZE, CURSOR])
  const first = await viewer.next()
  expect(first.filter(({ encoding }) => encoding === CURSOR)).toMatchObject([{ x: 0, y: 0, width: 12, height: 17 }])
  const moveTo = async (x: number, y: number) => {
    input.move(x, y)
    return until('the cursor', SEEN_MS, async () => {
      const arrow = (await viewer.next()).filter(({ kind }) => kind === FILL)
      return arrow[0]?.x === x && arrow[0]?.y === y && arrow
    })
  }
  const arrow = await moveTo(100, 50)
  // Its first three rows: black, black, black with a white pixel inside.
  expect(arrow.slice(0, 5).map(({ y, width, data }) => [y, width, data[0]])).toEqual(
    [50, 51, 52, 52, 52].map((y, at) => [y, at === 1 ? 2 : 1, at === 3 ? 255 : 0]),
  )
  expect(Math.max(...arrow.map(({ y }) => y))).toBe(66)
  const cut = await moveTo(998, 697)
  expect(cut.map(({ x, width, y }) => [x, width, y])).toEqual([
    [998, 1, 697],
    [998, 2, 698],
    [998, 1, 699],
    [999, 1, 699],
  ])
  // The viewer moves its mouse, and the session's follows.
  viewer.connection.write(Buffer.from([5, 0, 1, 0, 1, 0]))
  input.move(255, 256)
  expect((await viewer.next()).map(({ kind }) => kind)).toEqual([JPEG])
  // Its mouse rests elsewhere: a second later it sees the session's.
  expect((await viewer.next()).find(({ kind }) => kind === FILL)).toMatchObject({ x: 255, y: 256 })
})

test('another size comes before the picture of that size; a viewer that cannot show it is disconnected', async () => {
  await using viewer = await join()
  await using fixed = await join([TIGHT])
  await viewer.next()
  await fixed.next()
  const closed = once(fixed.connection, 'close')
  fixed.connection.write(REQUEST(true))
  fixed.connection.resume()
  await display.screen.resize({ ...VIEWPORT, width: 1280, height: 800 })
  const sized = await until('the new size', SEEN_MS, async () =>
    (await viewer.next()).find(({ encoding, width }) => encoding === DESKTOP_SIZE && width === 1280),
  )
  expect(sized.height).toBe(800)
  expect((await viewer.next())[0]).toMatchObject({ kind: JPEG, width: 1280, height: 800 })
  await within('the disconnection', SEEN_MS, closed)
  await display.screen.resize(VIEWPORT)
})

test('a page with a dialog, and one that is busy, are shown', async () => {
  await using viewer = await join()
  await paint(RED)
  await viewer.sees(RED)
  const shown = page.waitForEvent('dialog')
  await page.evaluate(`setTimeout(() => alert('wait'), 10)`)
  const dialog = await shown
  await using later = await join()
  await later.sees(RED)
  await dialog.accept()
  await paint(GREEN)
  await viewer.sees(GREEN)
  await page.evaluate(`setTimeout(() => { const end = Date.now() + 3_000; while (Date.now() < end); globalThis.isFree = true }, 10)`)
  await sleep(100)
  await using busy = await join()
  const began = performance.now()
  await busy.sees(GREEN)
  expect(performance.now() - began).toBeLessThan(2_500)
  await page.waitForFunction('globalThis.isFree')
})

test('viewers share their pictures, of which there are at most ten a second; after the last viewer has left, none are taken', async () => {
  await animate()
  const viewers = await Promise.all([join(), join(), join()])
  const before = opened
  const began = performance.now()
  await Promise.all(
    viewers.map(async ({ next }) => {
      for (let count = 0; count < 10; count++) await next()
    }),
  )
  const most = ((performance.now() - began) / 1000) * 10 + 2
  expect(opened - before).toBeGreaterThanOrEqual(9)
  expect(opened - before).toBeLessThanOrEqual(most)
  for (const viewer of viewers) await viewer[Symbol.asyncDispose]()
  await sleep(QUIET_MS)
  const left = opened
  await sleep(QUIET_MS)
  expect(opened).toBe(left)
  // Nobody watches whether the page draws.
  expect(await display.screen.version()).toBeNaN()
})

test('for a viewer that reads nothing one picture is kept, and no others are taken', async () => {
  await animate()
  await using viewer = await join()
  await viewer.next()
  for (let count = 0; count < 1_000; count++) viewer.connection.write(REQUEST(false))
  await sleep(QUIET_MS)
  const [before, held] = [opened, viewer.connection.readableLength]
  await sleep(QUIET_MS)
  expect([opened, viewer.connection.readableLength]).toEqual([before, held])
  await viewer.connection.read()
})

test.each([
  ['wants to authenticate', Buffer.from('RFB 003.008\n\x02')],
  ['asks for a picture and cannot show JPEG', Buffer.concat([Buffer.from('RFB 003.008\n\x01\x01'), encodingsOf(0, 16), REQUEST(false)])],
  [
    'wants pixels of 16 bits',
    Buffer.concat([Buffer.from('RFB 003.008\n\x01\x01'), Buffer.from([0, 0, 0, 0, 16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0])]),
  ],
  ['sends something else', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
])('a viewer that %s is disconnected, and the others are not', async (_what, sent) => {
  await using other = await join()
  const connection = await picture.connect(signal)
  const closed = once(connection, 'close')
  connection.resume().write(sent)
  await within('the disconnection', SEEN_MS, closed)
  await other.next()
})

test('when the display closes, its viewers are disconnected', async () => {
  const second = openCdpDisplay({ run: async () => counted }, VIEWPORT, log)
  const connection = await second.openPicture(() => {}).connect(signal)
  const closed = once(connection, 'close')
  second.close()
  await within('the disconnection', SEEN_MS, closed)
})
