// WebDriver BiDi with Selenium's own client, and what happens when the BiDi mapper fails.
import { chromium } from 'playwright-core'
import puppeteer from 'puppeteer-core'
import BIDI from 'selenium-webdriver/bidi/index.js'
import { beforeAll, expect, test } from 'vitest'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  await cloud.warm()
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

/** A BiDi client of a new session, which is deleted afterwards. */
async function connected(options: object = {}) {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300, ...options })
  const bidi = new BIDI(made.webdriver_ws_url)
  await bidi.waitForConnection()
  return {
    made,
    ask: async (method: string, params: unknown = {}) => await bidi.send({ method, params: params as object }),
    async [Symbol.asyncDispose]() {
      bidi.close()
      await cloud.client.browsers.deleteByID(made.session_id)
    },
  }
}

test('Selenium gets an answer at once for a command that it has sent in a wrong form, and for one before session.new', async () => {
  await using client = await connected()
  expect(await client.ask('browsingContext.getTree')).toMatchObject({ type: 'error', error: 'invalid session id' })
  expect(await client.ask('session.status')).toMatchObject({ type: 'success', result: { ready: true } })
  await client.ask('session.new', { capabilities: {} })
  expect(await client.ask('browsingContext.print', true)).toMatchObject({
    type: 'error',
    error: 'invalid argument',
    message: 'params must be an object; it is true',
  })
  const { result: tree } = await client.ask('browsingContext.getTree')
  expect(tree.contexts).toHaveLength(1)
})

test('a client sees one realm for each page: the worlds in which the agent looks at pages are not shown', async () => {
  await using client = await connected({ telemetry: { enabled: true } })
  await client.ask('session.new', { capabilities: {} })
  const { result: tree } = await client.ask('browsingContext.getTree')
  const { context } = tree.contexts[0]
  // Chromium reports the realm of an existing page a moment later, and the mapper then lists it. A script waits for the realm.
  await client.ask('script.evaluate', { expression: '1', awaitPromise: false, target: { context } })
  const realms = async () => (await client.ask('script.getRealms')).result.realms.map(({ realm: _, ...rest }: { realm: string }) => rest)
  expect(await realms()).toEqual([{ origin: 'null', type: 'window', context }])
  await client.ask('browsingContext.navigate', { context, url: pages.url('plain'), wait: 'complete' })
  expect(await realms()).toEqual([{ origin: new URL(pages.url('plain')).origin, type: 'window', context }])
  // The list includes a sandbox realm that a client made.
  await client.ask('script.evaluate', { expression: '1', awaitPromise: false, target: { context, sandbox: 'mine' } })
  expect(await realms()).toContainEqual({ origin: new URL(pages.url('plain')).origin, type: 'window', context, sandbox: 'mine' })
})

test('a new tab or window has the focus, unless it is made in the background', async () => {
  await using client = await connected()
  await client.ask('session.new', { capabilities: {} })
  const focused = async (context: string) =>
    (await client.ask('script.evaluate', { expression: 'document.hasFocus()', awaitPromise: false, target: { context } })).result.result.value
  for (const type of ['window', 'tab', 'window']) {
    const { result } = await client.ask('browsingContext.create', { type })
    expect([type, await focused(result.context)]).toEqual([type, true])
    const { result: hidden } = await client.ask('browsingContext.create', { type: 'tab', background: true })
    expect([type, await focused(hidden.context), await focused(result.context)]).toEqual([type, false, true])
  }
})

test('Puppeteer connects by BiDi and opens pages', async () => {
  await using client = await connected()
  const browser = await puppeteer.connect({ browserWSEndpoint: client.made.webdriver_ws_url, protocol: 'webDriverBiDi', defaultViewport: null })
  const page = await browser.newPage()
  await page.goto(pages.url('plain'))
  expect([page.url(), await page.evaluate('document.hasFocus()')]).toEqual([pages.url('plain'), true])
  await browser.disconnect()
})
