// The player's list of events in a real browser: in step with the video, on a phone, by keyboard and by screen reader. Text of hostile pages does no harm.
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { telemetryFeed } from '../../src/agent/telemetry/contract.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { call } from '../../src/http/client.ts'
import { endpointOf } from '../support/agents.ts'
import { problemsOf } from '../support/axe.ts'
import { colours, near } from '../support/films.ts'
import { forTests } from '../support/for-tests.ts'
import { keepEvents, type Received } from '../support/kept-events.ts'
import { invitePerson, type Person } from '../support/person.ts'
import { CORNER, SMALL, testReplays, type TestReplays } from '../support/replays.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const SEEN_MS = 10_000
const SECRET = 'kanarienvogel'
const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
/** The duration of one frame at the default frame rate, in milliseconds. */
const FRAME_MS = 100
/** The number of events that the page loads before it shows a button for more. */
const AT_ONCE = 20_000

let replays: TestReplays
let person: Person
/** Links to one replay: one with full events, and one with the default, brief events. */
let view: { full: string; brief: string }
/** The start of the video, in microseconds on the session's clock. */
let began: number
let sessionId: string

const HOSTILE = [
  '<img src=x onerror="hacked=1">',
  '"><script>hacked=1</script>',
  '<a href="javascript:hacked=1">here</a>',
  '\u202etxt.exe\u0000\u0007',
  '${hacked=1}{{hacked=1}}',
  'x'.repeat(60_000),
]

const link = async (replayId: string, events: string): Promise<string> => {
  const all = (await (await cloud.fetch(`/browsers/${sessionId}/replays?events=${events}`)).json()) as { replay_id: string; replay_view_url: string }[]
  return all.find((one) => one.replay_id === replayId)!.replay_view_url
}

const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  replays = ended.use(await testReplays(cloud))
  person = ended.use(await invitePerson())
  await using session = await replays.clockSession(SMALL)
  sessionId = session.id
  const replay = await replays.start(session)
  await sleep(6_000)
  await replays.stop(session, replay)
  await replays.film(session, replay)
  const [row] = await cloud.query<{ clock: number }>('select clock_started_at::float8 as clock from replays where id = $1', [replay.replay_id])
  began = row!.clock
  // Both times were read at the same moment, from two clocks of one machine.
  expect(Math.abs(began / 1000 - Date.parse(replay.started_at!))).toBeLessThan(FRAME_MS)
  const at = (seconds: number) => Math.round(began + seconds * 1e6)
  const received: Received[] = [
    ['cdp_connect', at(0.2)],
    ['page_navigation', at(0.5), { url: `https://shop.test/?token=${SECRET}` }],
    [
      'network_response',
      at(1),
      { method: 'GET', status: 500, url: 'https://shop.test/api', headers: { 'x-a': SECRET }, body: SECRET, mime_type: 'application/json' },
    ],
    ['interaction_click', at(2), { text: 'Add to cart', selector: '#add', x: 10, y: 20 }],
    ['api_call', at(2.5), { operation_id: 'clickMouse', status: 200, duration_ms: 12 }],
    ['monitor_events_lost', at(3), { count: 214, reason: 'too_many' }],
    ...HOSTILE.map((text, index): Received => [
      'console_log',
      at(3.5 + index / 100),
      { text, url: 'javascript:hacked=1', [text.slice(0, 60)]: text, args: [text] },
    ]),
    ['page_tab_opened', at(4), { title: HOSTILE[0], url: 'javascript:hacked=1' }],
    ['page_crashed', at(4.5), { url: 'https://shop.test/pay' }],
    ['system_oom_kill', at(5), { process_name: 'chromium', rss_kb: 1_000_000, pid: 3 }],
  ]
  await keepEvents(cloud, sessionId, received)
  view = { full: await link(replay.replay_id, 'full'), brief: replay.replay_view_url! }
})
afterAll(() => ended.disposeAsync())
afterEach(() => person.leave())

/** Opens a replay, and collects the errors of its page. */
async function open(url: string, options: BrowserContextOptions = {}): Promise<{ page: Page; problems: string[] }> {
  const page = await person.newPage({ viewport: { width: 1280, height: 800 }, ...options })
  const problems: string[] = []
  page.on('console', (message) => void (['error', 'warning'].includes(message.type()) && problems.push(message.text())))
  page.on('pageerror', (error) => void problems.push(String(error)))
  page.on('dialog', (dialog) => void (problems.push(`dialog ${dialog.message()}`), dialog.dismiss()))
  page.on('request', (request) => void (!/^(data:|http:\/\/127\.0\.0\.1)/.test(request.url()) && problems.push(`request ${request.url()}`)))
  await page.goto(url)
  await page.locator('.ev-line').first().waitFor()
  await until('the video', SEEN_MS, () => page.evaluate<boolean>('document.querySelector("video").readyState >= 2'), { everyMs: 50 })
  return { page, problems }
}
const line = (page: Page, text: string) => page.locator('.ev-line', { hasText: text })
const time = (page: Page) => page.evaluate<number>('document.querySelector("video").currentTime')
const isAt = (page: Page, seconds: number) =>
  until(`${seconds} s`, SEEN_MS, async () => Math.abs((await time(page)) - seconds) < FRAME_MS / 1000, { everyMs: 20 })
const present = (page: Page) => page.locator('.ev-row[aria-current] .ev-text').textContent()
const texts = (page: Page) => page.locator('.ev-text').allTextContents()
describe('the list beside the video', () => {
  test('goes to the moment of an event by a click, and shows which event is the present one wherever the video is', async () => {
    const { page, problems } = await open(view.full)
    await line(page, 'Add to cart').click()
    await isAt(page, 2)
    await until('the present line', SEEN_MS, async () => (await present(page)) === 'Click Add to cart', { everyMs: 20 })
    await page.evaluate('document.querySelector("video").currentTime = 4.7')
    await until('the present line', SEEN_MS, async () => (await present(page)) === 'The page crashed shop.test/pay', { everyMs: 20 })
    await page.evaluate('document.querySelector("video").currentTime = 0')
    await until('no present line', SEEN_MS, async () => (await page.locator('.ev-row[aria-current]').count()) === 0, { everyMs: 20 })
    await page.locator('.big').click()
    await until('the first line', SEEN_MS, async () => (await page.locator('.ev-row[aria-current]').count()) === 1, { everyMs: 20 })
    expect(await page.locator('.marks path').count()).toBeGreaterThanOrEqual(6)
    expect(problems).toEqual([])
  })

  test('has filters by kind and a search, which the marks on the time line follow', async () => {
    const { page } = await open(view.full)
    await page.locator('.ev-kind[data-kind=console]').click()
    await until('the filter', SEEN_MS, async () => !(await texts(page)).some((text) => text.includes('script')), { everyMs: 20 })
    expect(await page.locator('.marks [data-kind=console]').count()).toBe(0)
    await page.getByRole('searchbox').fill('CART click')
    await until('the search', SEEN_MS, async () => (await texts(page)).length === 1, { everyMs: 20 })
    expect([await texts(page), await page.locator('.ev-status').textContent()]).toEqual([['Click Add to cart'], `1 of ${7 + HOSTILE.length + 2} events`])
    expect(await page.locator('.marks path').count()).toBe(1)
    // Letters in the search field must not control the player.
    await page.getByRole('searchbox').fill('')
    await page.keyboard.type('kfe')
    expect(
      await page.evaluate('[document.querySelector("video").paused, document.fullscreenElement === null, document.querySelector(".events").hidden]'),
    ).toEqual([true, true, false])
  })

  test('opens details on demand: headers and bodies in full, and none of them in brief', async () => {
    const { page } = await open(view.full)
    await page.locator('.ev-row', { hasText: '500 GET' }).locator('.ev-open').click()
    const details = page.getByRole('region', { name: 'Details of an event' })
    await until('the details', SEEN_MS, async () => (await details.textContent())!.includes(`x-a: ${SECRET}`), { everyMs: 20 })
    expect(await time(page)).toBe(0)
    await page.keyboard.press('Escape')
    expect(await details.isHidden()).toBe(true)
    const { page: other } = await open(view.brief)
    for (const text of ['500 GET', 'Went to']) {
      await other.locator('.ev-row', { hasText: text }).locator('.ev-open').click()
      await other.getByText('This link shows no headers, bodies').waitFor()
      expect(await other.content()).not.toContain(SECRET)
    }
    expect(await texts(other)).toContain('Went to shop.test/?token=…')
    for (const url of Object.values(view)) expect(cloud.log()).not.toContain(new URL(url).searchParams.get('jwt')!)
  })

  test('can be hidden, and then leaves its room to the video', async () => {
    const { page } = await open(view.full)
    const width = async () => (await page.locator('.stage').boundingBox())!.width
    const before = await width()
    await page.getByRole('button', { name: 'Events', exact: true }).click()
    expect([await page.locator('#events').isHidden(), (await width()) > before]).toEqual([true, true])
    await page.keyboard.press('e')
    expect(await page.locator('#events').isHidden()).toBe(false)
  })
})

test('what hostile pages say stays text: nothing runs, nothing is loaded, and no link is made', async () => {
  const { page, problems } = await open(view.full)
  const all = await texts(page)
  for (const text of HOSTILE.slice(0, 3)) expect(all).toContain(text)
  expect(all).toContain(`Opened a tab ${HOSTILE[0]}`)
  expect(all.every((text) => text.length <= 300 && !text.includes('\u202e'))).toBe(true)
  for (let index = 0; index < HOSTILE.length + 1; index++) {
    await page
      .locator('.ev-row', { hasText: '' })
      .nth(6 + index)
      .locator('.ev-open')
      .click()
    await page.locator('.ev-content dl').waitFor()
  }
  await sleep(300)
  expect(await page.evaluate('[typeof hacked, document.querySelectorAll("#events :is(a, img, script, iframe, style)").length]')).toEqual(['undefined', 0])
  expect(problems).toEqual([])
})

test('on a phone the list is below the video, what is touched is large enough, and nothing is wider than the screen', async () => {
  const { page } = await open(view.full, PHONE)
  const [stage, events] = [await page.locator('.stage').boundingBox(), await page.locator('#events').boundingBox()]
  expect([events!.y >= stage!.y + stage!.height, events!.width, events!.height > 300]).toEqual([true, 390, true])
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
  const sizes = await page.evaluate<[string, number][]>(
    `[...document.querySelectorAll('button, select, input')].filter((one) => one.checkVisibility()).map((one) => [one.className, Math.round(one.getBoundingClientRect().height)])`,
  )
  expect(sizes.filter(([, height]) => height < 44)).toEqual([])
  await line(page, 'Add to cart').tap()
  await isAt(page, 2)
  await page.locator('.ev-row', { hasText: 'Add to cart' }).locator('.ev-open').tap()
  await page.getByRole('region', { name: 'Details of an event' }).getByText('#add').waitFor()
  expect(await line(page, 'Add to cart').isVisible()).toBe(true)
})

test('the list can be used with the keyboard alone', async () => {
  const { page } = await open(view.full)
  await page.getByRole('searchbox').focus()
  for (let presses = 0; presses < 20 && !(await page.evaluate<boolean>('document.activeElement.classList.contains("ev-line")')); presses++)
    await page.keyboard.press('Tab')
  const focused = () => page.evaluate<string>('document.activeElement.querySelector(".ev-text")?.textContent ?? document.activeElement.className')
  expect(await focused()).toBe('A CDP client connected')
  for (let step = 0; step < 3; step++) await page.keyboard.press('ArrowDown')
  expect(await focused()).toBe('Click Add to cart')
  await page.keyboard.press('Enter')
  await isAt(page, 2)
  await page.keyboard.press('End')
  expect(await focused()).toContain('Out of memory')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Details of an event' }).getByText('rss kb').waitFor()
  await page.keyboard.press('Escape')
  expect(await focused()).toContain('Out of memory')
  await page.keyboard.press('Home')
  expect(await focused()).toBe('A CDP client connected')
})

test('the player with its list passes the accessibility check: as it opens, with details, with filters, on a phone, in brief', async () => {
  const { page } = await open(view.full)
  expect(await problemsOf(page)).toEqual([])
  await line(page, 'Add to cart').click()
  await page.locator('.ev-open').nth(2).click()
  await page.locator('.ev-kind[data-kind=input]').click()
  expect(await problemsOf(page)).toEqual([])
  for (const url of [view.full, view.brief]) {
    const { page: phone } = await open(url, PHONE)
    await phone.locator('.ev-open').nth(1).tap()
    expect(await problemsOf(phone)).toEqual([])
  }
})

test('an event is at the moment of the video that shows what it has done, by the session that told of it, its archive and the page', async () => {
  const [rate, paints] = [50, 5]
  const on = { enabled: true }
  await using session = await openSession(cloud, { ...SMALL, telemetry: { browser: { console: on } } })
  await session.page.setContent('<body style="background: #fff">')
  const agent = await endpointOf(cloud, session.id)
  const replay = await replays.start(session, { framerate: 20 })
  for (let index = 0; index < paints; index++) {
    await sleep(700)
    const body = { type: 'console_log' as const, source: { kind: 'cdp' as const }, data: { text: `paint ${index}` } }
    await call(agent, telemetryFeed.addTelemetry, { body }, { signal: AbortSignal.timeout(SEEN_MS) })
    await session.page.evaluate(`document.body.style.background = '${index % 2 === 0 ? '#d02020' : '#2040d0'}'`)
  }
  await sleep(700)
  await replays.stop(session, replay)
  const { file } = await replays.film(session, replay)
  const shown = await colours(file, rate, CORNER)
  const changes = shown.flatMap((colour, at) => (at > 0 && !near(colour, shown[at - 1]!) ? [at / rate] : []))
  expect(changes).toHaveLength(paints)
  const { page } = await open(replay.replay_view_url!)
  const late: number[] = []
  for (const [index, change] of changes.entries()) {
    await line(page, `paint ${index}`).click()
    await until('the moment', SEEN_MS, async () => !(await page.evaluate<boolean>('document.querySelector("video").seeking')), { everyMs: 20 })
    late.push(change - (await time(page)))
  }
  // A busy machine paints later. No paint comes before its event.
  expect(Math.min(...late)).toBeGreaterThan(-FRAME_MS / 2000)
  expect(Math.min(...late)).toBeLessThan(FRAME_MS / 1000)
})

test('tens of thousands of events are a list like any other, which goes on when it is asked', async () => {
  await using session = await replays.clockSession(SMALL)
  const replay = await replays.start(session)
  await sleep(1_000)
  await replays.stop(session, replay)
  await replays.film(session, replay)
  const [row] = await cloud.query<{ clock: number }>('select clock_started_at::float8 as clock from replays where id = $1', [replay.replay_id])
  const count = AT_ONCE + 1_500
  const received = Array.from({ length: count }, (_, index): Received => ['console_log', row!.clock + 1 + index * 40, { text: `line ${index + 1}` }])
  await keepEvents(cloud, session.id, received)
  const { page, problems } = await open(replay.replay_view_url!)
  await page.getByText(`The first ${AT_ONCE} events.`).waitFor()
  const inDocument = () => page.locator('.ev-row').count()
  expect(await inDocument()).toBeLessThan(60)
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByText(`${count} events`, { exact: true }).waitFor()
  await page.locator('.ev-line').first().focus()
  await page.keyboard.press('End')
  await line(page, `line ${count}`).waitFor()
  expect(await inDocument()).toBeLessThan(60)
  await page.getByRole('searchbox').fill('line 20777')
  await until('the search', SEEN_MS, async () => (await texts(page)).join() === 'line 20777', { everyMs: 20 })
  expect(problems).toEqual([])
})

test('the list goes with the video until a person scrolls it, and again when asked', async () => {
  const { page } = await open(view.full, { viewport: { width: 1280, height: 420 } })
  const top = () => page.evaluate<number>('document.querySelector(".ev-view").scrollTop')
  await page.evaluate('document.querySelector("video").currentTime = 5.2')
  await until('the list to follow', SEEN_MS, async () => (await top()) > 0, { everyMs: 20 })
  await page.locator('.ev-view').hover()
  await page.mouse.wheel(0, -2_000)
  await until('the beginning', SEEN_MS, async () => (await top()) === 0, { everyMs: 20 })
  await page.evaluate('document.querySelector("video").currentTime = 4.2')
  await isAt(page, 4.2)
  expect(await top()).toBe(0)
  await page.getByRole('button', { name: 'Follow the video' }).click()
  await until('the list to follow', SEEN_MS, async () => (await top()) > 0, { everyMs: 20 })
})
