// WebSockets of a session: Playwright, Puppeteer and a BiDi client at the same time and one after the other, and what closes their connections.
import puppeteer from 'puppeteer-core'
import { chromium } from 'playwright-core'
import BIDI from 'selenium-webdriver/bidi/index.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { runInside } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** Tests that close only their own connections share this session. */
let session: Session
const ended = new AsyncDisposableStack()
const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  session = ended.use(await openSession(cloud, { timeout_seconds: 300 }))
})
afterAll(() => ended.disposeAsync())

const closing = (socket: WebSocket): Promise<{ code: number; reason: string }> =>
  new Promise((resolve) => socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })))
const opening = (socket: WebSocket): Promise<void> => new Promise((resolve, reject) => socket.on('open', () => resolve()).on('error', reject))

test('Playwright and Puppeteer work on the same pages at once, and a disconnect of one does not affect the other', async () => {
  await session.page.goto(pages.url('one'))
  const second = await puppeteer.connect({ browserWSEndpoint: session.made.cdp_ws_url, defaultViewport: null })
  const [same] = await second.pages()
  expect(await same!.title()).toBe('one')
  await same!.goto(pages.url('two'))
  // Each client learns of the other's navigation from its own events, a moment later ("Loading …" is Playwright's placeholder).
  await expect.poll(() => session.page.title()).toBe('two')
  await second.disconnect()
  expect(await session.page.evaluate('1 + 1')).toBe(2)
})

test('a client that was disconnected can reconnect to the same URL and the same pages', async () => {
  await using own = await openSession(cloud, { timeout_seconds: 300 })
  await own.page.goto(pages.url('kept'))
  await own.page.evaluate('window.mark = 42')
  const socket = new WebSocket(own.made.cdp_ws_url)
  await opening(socket)
  socket.terminate()
  await own.browser.close()
  const again = await chromium.connectOverCDP(own.made.cdp_ws_url)
  const page = again.contexts()[0]!.pages()[0]!
  expect(page.url()).toBe(pages.url('kept'))
  expect(await page.evaluate('window.mark')).toBe(42)
  await again.close()
})

test('large messages arrive complete in both directions', async () => {
  const text = 'x'.repeat(8 * 1024 * 1024)
  expect(await session.page.evaluate((sent: string) => sent.length, text)).toBe(text.length)
  expect((await session.page.evaluate(`'y'.repeat(${text.length})`)) as string).toHaveLength(text.length)
})

test('clients that start with an http address find the session under its CDP address, with its token or with a key', async () => {
  await session.page.goto(pages.url('found'))
  const address = session.made.cdp_ws_url.replace(/^ws/, 'http')
  const playwright = await chromium.connectOverCDP(address)
  expect(playwright.contexts()[0]!.pages()[0]!.url()).toBe(pages.url('found'))
  await playwright.close()
  const found = await puppeteer.connect({ browserURL: address, defaultViewport: null })
  expect((await found.pages())[0]!.url()).toBe(pages.url('found'))
  await found.disconnect()

  const [, token] = address.split('?')
  for (const below of [`/browsers/${session.id}/cdp`, new URL(session.made.base_url!).pathname]) {
    // Without a token in the address, the client needs an API key.
    const byKey = await chromium.connectOverCDP(cloud.url + below, { headers: { authorization: `Bearer ${cloud.key}` } })
    expect(byKey.contexts()[0]!.pages()[0]!.url()).toBe(pages.url('found'))
    await byKey.close()

    const get = async (path: string) => (await (await fetch(`${cloud.url}${below}/${path}?${token}`)).json()) as unknown
    for (const path of ['json/version', 'json/version/'])
      expect(await get(path)).toMatchObject({
        Browser: `Chrome/${session.browser.version()}`,
        'Protocol-Version': '1.3',
        webSocketDebuggerUrl: session.made.cdp_ws_url,
      })
    for (const path of ['json/list', 'json/list/', 'json', 'json/']) {
      const list = (await get(path)) as Record<string, string>[]
      expect(list).toMatchObject([{ type: 'page', title: 'found', url: pages.url('found') }])
      const line = new WebSocket(list[0]!.webSocketDebuggerUrl!)
      await opening(line)
      const answer = new Promise((resolve) => line.on('message', (data) => resolve(JSON.parse((data as Buffer).toString()))))
      line.send(JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression: 'document.title' } }))
      expect(await answer).toMatchObject({ result: { result: { value: 'found' } } })
      line.terminate()
    }
    for (const path of ['json/protocol', 'json/protocol/']) {
      const { version, domains } = (await get(path)) as { version: object; domains: { domain: string }[] }
      expect(version).toEqual({ major: '1', minor: '3' })
      expect(domains.map(({ domain }) => domain)).toEqual(expect.arrayContaining(['Browser', 'Page', 'Runtime', 'Target']))
    }
    for (const query of ['', '?jwt=wrong'])
      for (const path of ['json', 'json/version', 'json/protocol/']) expect((await fetch(`${cloud.url}${below}/${path}${query}`)).status).toBe(401)
  }
})

const logOf = (id: string, words: string) =>
  cloud
    .log()
    .split('\n')
    .filter((line) => line.includes(id) && line.includes(words))
const crashesOf = (id: string) => logOf(id, 'Chromium crashed')

test('a browser that its client closed or crashed is started again behind the same URL, with its tabs, and the log says so', async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  for (const [method, reason] of [
    ['Browser.close', 'closed'],
    ['Browser.crash', 'crashed'],
  ] as const) {
    expect(crashesOf(made.session_id)).toEqual([])
    const before = await chromium.connectOverCDP(made.cdp_ws_url)
    const name = `lasting-${method}`
    await before.contexts()[0]!.pages()[0]!.goto(pages.url(name))
    // Chromium saves its list of tabs some seconds after a change.
    const saved = async () => (await runInside(cloud, made.session_id, `grep -qr ${name} /home/kernel/user-data/Default/Sessions`)).code === 0
    await until('the tab to be written', 30_000, saved, { everyMs: 100 })
    const socket = new WebSocket(made.cdp_ws_url)
    await opening(socket)
    const closed = closing(socket)
    socket.send(JSON.stringify({ id: 1, method }))
    expect(await closed).toMatchObject({ code: 4003, reason: expect.stringContaining(`"reason":"${reason}"`) })
    await before.close().catch(() => {})
    const after = await chromium.connectOverCDP(made.cdp_ws_url)
    const tabs = await until(
      'the tabs',
      30_000,
      () =>
        after
          .contexts()[0]!
          .pages()
          .some((page) => page.url() === pages.url(name)),
      { everyMs: 100 },
    ).catch(() => false)
    expect([method, tabs]).toEqual([method, true])
    await after.close()
  }
  await until('the log', 10_000, () => crashesOf(made.session_id).length === 1)
  await cloud.client.browsers.deleteByID(made.session_id)
})

test('a browser that a BiDi client or its user has closed is started again, and neither the log nor telemetry calls that a crash', async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300, telemetry: { enabled: true } })
  const id = made.session_id
  const crashes = async (): Promise<unknown[]> => {
    const found = await cloud.fetch(`/browsers/${id}/telemetry/events?type=service_crashed`)
    return (await found.json()) as unknown[]
  }
  const closeByBidi = async () => {
    const bidi = new BIDI(made.webdriver_ws_url)
    await bidi.waitForConnection()
    await bidi.send({ method: 'session.new', params: { capabilities: {} } })
    await bidi.send({ method: 'browser.close', params: {} })
    bidi.close()
  }
  const closeByKey = () => cloud.client.browsers.computer.pressKey(id, { keys: ['ctrl+shift+w'] }).catch(() => {}) // the key closes the window, so the call may fail
  for (const [round, close] of [closeByBidi, closeByKey].entries()) {
    const socket = new WebSocket(made.cdp_ws_url)
    await opening(socket)
    const closed = closing(socket)
    await close()
    expect(await closed).toMatchObject({ code: 4003, reason: expect.stringContaining('"reason":"closed"') })
    await until('Chromium to be back', 30_000, () => logOf(id, 'Chromium runs again').length === round + 1)
    expect([crashesOf(id), await crashes()]).toEqual([[], []])
  }
  // When another program of the session kills Chromium, it counts as a crash.
  await cloud.client.browsers.process.exec(id, { command: 'pkill', args: ['-KILL', '-o', 'chromium'] })
  await until('the log', 30_000, () => crashesOf(id).length === 1)
  await expect.poll(crashes, { timeout: 10_000 }).toHaveLength(1)
  await cloud.client.browsers.deleteByID(id)
})
