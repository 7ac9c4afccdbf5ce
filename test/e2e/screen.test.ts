// The screen: what a screenshot shows, of which region, for which kind of session; and how a warm browser is set up for a session.
import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit for a page to appear on the screen. */
const SHOWN_MS = 10_000

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())

const shot = async (id: string, region?: { x: number; y: number; width: number; height: number }): Promise<Buffer> =>
  Buffer.from(await (await cloud.client.browsers.computer.captureScreenshot(id, region ? { region } : {})).arrayBuffer())

/** Colours of some pixels of a PNG, as `#rrggbb`. */
async function colours(png: Buffer, points: [number, number][]): Promise<string[]> {
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true })
  return points.map(([x, y]) => `#${data.subarray((y * info.width + x) * info.channels, (y * info.width + x) * info.channels + 3).toString('hex')}`)
}
const STRIPES = 'data:text/html,<style>body{margin:0;background:linear-gradient(90deg,%23ff0000 50%25,%230000ff 50%25);height:100vh}</style>'

describe.each([
  ['headless', { headless: true }, 0],
  ['kiosk', { kiosk_mode: true }, 0],
  ['headful', {}, 60],
] as const)('a %s session', (_kind, options, chrome) => {
  test('shows its page exactly, as a whole and by region', async () => {
    await using session = await openSession(cloud, { ...options, viewport: { width: 1000, height: 700 } })
    await session.page.goto(STRIPES)
    const inner = (await session.page.evaluate('[innerWidth, innerHeight, outerWidth, outerHeight, screen.width, screen.height]')) as number[]
    expect([inner[0], inner[2], inner[3], inner[4], inner[5]]).toEqual([1000, 1000, 700, 1000, 700])
    expect(700 - inner[1]!).toBeGreaterThanOrEqual(chrome)
    if (chrome === 0) expect(inner[1]).toBe(700)
    const whole = await until(
      'the stripes',
      SHOWN_MS,
      async () => {
        const png = await shot(session.id)
        return (await colours(png, [[100, 650]]))[0] === '#ff0000' && png
      },
      { everyMs: 50 },
    )
    expect(await sharp(whole).metadata()).toMatchObject({ format: 'png', width: 1000, height: 700 })
    expect(
      await colours(whole, [
        [10, 690],
        [499, 650],
        [501, 650],
        [990, 690],
      ]),
    ).toEqual(['#ff0000', '#ff0000', '#0000ff', '#0000ff'])
    const part = await shot(session.id, { x: 490, y: 600, width: 21, height: 99 })
    expect(await sharp(part).metadata()).toMatchObject({ width: 21, height: 99 })
    expect(
      await colours(part, [
        [0, 0],
        [20, 98],
      ]),
    ).toEqual(['#ff0000', '#0000ff'])
    expect(await session.page.evaluate('document.hasFocus()')).toBe(true)
    expect(await session.page.evaluate('navigator.webdriver')).toBe(false)
  })
})

test('a new full-screen session has no notice over the page; a changed viewport changes screen, window and page; one larger than the display is refused', async () => {
  await using session = await openSession(cloud, { headless: true })
  await session.page.goto('data:text/html,<body style="background:%2300ff00">')
  const pixels = async () =>
    (
      await sharp(await shot(session.id))
        .raw()
        .toBuffer({ resolveWithObject: true })
    ).data
  const data = await until('the page', SHOWN_MS, async () => {
    const picture = await pixels()
    const middle = Math.floor(picture.length / 6) * 3
    return picture[middle] === 0 && picture[middle + 1] === 255 && picture
  })
  let foreign = 0
  for (let at = 0; at < data.length; at += 3) if (data[at] !== 0 || data[at + 1] !== 255 || data[at + 2] !== 0) foreign++
  // The mouse pointer covers some pixels of the picture.
  expect(foreign).toBeLessThan(600)
  for (const [width, height] of [
    [800, 600],
    [1921, 1079],
    [2560, 1600],
    [390, 844],
  ] as const) {
    const updated = await cloud.client.browsers.update(session.id, { viewport: { width, height } })
    expect(updated.viewport).toMatchObject({ width, height })
    await session.page.waitForFunction(`innerWidth === ${width} && innerHeight === ${height}`, undefined, { timeout: SHOWN_MS })
    expect(await sharp(await shot(session.id)).metadata()).toMatchObject({ width, height })
  }
  await expect(cloud.client.browsers.update(session.id, { viewport: { width: 2561, height: 600 } })).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('viewport.width'),
  })
})

test('a session can have a larger screen than the default', async () => {
  await using session = await openSession(cloud, { viewport: { width: 3000, height: 2000 } })
  expect(await sharp(await shot(session.id)).metadata()).toMatchObject({ width: 3000, height: 2000 })
})

test('pages are drawn at the requested refresh rate', async () => {
  await using session = await openSession(cloud, { viewport: { width: 800, height: 600, refresh_rate: 20 } })
  const rate = async () =>
    (await session.page.evaluate(
      `new Promise((done) => { let n = 0; const from = performance.now(); const step = () => ++n === 20 ? done(20000 / (performance.now() - from)) : requestAnimationFrame(step); requestAnimationFrame(step) })`,
    )) as number
  // Chromium adopts a new refresh rate within a second.
  await expect.poll(rate, { timeout: 15_000, interval: 100 }).toSatisfy((now: number) => now > 10 && now < 26)
})

test('start_url is open soon after the create, and a page that cannot be opened does not fail the create', async () => {
  await using session = await openSession(cloud, { start_url: pages.url('started') })
  await session.page.waitForURL(pages.url('started'), { timeout: 10_000 })
  await using other = await openSession(cloud, { start_url: 'http://nothing.invalid/' })
  // The page may still be navigating to the error page.
  await expect.poll(() => other.page.evaluate('1').catch(() => 'navigating')).toBe(1)
})

test('headless and kiosk sessions are kept ready when they are asked for, with a page that fills the screen already', async () => {
  await using own = await startCloud({ COB_WARM_BROWSERS_MAX: '2' })
  const ready = async () =>
    (await own.query<{ warm_kind: string }>("select warm_kind from browsers where state = 'warm'"))
      .map(({ warm_kind }) => warm_kind)
      .toSorted()
      .join()
  const first = await own.client.browsers.create({ headless: true })
  await until('one of each kind', 60_000, async () => (await ready()) === 'headless,usual')
  for (const options of [{ headless: true }, { kiosk_mode: true, viewport: { width: 1024, height: 768 } }]) {
    await using session = await openSession(own, options)
    const [row] = await own.query<{ warm_kind: string }>('select warm_kind from browsers where id = $1', [session.id])
    expect(row).toEqual({ warm_kind: 'headless' })
    const { width, height } = session.made.viewport!
    expect(await session.page.evaluate('[innerWidth, innerHeight, document.hasFocus()]')).toEqual([width, height, true])
    await until('one of each kind again', 60_000, async () => (await ready()) === 'headless,usual')
  }
  await using headful = await openSession(own)
  expect(await headful.page.evaluate('outerHeight - innerHeight')).toBeGreaterThan(60)
  await own.client.browsers.deleteByID(first.session_id)
})
