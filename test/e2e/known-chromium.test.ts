// Published clients expect Chromium to behave as when they start it themselves. It does, in ordinary sessions and with stealth. test/launches.test.ts tests the flags.
import { createServer, type RequestListener } from 'node:http'
import puppeteer from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())

/** The result of code that runs in the session. @throws what the code threw */
async function execute(session: Session, code: string): Promise<unknown> {
  const done = await cloud.client.browsers.playwright.execute(session.id, { code, timeout_sec: 20 })
  if (!done.success) throw new Error(done.error)
  return done.result
}

/** A server on this machine's loopback, and its address for sessions. */
async function serve(answer: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = await serveSockets(createServer(answer))
  return { ...server, url: `http://host.cob.internal:${server.port}/` }
}

describe.each([
  ['a session', {}],
  ['a session with stealth', { stealth: true }],
])('%s', (_name, options) => {
  let session: Session
  beforeAll(async () => void (session = await openSession(cloud, options)))
  afterAll(() => session[Symbol.asyncDispose]())

  test('goes back and forward for Playwright, also in a context of its own and in execute, and for Puppeteer by CDP and by BiDi', async () => {
    const own = await session.browser.newContext()
    for (const page of [session.page, await own.newPage()]) {
      await page.goto(pages.url('one'))
      await page.goto(pages.url('two'))
      await page.goBack()
      expect(await page.title()).toBe('one')
      await page.goForward()
      expect(await page.title()).toBe('two')
    }
    await own.close()
    expect(await execute(session, 'await page.goBack(); return page.title()')).toBe('one')
    const { cdp_ws_url, webdriver_ws_url } = session.made
    for (const how of [{ browserWSEndpoint: cdp_ws_url }, { browserWSEndpoint: webdriver_ws_url, protocol: 'webDriverBiDi' as const }]) {
      const browser = await puppeteer.connect({ ...how, defaultViewport: null })
      const page = (await browser.pages())[0]!
      await page.goForward()
      expect(await page.title()).toBe('two')
      await page.goBack()
      expect(await page.title()).toBe('one')
      await browser.disconnect()
    }
  })

  test('opens a page that it was asked to prerender, and clients go on in that tab', async () => {
    const { fs, process, computer } = cloud.client.browsers
    const site = `require('http').createServer((request, response) => {
      response.setHeader('content-type', 'text/html')
      response.end(request.url === '/next' ? '<title>next</title>next' : '<title>first</title><script type=speculationrules>{"prerender":[{"urls":["/next"],"eagerness":"immediate"}]}</script><a href=/next style="position:fixed;inset:0">next</a>')
    }).listen(8123, '127.0.0.1', () => console.log('listening'))`
    await fs.writeFile(session.id, site, { path: '/tmp/site.cjs' })
    const { process_id } = await process.spawn(session.id, { command: 'node', args: ['/tmp/site.cjs'] })
    await until('the site', 10_000, async () => (await process.exec(session.id, { command: 'curl', args: ['-s', 'http://localhost:8123/'] })).exit_code === 0)
    // Open the page by mouse and keyboard: Chromium prerenders nothing for a page that has a client attached.
    await session.browser.close()
    await computer.batch(session.id, {
      actions: [
        { type: 'press_key', press_key: { keys: ['ctrl+l'] } },
        { type: 'type_text', type_text: { text: 'http://localhost:8123/\n' } },
        { type: 'sleep', sleep: { duration_ms: 2_000 } },
        { type: 'click_mouse', click_mouse: { x: 400, y: 500 } },
        { type: 'sleep', sleep: { duration_ms: 500 } },
      ],
    })
    expect(await execute(session, 'return [page.url(), await page.title(), await page.evaluate(() => document.body.textContent)]')).toEqual([
      'http://localhost:8123/next',
      'next',
      'next',
    ])
    await process.kill(process_id!, { id: session.id, signal: 'KILL' })
  })
})

describe('a session', () => {
  let session: Session
  beforeAll(async () => void (session = await openSession(cloud)))
  afterAll(() => session[Symbol.asyncDispose]())

  test('takes screenshots of tabs in the background, with 40 of them open', async () => {
    const context = session.browser.contexts()[0]!
    const tabs = []
    for (let index = 0; index < 40; index++) {
      const tab = await context.newPage()
      await tab.setContent(`<h1>${index}</h1>`)
      tabs.push(tab)
    }
    for (let index = 0; index < 40; index += 8) expect((await tabs[index]!.screenshot()).length).toBeGreaterThan(1_000)
    await Promise.all(tabs.map((tab) => tab.close()))
  })

  test('leaves an error page as it is', async () => {
    let requests = 0
    await using site = await serve((_request, response) => {
      requests++
      response.destroy()
    })
    await expect(session.page.goto(site.url)).rejects.toThrow('ERR_EMPTY_RESPONSE')
    const before = requests
    // By default, Chromium reloads an error page after one second, then after six.
    await sleep(2_000)
    expect(requests).toBe(before)
  })

  test('sends a form again when a client reloads what it has answered, without a question', async () => {
    const methods: string[] = []
    await using site = await serve((request, response) => {
      methods.push(request.method!)
      response.setHeader('content-type', 'text/html').end('<form method=post><button>send</button></form>')
    })
    await session.page.goto(site.url)
    await session.page.click('button')
    await session.page.reload()
    await session.page.evaluate('location.reload()')
    await until('the reload by the page', 10_000, () => methods.filter((method) => method === 'POST').length === 3)
  })
})
