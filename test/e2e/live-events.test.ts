// The live view's list of events in a real browser. The test sends events to the session's agent as if the agent had observed them.
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { telemetryFeed, type EventType } from '../../src/agent/telemetry/contract.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { call } from '../../src/http/client.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import { endpointOf } from '../support/agents.ts'
import { problemsOf } from '../support/axe.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { invitePerson, SEEN_MS, sees, type Person } from '../support/person.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const SECRET = 'kanarienvogel'
const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
const WHITE = [255, 255, 255]
/** The number of events that the page keeps. */
const KEPT = 5_000
/** Concurrent calls to the agent. */
const AT_ONCE = 50

let person: Person
let session: Session
let agent: Endpoint

const own = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
const pages = forTests(() => servePages())
beforeAll(async () => {
  person = own.use(await invitePerson())
  const on = { enabled: true }
  const options = {
    headless: true,
    timeout_seconds: 600,
    viewport: { width: 1024, height: 768 },
    telemetry: { browser: { console: on, network: on, page: on } },
  }
  session = own.use(await openSession(cloud, options))
  await session.page.goto(pages.url('watched.html'))
  agent = await endpointOf(cloud, session.id)
})
afterAll(() => own.disposeAsync())
afterEach(() => person.leave())

const tell = (type: EventType, data: Record<string, unknown>) =>
  call(agent, telemetryFeed.addTelemetry, { body: { type, source: { kind: 'cdp' }, data } }, { signal: AbortSignal.timeout(SEEN_MS) })
const view = () => session.made.browser_live_view_url!
const toggle = (page: Page) => page.getByRole('button', { name: 'Events', exact: true })
const line = (page: Page, text: string) => page.locator('.ev-line', { hasText: text })

test('the list is closed until it is asked for, goes on with the session, and costs nothing any more when it is closed', async () => {
  await tell('console_log', { text: 'told before' })
  const asked: string[] = []
  const ended: string[] = []
  const page = await person.newPage()
  page.on('request', (request) => void (request.url().endsWith('/events') && asked.push(request.url())))
  page.on('requestfailed', (request) => void (request.url().endsWith('/events') && ended.push(request.url())))
  await page.goto(view())
  await sees(page, WHITE)
  expect([await page.locator('#events').isHidden(), asked]).toEqual([true, []])
  await toggle(page).click()
  await line(page, 'told before').waitFor()
  await tell('network_response', { status: 200, method: 'GET', url: `https://a.test/?token=${SECRET}`, body: SECRET })
  await line(page, `200 GET a.test/?token=${SECRET}`).click()
  const details = page.getByRole('region', { name: 'Details of an event' })
  await details.locator('pre', { hasText: SECRET }).waitFor()
  // The first Escape closes the details, the second the list.
  await page.keyboard.press('Escape')
  expect([await details.isHidden(), await page.locator('#events').isHidden()]).toEqual([true, false])
  await page.keyboard.press('Escape')
  expect(await page.locator('#events').isHidden()).toBe(true)
  expect(await page.evaluate('document.activeElement.id')).toBe('events-open')
  await until('the end of the stream', SEEN_MS, async () => ended.length === 1, { everyMs: 20 })
  await tell('console_log', { text: 'told meanwhile' })
  await page.locator('#events-open').click()
  await line(page, 'told meanwhile').waitFor()
  expect([asked.length, await line(page, 'told before').count()]).toEqual([2, 1])
  expect(cloud.log()).not.toContain(new URL(view()).pathname.split('/').at(-1)!)
})

test('a link that may only look shows no bodies and no values', async () => {
  await tell('network_request', { method: 'POST', url: `https://a.test/?token=${SECRET}`, post_data: SECRET, headers: { 'x-a': SECRET } })
  const page = await person.look(`${view()}?readOnly=true`)
  await toggle(page).click()
  await line(page, 'POST a.test/?token=…').click()
  await page.getByText('This link shows no headers, bodies').waitFor()
  expect(await page.content()).not.toContain(SECRET)
})

test('what hostile pages say stays text', async () => {
  const hostile = ['<img src=x onerror="hacked=1">', '<a href="javascript:hacked=1">x</a>', '<script>hacked=1</script>']
  for (const text of hostile) await tell('console_error', { text, url: 'javascript:hacked=1', args: [text], [text]: text, stack_trace: { description: text } })
  const page = await person.newPage()
  const problems: string[] = []
  page.on('console', (message) => void (message.type() === 'error' && problems.push(message.text())))
  page.on('pageerror', (error) => void problems.push(String(error)))
  await page.goto(view())
  await toggle(page).click()
  for (const text of hostile) {
    await line(page, text).last().click()
    await page.locator('.ev-content dl').waitFor()
  }
  expect(await page.evaluate('[typeof hacked, document.querySelectorAll("#events :is(a, img, script)").length]')).toEqual(['undefined', 0])
  expect(problems).toEqual([])
})

test('on a phone it is a sheet below the picture, which stays in view, and what is touched is large enough', async () => {
  await tell('console_log', { text: 'on a phone' })
  const page = await person.look(view(), PHONE)
  await toggle(page).tap()
  await line(page, 'on a phone').tap()
  const [stage, sheet] = [(await page.locator('#stage').boundingBox())!, (await page.locator('#events').boundingBox())!]
  expect([sheet.y >= stage.y + stage.height, sheet.width, stage.height > 200, sheet.height > 350]).toEqual([true, 390, true, true])
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
  const small = await page.evaluate(
    `[...document.querySelectorAll('button')].filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML)`,
  )
  expect(small).toEqual([])
  await sees(page, WHITE)
})

test('the live view with its list passes the accessibility check: beside the picture, with details, view-only, on a phone', async () => {
  await tell('console_error', { text: 'a failure' })
  for (const [url, options] of [
    [view(), {}],
    [`${view()}?readOnly=true`, {}],
    [view(), PHONE],
  ] as const) {
    const page = await person.look(url, options)
    await toggle(page).click()
    await line(page, 'a failure').last().waitFor()
    expect(await problemsOf(page)).toEqual([])
    await line(page, 'a failure').last().click()
    await page.locator('.ev-content dl').waitFor()
    expect(await problemsOf(page)).toEqual([])
  }
})

test('of thousands of events the newest are kept, and few lines are in the document', async () => {
  const page = await person.look(view())
  await toggle(page).click()
  for (let sent = 0; sent < KEPT + 500; sent += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => tell('console_log', { text: `line ${sent + index}` })))
  // An agent accepts at most 4,000 events per second.
  await sleep(1_000)
  await tell('console_log', { text: 'the last line' })
  await line(page, 'the last line').waitFor()
  const count = Number(/^\d+/.exec((await page.locator('.ev-status').textContent())!)![0])
  expect([count > KEPT / 2, count <= KEPT, (await page.locator('.ev-row').count()) < 60]).toEqual([true, true, true])
  // The search works while events arrive.
  await page.getByRole('searchbox').fill('the last')
  await until('the search', SEEN_MS, async () => (await page.locator('.ev-text').allTextContents()).join() === 'the last line', { everyMs: 20 })
})

test('with telemetry off it says so, and at the end of the session what has come stays', async () => {
  const made = await cloud.client.browsers.create({ headless: true })
  const page = await person.look(made.browser_live_view_url!)
  await toggle(page).click()
  await page.getByText('The telemetry of this session is off').waitFor()
  await cloud.client.browsers.update(made.session_id, { telemetry: { browser: { console: { enabled: true } } } })
  const endpoint = await endpointOf(cloud, made.session_id)
  const body = { type: 'console_log' as const, source: { kind: 'cdp' as const }, data: { text: 'it is on' } }
  await call(endpoint, telemetryFeed.addTelemetry, { body }, { signal: AbortSignal.timeout(SEEN_MS) })
  await line(page, 'it is on').waitFor()
  await cloud.client.browsers.deleteByID(made.session_id)
  await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
  expect(await line(page, 'it is on').isVisible()).toBe(true)
})
