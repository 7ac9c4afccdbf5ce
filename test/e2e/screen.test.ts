// The screen: what a screenshot shows, of which region, for which kind of session; and how a warm browser is set up for a session.
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** Time for a page to be on the screen. */
const SHOWN_MS = 10_000

let cloud: Cloud
let pages: Pages
beforeAll(async () => {
  pages = await servePages()
  cloud = await shareCloud()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await pages[Symbol.asyncDispose]()
})

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

test('a screenshot of a new full-screen session has no notice over the page', async () => {
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
  // The mouse pointer is somewhere in the picture.
  expect(foreign).toBeLessThan(600)
})

test('a changed viewport changes screen, window and page; one larger than the display is refused', async () => {
  await using session = await openSession(cloud, { headless: true })
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
  // It may still be navigating to the error page.
  await expect.poll(() => other.page.evaluate('1').catch(() => 'navigating')).toBe(1)
})

test('a managed policy applies from the first page on', async () => {
  await using session = await openSession(cloud, { chrome_policy: { URLBlocklist: ['host.cob.internal'] }, timeout_seconds: 120 })
  await expect(session.page.goto(pages.url('closed'))).rejects.toThrow('ERR_BLOCKED_BY_ADMINISTRATOR')
})

describe('a screenshot request', () => {
  let id: string
  beforeAll(async () => {
    id = (await cloud.client.browsers.create({ timeout_seconds: 300 })).session_id
  })
  afterAll(() => cloud.client.browsers.deleteByID(id))
  const post = (body: string | undefined, type = 'application/json') =>
    cloud.fetch(`/browsers/${id}/computer/screenshot`, { method: 'POST', ...(body !== undefined && { body, headers: { 'content-type': type } }) })

  test('with no body, an empty one and {} returns the whole screen', async () => {
    for (const body of [undefined, '', '{}']) {
      const answer = await post(body)
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'image/png'])
      await answer.arrayBuffer()
    }
  })

  test.each([
    ['format', { format: 'jpeg' }],
    ['region.x', { region: { x: 1920, y: 0, width: 1, height: 1 } }],
    ['region.width', { region: { x: 1900, y: 0, width: 21, height: 1 } }],
    ['region.height', { region: { x: 0, y: 0, width: 1, height: 1081 } }],
    ['region.width', { region: { x: 0, y: 0, width: 0, height: 5 } }],
    ['region.height', { region: { x: 0, y: 0, width: 5, height: -5 } }],
    ['region.x', { region: { x: 0.5, y: 0, width: 5, height: 5 } }],
    ['region.y', { region: { x: 0, width: 5, height: 5 } }],
    ['region.scale', { region: { x: 0, y: 0, width: 5, height: 5, scale: 2 } }],
  ])('with an error is refused, and the message names %s', async (field, body) => {
    const answer = await post(JSON.stringify(body))
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({
      code: 'bad_request',
      details: expect.arrayContaining([{ code: 'invalid_input', message: expect.stringContaining(`${field}`) }]),
    })
  })

  test.each([
    ['content-type', '{}', 'text/plain'],
    ['body', '{"region":', 'application/json'],
    ['expected object', '[]', 'application/json'],
  ])('with a body that is not a JSON object is refused: %s', async (words, body, type) => {
    const answer = await post(body, type)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ code: 'bad_request', details: [{ code: 'invalid_input', message: expect.stringContaining(words) }] })
  })

  test('with a body over the limit answers 413', async () => {
    expect((await post('x'.repeat(1024 * 1024 + 1))).status).toBe(413)
  })

  test('of an unknown session answers 404', async () => {
    const answer = await cloud.fetch('/browsers/nobody/computer/screenshot', { method: 'POST' })
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([404, 'not_found'])
  })
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
