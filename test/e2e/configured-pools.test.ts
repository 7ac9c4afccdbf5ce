// Pools whose browsers have every option, with real Chromium. Each caller gets all options, and one caller's actions do not affect the next caller's browser.
import { createServer } from 'node:http'
import { once } from 'node:events'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { sleep, until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { markingExtension } from '../support/extensions.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages, tryToLoad } from '../support/pages.ts'
import { recorded } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { httpProxy, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** Only the proxies can resolve this name; the second name is one that the pool's network does not allow. */
const SITE = 'site.test'
const OTHER = 'other.test'
const NAMES = { [SITE]: '127.0.0.1', [OTHER]: '127.0.0.1', 'host.cob.internal': '127.0.0.1' }
const POOL = 'dressed'
const SIZE = { width: 1000, height: 700 }
/** The limit for boots with a profile, and for restarts of Chromium by policies and stealth, on a busy machine. */
const MADE_MS = 60_000
/** The limit for effects of a page or an extension. */
const SEEN_MS = 30_000
/** An action that a former caller began would have an effect within this time. */
const LATER_MS = 2_500

let cloud: Cloud
let site: Awaited<ReturnType<typeof serveSockets>>
let first: TestProxy
let second: TestProxy
let two: string
const ended = new AsyncDisposableStack()

const address = (path: string, host = SITE) => `http://${host}:${site.port}${path}`
const pools = () => cloud.client.browserPools
const idle = () =>
  until('an idle browser', MADE_MS, async () => {
    const { available_count, problem } = (await pools().retrieve(POOL)) as { available_count: number; problem?: string }
    if (problem !== undefined) throw new Error(problem)
    return available_count === 1
  })

/** Saves the profile with a cookie of this value. */
async function saved(value: string): Promise<void> {
  const { session_id: id } = await cloud.client.browsers.create({ profile: { name: POOL, save_changes: true }, timeout_seconds: 300 })
  await cloud.client.browsers.playwright.execute(id, {
    code: `await context.addCookies([{ name: 'mark', value: '${value}', domain: '${SITE}', path: '/', expires: Date.now() / 1000 + 9999 }])`,
  })
  await cloud.remove(id)
}

const pages = forTests(() => servePages())
beforeAll(async () => {
  site = ended.use(
    await serveSockets(createServer(({ url }, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end(`<title>${url}</title>here`))),
  )
  first = ended.use(await httpProxy({ names: NAMES }))
  second = ended.use(await httpProxy({ names: NAMES }))
  cloud = await shareCloud({ COB_WARM_BROWSERS: '0' })
  const made = async ({ port }: TestProxy) => (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port } })).id!
  const one = await made(first)
  two = await made(second)
  ended.defer(async () => {
    for (const id of [one, two]) await cloud.client.proxies.delete(id)
  })
  await cloud.client.extensions.upload({ file: new File([new Uint8Array(markingExtension('marker'))], 'marker.zip'), name: 'pooled-marker' })
  ended.defer(() => cloud.client.extensions.delete('pooled-marker'))
  await cloud.client.profiles.create({ name: POOL })
  ended.defer(() => cloud.client.profiles.delete(POOL))
  await saved('one')
  await pools().create({
    name: POOL,
    size: 1,
    fill_rate_per_minute: 6000,
    timeout_seconds: 300,
    profile: { name: POOL },
    extensions: [{ name: 'pooled-marker' }],
    proxy_id: one,
    chrome_policy: { URLBlocklist: [`${SITE}/closed`] },
    viewport: SIZE,
    kiosk_mode: true,
    stealth: true,
    start_url: address('/start'),
    network: { allowed_hosts: [SITE, 'host.cob.internal'] },
  } as never)
  ended.defer(() => pools().delete(POOL, { force: true }))
  await idle()
}, 2 * MADE_MS)
afterAll(async () => {
  await ended.disposeAsync()
  await cloud[Symbol.asyncDispose]()
})

interface Lent extends AsyncDisposable {
  id: string
  made: Awaited<ReturnType<Cloud['client']['browsers']['create']>>
  browser: Browser
  page: Page
  release(reuse?: boolean): Promise<void>
}

/** Acquires the pool's browser, and connects to its first page. Disposing releases the browser. */
async function acquire(): Promise<Lent> {
  const made = await pools().acquire(POOL, { acquire_timeout_seconds: 50 })
  const { session_id: id } = made
  const browser = await chromium.connectOverCDP(made.cdp_ws_url)
  let isBack = false
  const release = async (reuse?: boolean) => {
    isBack = true
    await pools().release(POOL, { session_id: id, ...(reuse !== undefined && { reuse }) })
  }
  return {
    id,
    made,
    browser,
    page: browser.contexts()[0]!.pages()[0]!,
    release,
    async [Symbol.asyncDispose]() {
      if (!isBack) await release()
      await browser.close()
    },
  }
}

/** Loads a page, and returns the proxies through which it came. */
async function wayOf(page: Page, path: string): Promise<string[]> {
  const before = [first, second].map(({ asked }) => asked.length)
  await page.goto(address(path))
  return [first, second].flatMap((proxy, at) => (proxy.asked.slice(before[at]).some((what) => what.endsWith(path)) ? [['first', 'second'][at]!] : []))
}
const sizeOf = (page: Page) => page.evaluate('[innerWidth, innerHeight, outerWidth, outerHeight, screen.width, screen.height]')
const outcome = (page: Page, url: string) =>
  tryToLoad(page, url).then(
    ({ answer }) => String(answer.status()),
    (error: unknown) => String(error),
  )

/** Checks every option of the pool in a browser that was just acquired. */
async function expectConfigured({ made, page }: Lent): Promise<void> {
  const { width, height } = SIZE
  expect(await sizeOf(page)).toEqual([width, height, width, height, width, height])
  expect(made).toMatchObject({ stealth: true, kiosk_mode: true, viewport: SIZE, start_url: address('/start') })
  expect(await wayOf(page, '/a')).toEqual(['first'])
  const received = async () => JSON.stringify([await page.context().cookies(), await cloud.client.profiles.retrieve(POOL), made.profile])
  const cookies = await page.evaluate<string>('document.cookie')
  expect(cookies, cookies === '' ? await received() : '').toContain('mark=')
  await expect.poll(() => page.evaluate('document.documentElement.dataset.marker'), { timeout: SEEN_MS }).toBe('marked')
  expect(await outcome(page, address('/closed'))).toContain('ERR_BLOCKED_BY_ADMINISTRATOR')
  expect(await outcome(page, address('/', OTHER))).toBe('403')
}

test('everything that the pool has is there when a caller gets a browser, and again for the next one after changes', async () => {
  {
    await using lent = await acquire()
    expect(lent.browser.contexts().flatMap((context) => context.pages().map((page) => page.url()))).toEqual([address('/start')])
    expect(first.asked.filter((what) => what.endsWith('/start'))).toHaveLength(1)
    expect(second.asked).toEqual([])
    await expectConfigured(lent)
    const changed = await cloud.client.browsers.update(lent.id, { proxy_id: two, viewport: { width: 800, height: 600 } })
    expect(changed).toMatchObject({ proxy_id: two, viewport: { width: 800, height: 600 } })
    expect(await wayOf(lent.page, '/d')).toEqual(['second'])
    await expect.poll(() => sizeOf(lent.page), { timeout: SEEN_MS }).toEqual([800, 600, 800, 600, 800, 600])
    await cloud.client.browsers.update(lent.id, { network: { allowed_hosts: [OTHER] } } as never)
    expect(await outcome(lent.page, address('/e'))).toBe('403')
    expect(await outcome(lent.page, address('/f', OTHER))).toBe('200')
    await lent.page.evaluate('window.mark = 1')
  }
  await using lent = await acquire()
  expect(await lent.page.evaluate('[location.href, window.mark]')).toEqual([address('/d'), 1])
  await expectConfigured(lent)
})

test('what a caller has begun ends when it gives its browser back: calls, sockets, a key and a button that it holds; its processes go on', async () => {
  const { process, computer, playwright } = cloud.client.browsers
  const lent = await acquire()
  await lent.page.goto(pages.url('recorder.html'))
  const socket = new WebSocket(lent.made.cdp_ws_url)
  await once(socket, 'open')
  const closed = once(socket, 'close')
  const spawned = await process.spawn(lent.id, { command: 'sleep', args: ['300'] })
  const stream = await process.stdoutStream(spawned.process_id!, { id: lent.id })
  const read = (async () => {
    for await (const _ of stream);
  })().catch((error: unknown) => error)
  await computer.pressKey(lent.id, { keys: ['Caps_Lock'] })
  await computer.clickMouse(lent.id, { x: 300, y: 300, click_type: 'down' })
  const late = playwright.execute(lent.id, {
    code: `await new Promise((done) => setTimeout(done, ${LATER_MS / 2})); await page.evaluate('window.late = 1')`,
    timeout_sec: 20,
  })
  const key = computer.pressKey(lent.id, { keys: ['Shift'], duration: 20_000 })
  const calls = Promise.allSettled([late, key])
  const happened = async (type: string) => (await recorded(lent.page)).some((event) => event.type === type)
  await expect.poll(() => happened('mousedown'), { timeout: SEEN_MS }).toBe(true)
  await expect.poll(() => happened('keydown'), { timeout: SEEN_MS }).toBe(true)
  await lent.release()
  await lent.browser.close()
  expect((await closed).map(String)).toEqual(['4001', expect.stringContaining('released')])
  expect((await calls).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await read
  await expect(chromium.connectOverCDP(lent.made.cdp_ws_url)).rejects.toThrow(/40[14]/)
  expect((await fetch(lent.made.browser_live_view_url!)).status).not.toBe(200)

  await using next = await acquire()
  expect(next.id).toBe(lent.id)
  expect((await fetch(lent.made.browser_live_view_url!)).status).not.toBe(200)
  await expect(chromium.connectOverCDP(lent.made.cdp_ws_url)).rejects.toThrow(/401/)
  const jwt = new URL(lent.made.cdp_ws_url).searchParams.get('jwt')
  expect((await fetch(`${lent.made.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' })).status).toBe(401)
  await computer.moveMouse(next.id, { x: 400, y: 300 })
  await expect.poll(async () => (await recorded(next.page)).filter(({ type }) => type === 'mousemove').at(-1)?.x, { timeout: SEEN_MS }).toBe(400)
  expect((await recorded(next.page)).filter(({ type }) => type === 'mousemove').at(-1)).toMatchObject({ buttons: 0, shift: false })
  await computer.pressKey(next.id, { keys: ['b'] })
  await expect
    .poll(async () => (await recorded(next.page)).findLast(({ type }) => type === 'keydown'), { timeout: SEEN_MS })
    .toMatchObject({ key: 'b', capsLock: false })
  expect(await process.status(spawned.process_id!, { id: next.id })).toMatchObject({ state: 'running' })
  await sleep(LATER_MS)
  expect(await next.page.evaluate('window.late')).toBeUndefined()
  await process.kill(spawned.process_id!, { id: next.id, signal: 'KILL' })
})
