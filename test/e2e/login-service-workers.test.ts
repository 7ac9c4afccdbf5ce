// A service worker that an earlier session left in the profile does not answer for pages of a login: any earlier user of the profile may have installed it.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { endpointOf } from '../support/agents.ts'
import { forTests } from '../support/for-tests.ts'
import { runInside } from '../support/inside.ts'
import { controlIn, loginsOf } from '../support/login-pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** Addresses inside the session. They are two sites, and browsers trust both as they trust HTTPS. */
const PORT = 8124
const [OWN, OTHER] = ['localhost', '127.0.0.1']
const at = (path: string, host = OWN) => `http://${host}:${PORT}${path}`

const SITE = `
const form = (name) => '<!doctype html><title>' + name + '</title><form action=/sent method=post><label>' + name + ' <input name=user></label></form>'
const worker = 'addEventListener("install", () => skipWaiting()); addEventListener("activate", (e) => e.waitUntil(clients.claim()));' +
  'addEventListener("fetch", (e) => { if (e.request.url.endsWith("/login")) e.respondWith(new Response(' + JSON.stringify(form('forged')) +
  ', { headers: { "content-type": "text/html" } })) })'
const pages = {
  '/sw.js': ['text/javascript', worker],
  '/login': ['text/html', form('genuine')],
  '/frame': ['text/html', '<!doctype html><title>frame</title><iframe width=600 height=300 src="http://${OTHER}:${PORT}/login"></iframe>'],
  '/popup': ['text/html', '<!doctype html><title>opener</title><button id=go onclick="open(\\'http://${OTHER}:${PORT}/login\\', \\'\\', \\'width=500,height=400\\')">Sign in</button>'],
}
require('node:http').createServer((request, response) => {
  const [type, text] = pages[request.url] ?? ['text/html', '<!doctype html><title>other</title>']
  response.writeHead(200, { 'content-type': type }).end(text)
}).listen(${PORT}, '127.0.0.1')
`

let id: string
let login: ReturnType<typeof loginsOf>
const cloud = forTests(() => shareCloud({ COB_STANDBY_AFTER_SECONDS: '0' }))
beforeAll(async () => {
  id = (await cloud.client.browsers.create({ timeout_seconds: 300 })).session_id
  await cloud.client.browsers.process.spawn(id, { command: '/opt/node/node', args: ['-e', SITE] })
  await until('the site', 10_000, async () => (await runInside(cloud, id, `exec 3<>/dev/tcp/127.0.0.1/${PORT}`)).code === 0, { everyMs: 20 })
  for (const host of [OWN, OTHER])
    await run(
      `await page.goto('${at('/', host)}'); await page.evaluate(async () => { await navigator.serviceWorker.register('/sw.js'); await navigator.serviceWorker.ready })`,
    )
  login = loginsOf(await endpointOf(cloud, id))
}, 90_000)
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

async function run(code: string): Promise<unknown> {
  const { success, result, error } = await cloud.client.browsers.playwright.execute(id, { code })
  expect([success, error ?? '']).toEqual([true, ''])
  return result
}
const titleNow = (host = OWN) => run(`await page.goto('${at('/login', host)}'); return page.title()`)
const labels = async () => (await login.read()).controls.map(({ label }) => label)

test('the login page, one in a frame and one in a popup come from the site; afterwards the worker answers as before', async () => {
  expect([await titleNow(OTHER), await titleNow()]).toEqual(['forged', 'forged'])
  // The login reloads a page that was open before it started, for example a popup.
  expect(await login.read()).toMatchObject({ title: 'genuine', host: OWN })
  for (const host of [OWN, OTHER] as string[]) {
    expect(await login.open(at('/login', host))).toEqual({ error: null })
    expect(await login.read()).toMatchObject({ title: 'genuine', host })
    expect(await labels()).toEqual(['genuine'])
  }
  await login.open(at('/frame'))
  expect(await labels()).toEqual(['genuine'])
  await login.open(at('/popup'))
  const opener = await login.read()
  expect(await login.act([{ kind: 'click', ref: controlIn(opener, 'go').ref }], [OWN])).toMatchObject({ done: 1 })
  expect(await login.settle()).toMatchObject({ by: 'popup' })
  expect(await login.read()).toMatchObject({ title: 'genuine', host: OTHER })
  await login.end()
  expect(await titleNow()).toBe('forged')
})
