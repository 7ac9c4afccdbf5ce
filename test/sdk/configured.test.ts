// The published SDK and a real Chromium: sessions with a proxy, a profile and an extension, separately and together, through changes and a kill of the service.
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { markingExtension } from '../support/extensions.ts'
import { httpProxy, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** Only the proxies of this test can resolve this name, so direct requests fail. */
const SITE = 'site.test'
const NAMES = { [SITE]: '127.0.0.1' }
const LOGIN = { username: 'ann', password: 'secret-of-ann' }
/** The limit for effects of a page, an extension or a download. */
const SEEN_MS = 30_000

let cloud: OwnCloud
let site: Awaited<ReturnType<typeof serveSockets>>
let first: TestProxy
let second: TestProxy
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  site = ended.use(
    await serveSockets(
      createServer(
        ({ url, headers }, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end(`<title>${url}</title>you asked ${headers.host}`),
      ),
    ),
  )
  first = ended.use(await httpProxy({ names: NAMES, login: LOGIN }))
  second = ended.use(await httpProxy({ names: NAMES, login: LOGIN }))
  cloud = await startCloud({ COB_WARM_BROWSERS: '1' })
  await cloud.warm()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await ended.disposeAsync()
})

const made = async ({ port }: TestProxy) => {
  const proxy = await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port, ...LOGIN } })
  return proxy.id!
}
const address = (path: string) => `http://${SITE}:${site.port}${path}`
const wayOf = async (id: string, path: string): Promise<string> => {
  const before = [first.asked.length, second.asked.length] as const
  const { result } = await cloud.client.browsers.playwright.execute(id, {
    code: `return page.goto(${JSON.stringify(address(path))}, { timeout: 10000 }).then(() => page.title(), (error) => 'failed')`,
  })
  const through = [first, second].filter((proxy, at) => proxy.asked.slice(before[at]).some((what) => what.endsWith(path)))
  return `${through.map((proxy) => (proxy === first ? 'first' : 'second')).join()} ${String(result)}`.trim()
}

test('a browser is created with a proxy, changed to another one and to none, without a restart', async () => {
  const [one, two] = [await made(first), await made(second)]
  const session = await cloud.client.browsers.create({ proxy_id: one, timeout_seconds: 300 })
  conforms('BrowserCreateResponse', session)
  const { session_id: id } = session
  expect(session.proxy_id).toBe(one)
  expect(await wayOf(id, '/a')).toBe('first /a')
  const pid = async () =>
    Buffer.from((await cloud.client.browsers.process.exec(id, { command: 'pgrep', args: ['-o', 'chromium'] })).stdout_b64!, 'base64').toString()
  const before = await pid()
  expect((await cloud.client.browsers.update(id, { proxy_id: two })).proxy_id).toBe(two)
  expect(await wayOf(id, '/b')).toBe('second /b')
  const { status, body } = await cloud.client.browsers.curl(id, { url: address('/curl') })
  expect([status, body, second.asked.some((what) => what.endsWith('/curl'))]).toEqual([200, expect.stringContaining('you asked'), true])
  expect((await cloud.client.browsers.update(id, { proxy_id: '' })).proxy_id).toBeUndefined()
  expect(await wayOf(id, '/c')).toBe('failed')
  await cloud.client.browsers.update(id, { proxy_id: one })
  expect(await wayOf(id, '/d')).toBe('first /d')
  expect(await pid()).toBe(before)
  // After a kill, the service finds the proxy in the session's row.
  await cloud.kill()
  await cloud.start()
  await expect.poll(() => wayOf(id, '/e'), { timeout: 30_000 }).toBe('first /e')
  // A deleted proxy continues to serve the sessions that use it.
  await cloud.client.proxies.delete(one)
  expect(await wayOf(id, '/f')).toBe('first /f')
  await cloud.remove(id)
  await cloud.client.proxies.delete(two)
})

test('a profile opens its tabs through the proxy of its new session, and extensions are in them', async () => {
  const [one, two] = [await made(first), await made(second)]
  await cloud.client.profiles.create({ name: 'dressed' })
  await cloud.client.extensions.upload({ file: new File([new Uint8Array(markingExtension('marker'))], 'marker.zip'), name: 'marker' })
  const options = { profile: { name: 'dressed', save_changes: true }, extensions: [{ name: 'marker' }], timeout_seconds: 300 }
  const { session_id: before } = await cloud.client.browsers.create({ ...options, proxy_id: one })
  expect(await wayOf(before, '/set')).toBe('first /set')
  await cloud.client.browsers.playwright.execute(before, {
    code: `await page.evaluate(() => { localStorage.mark = 'kept' }); const other = await context.newPage(); await other.goto(${JSON.stringify(address('/tab'))})`,
  })
  await cloud.remove(before)
  const seen = second.asked.length
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ ...options, proxy_id: two })
  const browser = await chromium.connectOverCDP(cdp_ws_url)
  const pages = () => browser.contexts()[0]!.pages()
  const urls = () =>
    pages()
      .map((page) => page.url())
      .toSorted()
  await expect.poll(urls, { timeout: SEEN_MS }).toEqual([address('/set'), address('/tab')])
  for (const page of pages()) expect(await page.textContent('body')).toContain('you asked')
  expect(second.asked.slice(seen).filter((what) => /\/(set|tab)$/.test(what))).toHaveLength(2)
  const page = await browser.contexts()[0]!.newPage()
  await page.goto(address('/new'))
  // The extension's script runs in the page a moment after the page has loaded.
  await expect.poll(() => page.evaluate('[localStorage.mark, document.documentElement.dataset.marker]'), { timeout: SEEN_MS }).toEqual(['kept', 'marked'])
  // Downloads, and requests of the extension's service worker, use the proxy too.
  await page.evaluate(`Object.assign(document.createElement('a'), { href: '/file', download: 'file' }).click()`)
  await expect.poll(() => second.asked.some((what) => what.endsWith('/file')), { timeout: SEEN_MS }).toBe(true)
  const worker = await until('its worker', SEEN_MS, () => browser.contexts()[0]!.serviceWorkers()[0])
  expect(await worker.evaluate((url) => fetch(url).then(({ status }) => status), address('/by-extension'))).toBe(200)
  expect(second.asked.some((what) => what.endsWith('/by-extension'))).toBe(true)
  await browser.close()
  await cloud.remove(id)
  await cloud.client.profiles.delete('dressed')
  await cloud.client.extensions.delete('marker')
  for (const proxy of [one, two]) await cloud.client.proxies.delete(proxy)
})
