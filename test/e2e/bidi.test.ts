// WebDriver BiDi with Selenium's own client, and what ends when the mapper fails.
import { chromium } from 'playwright-core'
import BIDI from 'selenium-webdriver/bidi/index.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cloud } from '../support/cloud.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { shareCloud } from '../support/shelf.ts'

let cloud: Cloud
let pages: Pages
beforeAll(async () => {
  pages = await servePages()
  cloud = await shareCloud()
  await cloud.warm()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await pages[Symbol.asyncDispose]()
})

test('a BiDi client that navigates back and forward on a page with a frame gets its answers, and CDP clients, programs and files stay', async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const browser = await chromium.connectOverCDP(made.cdp_ws_url)
  const { process_id } = await cloud.client.browsers.process.spawn(made.session_id, { command: 'sleep', args: ['300'] })
  const bidi = new BIDI(made.webdriver_ws_url)
  await bidi.waitForConnection()
  const ask = async (method: string, params: object) => (await bidi.send({ method, params })) as { type: string; message?: string }
  const { result: started } = await bidi.send({ method: 'session.new', params: { capabilities: { alwaysMatch: { acceptInsecureCerts: true } } } })
  expect(started).toMatchObject({
    sessionId: expect.stringMatching(/^[\da-f-]{36}$/),
    capabilities: { acceptInsecureCerts: true, browserName: 'chrome', browserVersion: browser.version(), platformName: 'linux' },
  })
  await ask('session.subscribe', { events: ['browsingContext', 'network', 'log', 'script'] })
  const { result: tree } = await bidi.send({ method: 'browsingContext.getTree', params: {} })
  const { context } = tree.contexts[0]
  for (let round = 0; round < 6; round++) {
    const answers = [
      await ask('browsingContext.navigate', { context, url: pages.url('framed.html'), wait: 'complete' }),
      await ask('browsingContext.traverseHistory', { context, delta: -1 }),
      await ask('browsingContext.traverseHistory', { context, delta: 1 }),
      await ask('browsingContext.navigate', { context, url: pages.url('plain'), wait: 'complete' }),
    ]
    expect([round, answers.map(({ type, message }) => message ?? type)]).toEqual([round, ['success', 'success', 'success', 'success']])
  }
  // Playwright gets the event a moment later.
  await expect.poll(() => browser.contexts()[0]!.pages()[0]!.url()).toBe(pages.url('plain'))
  expect(await cloud.client.browsers.process.status(process_id!, { id: made.session_id })).toMatchObject({ state: 'running' })
  bidi.close()
  await browser.close()
  await cloud.client.browsers.deleteByID(made.session_id)
})
