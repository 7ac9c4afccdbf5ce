// A session that produces far more events than anybody reads: it reports the lost events, still answers, and neither its agent nor the service grows without limit.
import { createServer, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf } from '../support/inside.ts'
import { watchMemory } from '../support/memory.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { readTelemetry, watchedSession, type Received } from '../support/telemetry.ts'
import { serveSockets } from '../support/upstreams.ts'

/** The limit for a page that loads two cores. */
const FLOOD_MS = 60_000
/** The agent's memory growth at any moment. Its event buffer holds 16 million characters; the rest is for readers and for garbage. */
const GROWTH_MB = 64
/** The service's memory growth. It holds at most 2 MiB of unstored events per session; the rest is for garbage. */
const SERVICE_GROWTH_MB = 64
/** The size of an answer and of a download, in megabytes. */
const BIG = 200
/** The console events per second that are reported of one page. */
const LINES = 200

/** The large answers that the browser read to the end. */
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

let site: string
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  const server = createServer((request, reply) => answer(new URL(request.url!, 'http://site').pathname, reply))
  const { port } = ended.use(await serveSockets(server))
  site = `http://host.cob.internal:${port}`
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
  // An error is still reported.
  await session.page.evaluate(`console.error('after the flood')`)
  const after = await received.next('console_error', ({ data }) => data.text === 'after the flood')
  const written = await session.page.evaluate<number>('lines')
  const lines = received.of('console_log')
  const losses = received.of('monitor_events_lost').filter(({ data }) => data.reason === 'console')
  const lost = losses.reduce((sum, { data }) => sum + (data.count as number), 0)
  const seconds = Math.ceil((after.ts - lines[0]!.ts) / 1_000_000)
  expect(lines.length).toBeGreaterThanOrEqual(LINES)
  expect(lines.length).toBeLessThanOrEqual(LINES * (seconds + 1))
  // Chromium may have dropped messages while no domain was enabled; the count does not include them.
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
