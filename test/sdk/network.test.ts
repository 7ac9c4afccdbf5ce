// The published SDK and a real Chromium: sessions that may reach only certain hosts, and that reach some hosts through other proxies.
import { ConflictError } from '@onkernel/sdk'
import { createServer } from 'node:http'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { tryToLoad } from '../support/pages.ts'
import { httpProxy, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** Only the proxies of this test can resolve these names. */
const NAMES = { 'one.test': '127.0.0.1', 'two.test': '127.0.0.1', 'x.two.test': '127.0.0.1' }
/** The name of the service's machine inside a session. */
const HOST = 'host.cob.internal'

let cloud: OwnCloud
let port: number
let sockets: WebSocketServer
let main: TestProxy
let other: TestProxy
let proxies: { main: string; other: string }
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const server = createServer(({ url }, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end(`<title>${url}</title>`))
  sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => socket.on('error', () => {}).on('message', (data) => socket.send(data as Buffer)))
  port = ended.use(await serveSockets(server)).port
  main = ended.use(await httpProxy({ names: NAMES }))
  other = ended.use(await httpProxy({ names: NAMES }))
  cloud = await startCloud({ COB_WARM_BROWSERS: '1' })
  const made = async (name: string, { port: at }: TestProxy) =>
    (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', name, config: { host: '127.0.0.1', port: at } })).id!
  proxies = { main: await made('main', main), other: await made('other', other) }
  await cloud.warm()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await ended.disposeAsync()
})

interface Network {
  allowed_hosts?: string[]
  private_hosts?: string[]
  proxy_routes?: { hosts: string[]; proxy: { id: string } }[]
  allowlist_state?: { revision: string; mutation_id?: string }
}
// Only the newest SDK has the option `network`. This SDK passes unknown options on.
const create = async (options: object) => (await cloud.client.browsers.create({ timeout_seconds: 300, ...options } as never)) as unknown as Session
const update = async (id: string, network: object) => (await cloud.client.browsers.update(id, { network } as never)) as unknown as Session
interface Session {
  session_id: string
  cdp_ws_url: string
  network?: Network
}

/** Opens the session's page, runs `work` with it, and deletes the session. */
async function inPage(session: Session, work: (load: (host: string, path: string) => Promise<string>, page: Page) => Promise<void>) {
  await using opened = new AsyncDisposableStack()
  const browser = opened.adopt(await chromium.connectOverCDP(session.cdp_ws_url), (one) => one.close())
  // Delete the session before the client closes, because a client waits for a browser that does not answer.
  opened.defer(() => cloud.client.browsers.deleteByID(session.session_id))
  const page = browser.contexts()[0]!.pages()[0]!
  const load = async (host: string, path: string) => {
    const loaded = await tryToLoad(page, `http://${host}:${port}${path}`).catch(() => undefined)
    return loaded ? `${loaded.answer.status()} ${loaded.answer.headers()['x-kernel-proxy-error'] ?? loaded.title}` : 'failed'
  }
  await work(load, page)
}

test('a session reaches its allowed hosts and no others; a change takes effect at once, and what is still allowed stays open', async () => {
  const session = await create({ network: { allowed_hosts: [HOST, 'one.test'] }, start_url: `http://${HOST}:${port}/start` })
  expect(session.network).toEqual({ allowed_hosts: [HOST, 'one.test'], allowlist_state: { revision: expect.any(String) } })
  await inPage(session, async (load, page) => {
    expect(await load(HOST, '/first')).toBe('200 /first')
    expect(await load('two.test', '/x')).toBe('403 network_policy_denied')
    expect(await load('127.0.0.2', '/x')).not.toMatch(/^200/)
    const open = (host: string) =>
      page.evaluate(
        (url) =>
          new Promise<string>((resolve) => {
            const socket = new WebSocket(url)
            Object.assign(globalThis, { socket })
            socket.onopen = () => resolve('open')
            socket.onerror = () => resolve('failed')
          }),
        `ws://${host}:${port}/`,
      )
    await page.goto(`http://${HOST}:${port}/sockets`)
    expect(await open('two.test')).toBe('failed')
    expect(await open(HOST)).toBe('open')
    const state = () => page.evaluate(() => (globalThis as unknown as { socket: WebSocket }).socket.readyState)
    const { revision } = session.network!.allowlist_state!
    const change = { allowed_hosts: [HOST], expected_allowlist_revision: revision, mutation_id: 'one' }
    const changed = await update(session.session_id, change)
    expect(changed.network).toMatchObject({ allowed_hosts: [HOST], allowlist_state: { mutation_id: 'one', base_revision: revision } })
    expect(await update(session.session_id, change)).toMatchObject({ network: changed.network })
    await expect(update(session.session_id, { ...change, mutation_id: 'two' })).rejects.toBeInstanceOf(ConflictError)
    await expect(update(session.session_id, { ...change, mutation_id: 'two' })).rejects.toMatchObject({ error: { code: 'stale_network' } })
    expect(await state()).toBe(1)
    await update(session.session_id, { allowed_hosts: ['one.test'] })
    await expect.poll(state).toBe(3)
    expect(await load(HOST, '/closed')).toBe('403 network_policy_denied')
    const free = await update(session.session_id, { allowed_hosts: null })
    expect(free.network).toEqual({ allowlist_state: { revision: expect.any(String) } })
    expect(await load(HOST, '/free')).toBe('200 /free')
    await expect(update(session.session_id, { allowed_hosts: [HOST] })).rejects.toMatchObject({ status: 400 })
  })
})

test('routes send certain hosts through proxies of their own, whatever the proxy of the rest is changed to', async () => {
  const routes = [{ hosts: ['two.test'], proxy: { name: 'other' } }]
  const session = await create({ proxy_id: proxies.main, network: { proxy_routes: routes } })
  expect(session.network).toEqual({ proxy_routes: [{ hosts: ['two.test'], proxy: { id: proxies.other } }] })
  await inPage(session, async (load) => {
    /** How many requests of the page came through each proxy. */
    const way = async (host: string, path: string) => {
      await load(host, path)
      return [main, other].map(({ asked }) => asked.filter((what) => what.endsWith(`${host}:${port}${path}`)).length)
    }
    expect(await way('one.test', '/1')).toEqual([1, 0])
    expect(await way('two.test', '/2')).toEqual([0, 1])
    expect(await way('x.two.test', '/3')).toEqual([1, 0])
    await cloud.client.browsers.update(session.session_id, { proxy_id: '' })
    expect(await way('two.test', '/4')).toEqual([0, 1])
    expect(await load(HOST, '/direct')).toBe('200 /direct')
    expect(await load('one.test', '/unknown')).toBe('502 unreachable')
  })
})

test('private hosts are reached by the session itself, without a proxy and without the list', async () => {
  const session = await create({ proxy_id: proxies.main, network: { allowed_hosts: ['one.test'], private_hosts: [`${HOST}:${port}`] } })
  await inPage(session, async (load) => {
    expect(await load(HOST, '/private')).toBe('200 /private')
    expect(await load('one.test', '/proxied')).toBe('200 /proxied')
    expect(main.asked.filter((what) => what.includes('/private'))).toEqual([])
    expect(main.asked.some((what) => what.includes('/proxied'))).toBe(true)
  })
})

test('after a kill of the service the rules hold as before', async () => {
  const session = await create({ network: { allowed_hosts: [HOST] } })
  await cloud.kill()
  await cloud.start()
  const again = (await cloud.client.browsers.retrieve(session.session_id)) as unknown as Session
  expect(again.network).toEqual(session.network)
  await inPage(again, async (load) => {
    await expect.poll(() => load(HOST, '/again'), { timeout: 10_000 }).toBe('200 /again')
    expect(await load('one.test', '/x')).toBe('403 network_policy_denied')
  })
})

describe('a list takes effect whatever the browser, its clients and programs do', () => {
  const obstacles: Record<string, (session: Session, browser: Browser, page: Page) => Promise<unknown>> = {
    'contexts with proxies of their own': async (_session, browser) => {
      const cdp = await browser.newBrowserCDPSession()
      for (let left = 8; left > 0; left--) {
        const { browserContextId } = await cdp.send('Target.createBrowserContext', { proxyServer: 'http://127.0.0.1:9' })
        await cdp.send('Target.createTarget', { url: 'about:blank', browserContextId })
      }
    },
    'an open dialog': async (_session, _browser, page) => {
      page.on('dialog', () => {})
      await page.evaluate('void setTimeout(() => alert(1))')
      await page.waitForEvent('dialog')
    },
    'a page that a client has paused': async (_session, browser, page) => {
      const cdp = await browser.contexts()[0]!.newCDPSession(page)
      await cdp.send('Debugger.enable')
      const paused = new Promise<void>((resolve) => void cdp.once('Debugger.paused', () => resolve()))
      await cdp.send('Debugger.pause')
      void page.evaluate('1').catch(() => {})
      await paused
    },
    'a page that hangs': async (_session, _browser, page) => page.evaluate('void setTimeout(() => { for (;;); })'),
    'no page': async (_session, browser) =>
      Promise.all(
        browser
          .contexts()[0]!
          .pages()
          .map((one) => one.close()),
      ),
    'a Chromium that a program has stopped, which another change waits for': async ({ session_id: id }) => {
      await cloud.client.browsers.process.exec(id, { command: 'pkill', args: ['-STOP', 'chrom'] })
      void cloud.client.browsers.update(id, { viewport: { width: 1000, height: 800 } }).catch(() => {})
    },
  }
  test.each(Object.entries(obstacles))('%s', async (_name, obstruct) => {
    const session = await create({ network: { allowed_hosts: [HOST, 'one.test'] } })
    await inPage(session, async (_load, page) => {
      await page.goto(`http://${HOST}:${port}/sockets`)
      await page.evaluate(`globalThis.socket = new WebSocket('ws://${HOST}:${port}/')`)
      await expect.poll(() => sockets.clients.size).toBe(1)
      await obstruct(session, page.context().browser()!, page)
      const changed = await update(session.session_id, { allowed_hosts: ['one.test'] })
      expect(changed.network!.allowed_hosts).toEqual(['one.test'])
      await expect.poll(() => sockets.clients.size).toBe(0)
    })
  })
})
