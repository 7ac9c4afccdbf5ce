// A session whose Chromium hangs (SIGSTOP): every call ends within its own limit, and everything works again when Chromium continues.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { childrenOf, chromiumOf } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { clearRecord, openSession, recorded, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** Much longer than any call here may take, also on a busy machine. Shorter than the 38 s that a call took when its own limit was not the outermost one. */
const FAR_TOO_LONG_MS = 30_000
/** The limit for a page to handle input. */
const TAKE_MS = 10_000

let cloud: Cloud
let session: Session
let stopped: number | undefined
const go = (): void => {
  if (stopped !== undefined) process.kill(stopped, 'SIGCONT')
  stopped = undefined
}
const pages = forTests(() => servePages())
beforeAll(async () => {
  // With more warm browsers, the test would not know which one the next session gets.
  cloud = await shareCloud({ COB_WARM_BROWSERS: '1', COB_WARM_BROWSERS_MAX: '1' })
  session = await openSession(cloud, { timeout_seconds: 300, headless: true })
  await session.page.goto(pages.url('recorder.html'))
  await session.page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
})
afterAll(async () => {
  go()
  await session[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
})

async function timed<T>(work: Promise<T>): Promise<{ ms: number; answer: T }> {
  const began = performance.now()
  const answer = await work
  return { ms: performance.now() - began, answer }
}

test('a browser that hangs delays no call beyond its own limit, and gets its shortcuts and clicks when it continues', async () => {
  const { browsers } = cloud.client.withOptions({ maxRetries: 0 })
  const { id, page } = session
  // Start the worker process first, so that the limits below apply only to the runs.
  expect(await browsers.playwright.execute(id, { code: 'return 1' })).toMatchObject({ success: true, result: 1 })
  await clearRecord(page)
  stopped = chromiumOf(cloud, id)
  process.kill(stopped, 'SIGSTOP')

  // The first run uses the connection of the previous run; the second run has no connection.
  for (const [timeout_sec, error] of [
    [2, /did not finish within 2 s/],
    [5, /has not begun: the browser did not answer within 5 s/],
  ] as const) {
    const run = await timed(browsers.playwright.execute(id, { code: 'return await page.title()', timeout_sec }))
    expect(run.answer).toMatchObject({ success: false, error: expect.stringMatching(error) })
    expect(run.ms).toBeLessThan(FAR_TOO_LONG_MS)
  }

  const curl = await timed(browsers.curl(id, { url: pages.url('recorder.html'), timeout_ms: 3_000 }).catch((error: unknown) => error))
  expect(curl.answer).toMatchObject({ status: 504 })
  expect(curl.ms).toBeLessThan(FAR_TOO_LONG_MS)

  // When the browser does not answer, only the first of ten shortcuts waits.
  const keys = await timed(browsers.computer.pressKey(id, { keys: Array.from({ length: 10 }, () => 'ctrl+shift+F8') }))
  expect(keys.ms).toBeLessThan(FAR_TOO_LONG_MS)
  const click = await timed(browsers.computer.clickMouse(id, { x: 700, y: 600 }))
  expect(click.ms).toBeLessThan(FAR_TOO_LONG_MS)
  expect((await browsers.computer.captureScreenshot(id)).ok).toBe(true)
  // This character needs a spare key, so the call must wait until the browser has read the new key map.
  const typed = await timed(browsers.computer.typeText(id, { text: '\u0416' }).catch((error: unknown) => error))
  expect(typed.answer).toMatchObject({ status: 503, message: expect.stringContaining('does not answer') })
  expect(typed.ms).toBeLessThan(FAR_TOO_LONG_MS)

  go()
  const kinds = (types: string[]) => async () => (await recorded(page)).filter(({ type, key }) => types.includes(type) && (type !== 'keydown' || key === 'F8'))
  await until('the keys and the click', TAKE_MS, async () => (await kinds(['keydown', 'click'])()).length >= 11)
  expect((await kinds(['keydown', 'click'])()).map(({ type }) => type)).toEqual([...Array.from({ length: 10 }, () => 'keydown'), 'click'])
  expect(await browsers.playwright.execute(id, { code: 'return await page.title()' })).toMatchObject({ success: true, result: 'recorder' })
  expect(await browsers.curl(id, { url: pages.url('recorder.html') })).toMatchObject({ status: 200 })
})

/** No warm browser has this size, so the agent must resize each. */
const viewport = { width: 1000, height: 700 }

/** The warm browser that the next session gets: if there are both kinds, the one that is already in full screen, or the usual one. */
async function nextWarm(kiosk_mode: boolean): Promise<string> {
  await cloud.warm()
  const [warm] = await cloud.query<{ id: string }>(`select id from browsers where state = 'warm' order by (warm_kind = 'headless') = $1 desc`, [kiosk_mode])
  return warm!.id
}

test('a warm browser that hangs costs its caller some seconds, and not the session', async () => {
  const warm = await nextWarm(true)
  process.kill(chromiumOf(cloud, warm), 'SIGSTOP')
  const made = await timed(cloud.client.browsers.create({ kiosk_mode: true, viewport, timeout_seconds: 60 }))
  expect(made.answer.session_id).not.toBe(warm)
  expect(made.ms).toBeLessThan(FAR_TOO_LONG_MS)
  expect(await cloud.query('select end_reason from browsers where id = $1', [warm])).toEqual([{ end_reason: 'abandoned' }])
  await cloud.client.browsers.deleteByID(made.answer.session_id)
})

/**
 * Stops these processes of a warm browser, creates a session from it, and continues the processes after `ms`. `readyBefore` says whether the session was ready before
 * that.
 */
async function createSlowly(type: 'renderer' | 'gpu-process', kiosk_mode: boolean, ms: number): Promise<{ made: Session; readyBefore: boolean }> {
  const warm = await nextWarm(kiosk_mode)
  const slow = childrenOf(cloud, warm, type)
  expect(slow).not.toEqual([])
  for (const pid of slow) process.kill(pid, 'SIGSTOP')
  let readyBefore = false
  let going = false
  const created = openSession(cloud, { kiosk_mode, headless: false, viewport, timeout_seconds: 60 })
  created.then(
    () => (readyBefore = !going),
    () => {},
  )
  await sleep(ms)
  going = true
  for (const pid of slow) process.kill(pid, 'SIGCONT')
  const made = await created
  expect(made.id).toBe(warm)
  return { made, readyBefore }
}

test.each([true, false])('a session is ready when its page has the size of its window, not before (kiosk mode: %s)', async (kiosk_mode) => {
  const { made, readyBefore } = await createSlowly('renderer', kiosk_mode, 3_000)
  await using session = made
  expect(readyBefore).toBe(false)
  expect(await session.page.evaluate('[innerWidth, outerHeight]')).toEqual([viewport.width, viewport.height])
  if (kiosk_mode) expect(await session.page.evaluate('innerHeight')).toBe(viewport.height)
})

test('a kiosk session whose browser cannot draw for a while fills its screen again', async () => {
  // Chromium leaves full screen when it cannot draw for 1.5 s.
  const { made } = await createSlowly('gpu-process', true, 3_000)
  await using session = made
  await until('the page to fill the screen', TAKE_MS, async () => (await session.page.evaluate('innerHeight')) === viewport.height, { everyMs: 50 })
  await sleep(2_000)
  expect(await session.page.evaluate('[innerWidth, innerHeight]')).toEqual([viewport.width, viewport.height])
})
