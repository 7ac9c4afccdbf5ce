// A session of which far more could be told than anybody reads: what is lost is told, it answers all the same, and neither its agent nor the service grows.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { agentOf } from '../support/inside.ts'
import { watchMemory } from '../support/memory.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { readTelemetry, watchedSession, type Received } from '../support/telemetry.ts'

/** For a page that floods two busy cores. */
const FLOOD_MS = 60_000
/** The agent's event buffer holds 16 million characters of events; the rest is for readers, and for what is not collected yet. At no moment it has more. */
const GROWTH_MB = 64
/** The service holds what is not stored yet: 2 MiB of a session. The rest is for what is not collected yet. */
const SERVICE_GROWTH_MB = 64
/** Megabytes of an answer, and of a download. */
const BIG = 200
/** Lines that are told of one page in a second. */
const LINES = 200

/** The large answers that were taken to their end. */
const taken: string[] = []

function answer(pathname: string, reply: ServerResponse): void {
  if (pathname === '/empty') return void reply.setHeader('content-type', 'text/html').end('<!doctype html><title>page</title><link rel="icon" href="data:,">')
  if (pathname !== '/big' && pathname !== '/download') return void reply.setHeader('content-type', 'application/json').end('{"user":"kim"}')
  const type = pathname === '/big' ? 'text/plain' : 'application/octet-stream'
  reply.writeHead(200, { 'content-type': type, ...(pathname === '/download' && { 'content-disposition': 'attachment; filename="big.bin"' }) })
  let left = BIG
  reply.once('finish', () => taken.push(pathname))
  const piece = Buffer.alloc(1024 * 1024, 97)
  const write = (): void => {
    while (left-- > 0) if (!reply.write(piece)) return void reply.once('drain', write)
    reply.end()
  }
  write()
}

let cloud: Cloud
let site: string
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  cloud = ended.use(await shareCloud())
  const server = createServer((request, reply) => answer(new URL(request.url!, 'http://site').pathname, reply))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ended.defer(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  site = `http://host.cob.internal:${(server.address() as AddressInfo).port}`
})
afterAll(() => ended.disposeAsync())

const at = (path: string) => site + path
const is = (path: string) => (event: Received) => event.data.url === at(path)

test('10,000 lines a second, 500 requests at once, 200 MB of answers and downloads, and 50 tabs: what is lost is told, the session answers, and memory is bounded', async () => {
  await using made = await watchedSession(cloud, ['network', 'console', 'page', 'interaction'])
  const { session, received } = made
  await session.page.goto(at('/empty'))
  using memory = watchMemory([agentOf(cloud, session.id), cloud.pid()])

  const flood = `{ window.lines = 0; const flood = setInterval(() => { for (let i = 0; i < 100; i++) console.log('line ' + lines++, { lines }) }, 10); setTimeout(() => clearInterval(flood), 3000) }`
  await session.page.evaluate(flood)
  await received.next('monitor_events_lost', ({ data }) => data.reason === 'console')
  const { success } = await cloud.client.browsers.playwright.execute(session.id, { code: 'return await page.title()' })
  expect(success).toBe(true)
  await sleep(3000)
  // An error is told all the same.
  await session.page.evaluate(`console.error('after the flood')`)
  const after = await received.next('console_error', ({ data }) => data.text === 'after the flood')
  const written = await session.page.evaluate<number>('lines')
  const lines = received.of('console_log')
  const losses = received.of('monitor_events_lost').filter(({ data }) => data.reason === 'console')
  const lost = losses.reduce((sum, { data }) => sum + (data.count as number), 0)
  const seconds = Math.ceil((after.ts - lines[0]!.ts) / 1_000_000)
  expect(lines.length).toBeGreaterThanOrEqual(LINES)
  expect(lines.length).toBeLessThanOrEqual(LINES * (seconds + 1))
  // What Chromium has forgotten while it was not listened to is not in the count.
  expect(lines.length + lost).toBeLessThanOrEqual(written)
  expect(lost).toBeGreaterThanOrEqual(Math.min(written - lines.length, LINES))
  expect(losses.every(({ data }) => data.target_id === lines[0]!.data.target_id)).toBe(true)

  await session.page.evaluate(`Promise.all(Array.from({ length: 500 }, (_, i) => fetch('/secret?n=' + i).then((r) => r.json()))).then(() => {})`)
  await until(
    'the answers',
    FLOOD_MS,
    () => received.of('network_response').filter(({ data }) => (data.url as string).startsWith(at('/secret?n='))).length === 500,
    { everyMs: 50 },
  )

  await session.page.evaluate(`fetch('/big').then(async (r) => { for await (const piece of r.body); })`)
  const big = await received.next('network_response', is('/big'))
  expect([big.data.status, big.data.body, big.truncated]).toEqual([200, undefined, true])
  await session.page.evaluate(`{ const a = document.createElement('a'); a.href = '/download'; a.click() }`)
  await received.next('network_request', is('/download'))
  await until(`${2 * BIG} MB`, FLOOD_MS, () => taken.includes('/big') && taken.includes('/download'), { everyMs: 50 })

  const tabs = await Promise.all(Array.from({ length: 50 }, () => session.browser.contexts()[0]!.newPage()))
  await Promise.all(tabs.map((tab, index) => tab.goto(at(`/empty?tab=${index}`), { timeout: FLOOD_MS })))
  await until(
    'the pages',
    FLOOD_MS,
    () =>
      new Set(
        received
          .of('network_response')
          .map(({ data }) => data.url)
          .filter((url) => (url as string).startsWith(at('/empty?tab='))),
      ).size === 50,
    { everyMs: 50 },
  )
  const [agent, service] = memory.growth()
  console.log(
    `${lines.length} lines told and ${lost} lost of ${written}; at most ${Math.round(agent!)} MB more in the agent, ${Math.round(service!)} MB in the service`,
  )
  expect(agent).toBeLessThan(GROWTH_MB)
  expect(service).toBeLessThan(SERVICE_GROWTH_MB)
  await using later = await readTelemetry(cloud, session.id)
  await later.next('network_request')
}, 300_000)
