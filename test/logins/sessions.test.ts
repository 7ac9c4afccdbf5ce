// The login applications as sessions of a service see them: by their names under .test, through the proxy that knows them.
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cloud } from '../support/cloud.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { startOwnPages } from './apps/own-pages.ts'
import { TESTED } from './list.ts'
import { startLoginNet, type LoginNet } from './net.ts'

let cloud: Cloud
let net: LoginNet
let page: Page
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  cloud = ended.use(await shareCloud())
  net = ended.use(await startLoginNet([]))
  const proxy = await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: 'host.cob.internal', port: net.port } })
  ended.defer(() => cloud.client.proxies.delete(proxy.id!))
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ timeout_seconds: 900, proxy_id: proxy.id! })
  ended.defer(() => cloud.remove(id))
  const browser: Browser = await chromium.connectOverCDP(cdp_ws_url)
  ended.defer(() => browser.close())
  page = browser.contexts()[0]!.pages()[0]!
})
afterAll(() => ended.disposeAsync())

test.each(TESTED)('a session opens the home page of $name by its name', async ({ start }) => {
  await using app = await start()
  net.add(app)
  const answer = await page.goto(app.homeUrl)
  expect(answer!.status()).toBeLessThan(404)
  expect(app.hosts).toContain(new URL(page.url()).hostname)
  await expect.poll(() => page.locator('body').innerText()).toMatch(/\w/)
  expect(app.requests().map(({ host }) => host)).toContain(app.hosts[0])
  await page.goto('about:blank')
})

test('a session opens a page made by hand with a frame of another host', async () => {
  await using pages = await startOwnPages()
  net.add(pages)
  await page.goto(pages.page('frame-elsewhere').loginUrl!)
  await page.frameLocator('iframe').getByLabel('Password').waitFor()
  await page.goto('about:blank')
})

test('names of no application are not reached', async () => {
  expect((await page.goto('http://nobody.test/'))!.status()).toBe(502)
  expect(net.unknown()).toContain('nobody.test')
})
