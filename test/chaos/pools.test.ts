// Kills a service whose pool has browsers in every state, and acquires and releases one browser many times.
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf, openFilesOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { httpProxy, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** Only the proxy can resolve this name, so direct requests fail. */
const SITE = 'site.test'
const POOL = 'victim'
const LENT = 'lent'
/** The limit for the pool to fill after a start of the service, on a busy machine. */
const FILL_MS = 60_000
const SEEN_MS = 30_000
const LENDS = amount(50, 1_000)
/** Acquires before the first measurement: they open connections and compile code. */
const FIRST_LENDS = 20
/** The memory that garbage may use before it is collected, in MB. */
const GARBAGE_MB = 48
/** File descriptors that may differ, because connections to the database and to the agent open and close. */
const SPARE_FILES = 12

let cloud: OwnCloud
let site: Awaited<ReturnType<typeof serveSockets>>
let proxy: TestProxy
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  site = ended.use(
    await serveSockets(createServer(({ url }, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end(`<title>${url}</title>`))),
  )
  proxy = ended.use(await httpProxy({ names: { [SITE]: '127.0.0.1' } }))
  cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await ended.disposeAsync()
})

const pools = () => cloud.client.browserPools
const acquire = (pool = POOL) => pools().acquire(pool, { acquire_timeout_seconds: 50 })
const counts = (acquired: number, available: number, pool = POOL) =>
  expect
    .poll(
      async () => {
        const { acquired_count, available_count } = await pools().retrieve(pool)
        return [acquired_count, available_count]
      },
      { timeout: FILL_MS, interval: 100 },
    )
    .toEqual([acquired, available])

/** Loads a page of the site through the proxy, and returns the mark that the previous page left. A service that has just started restores the proxy within seconds. */
async function visit(cdpUrl: string, path: string): Promise<unknown> {
  const browser = await chromium.connectOverCDP(cdpUrl)
  try {
    const page = browser.contexts()[0]!.pages()[0]!
    const mark = await page.evaluate('window.mark ?? null')
    const isThrough = async () => {
      await page.goto(`http://${SITE}:${site.port}${path}`).catch(() => {})
      return proxy.asked.some((what) => what.endsWith(path))
    }
    await until('a page through the proxy', SEEN_MS, isThrough, { everyMs: 500 })
    await page.evaluate(`window.mark = ${JSON.stringify(path)}`)
    return mark
  } finally {
    await browser.close()
  }
}

test('leased browsers go on by the same URLs, idle ones stay idle, and the pool is filled again', { timeout: 240_000 }, async () => {
  const { id } = await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port: proxy.port } })
  await pools().create({ name: POOL, size: 2, fill_rate_per_minute: 6000, timeout_seconds: 600, proxy_id: id! })
  await counts(0, 2)
  const first = await acquire()
  expect(await visit(first.cdp_ws_url, '/first')).toBeNull()
  await pools().update(POOL, { size: 3 })
  const [{ id: idle }] = (await cloud.query<{ id: string }>(`select id from browsers where state = 'warm'`)) as [{ id: string }]
  await until('a boot', FILL_MS, async () => (await cloud.query(`select 1 from browsers where state = 'starting'`)).length === 1, { everyMs: 5 })
  await cloud.kill()
  await cloud.start()
  expect((await pools().retrieve(POOL)).acquired_count).toBe(1)
  expect(await visit(first.cdp_ws_url, '/again')).toBe('/first')
  await counts(1, 2)
  const second = await acquire()
  expect(second.session_id).toBe(idle)
  expect(await visit(second.cdp_ws_url, '/idle')).toBeNull()
  const third = await acquire()

  // All browsers are acquired. Two more callers wait; the kill ends their calls.
  const waiting = Promise.allSettled([acquire(), acquire()])
  const waits = async () => /^cob_warm_pool_waiting 2$/m.test(await (await cloud.fetch('/metrics')).text())
  await until('the callers to wait', FILL_MS, waits, { everyMs: 20 })
  const released = pools()
    .release(POOL, { session_id: third.session_id })
    .catch(() => {})
  await cloud.kill()
  await Promise.all([released, waiting])
  await cloud.start()
  const lent = (await pools().retrieve(POOL)).acquired_count
  // If the kill came first, the third browser is still acquired. Otherwise a waiting caller may have acquired it, and the kill lost the answer.
  expect([2, 3]).toContain(lent)
  expect(await visit(first.cdp_ws_url, '/last')).toBe('/again')
  expect((await cloud.client.browsers.retrieve(first.session_id)).session_id).toBe(first.session_id)
  const rows = await cloud.query<{ id: string }>(`select id from browsers where state = 'running'`)
  for (const { id: session } of rows) await pools().release(POOL, { session_id: session })
  await counts(0, 3)
  const last = await Promise.all([acquire(), acquire(), acquire()])
  expect(new Set(last.map(({ session_id }) => session_id)).size).toBe(3)
  for (const [at, { cdp_ws_url }] of last.entries()) await visit(cdp_ws_url, `/end${at}`)
  await pools().delete(POOL, { force: true })
  await cloud.client.proxies.delete(id!)
})

/** The memory in MB and the number of open files, of the service and of the browser's agent. */
function holds(id: string): { service: number[]; agent: number[] } {
  const memory = (pid: number) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024
  return {
    service: [memory(cloud.pid()), readdirSync(`/proc/${cloud.pid()}/fd`).length],
    agent: [memory(agentOf(cloud, id)), openFilesOf(cloud, id)?.length ?? 0],
  }
}

test(`after ${LENDS} acquires and releases of one browser, service and agent have no more files and memory than before`, { timeout: 600_000 }, async () => {
  await pools().create({ name: LENT, size: 1, timeout_seconds: 600 })
  await counts(0, 1, LENT)
  let id = ''
  const lend = async (): Promise<void> => {
    const made = await acquire(LENT)
    if (id !== '') expect(made.session_id).toBe(id)
    id = made.session_id
    const socket = new WebSocket(made.cdp_ws_url)
    await new Promise((resolve) => socket.addEventListener('open', resolve))
    const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener('close', resolve))
    await cloud.client.browsers.computer.moveMouse(id, { x: 10, y: 10 })
    await pools().release(LENT, { session_id: id })
    expect((await closed).code).toBe(4001)
  }
  for (let i = 0; i < FIRST_LENDS; i++) await lend()
  const before = holds(id)
  for (let i = 0; i < LENDS; i++) await lend()
  const after = holds(id)
  for (const who of ['service', 'agent'] as const) {
    const [[memory = 0, files = 0], [memoryBefore = 0, filesBefore = 0]] = [after[who], before[who]]
    expect([who, memory - memoryBefore < GARBAGE_MB, files - filesBefore <= SPARE_FILES], JSON.stringify({ before, after })).toEqual([who, true, true])
  }
  expect(await cloud.query(`select 1 from browsers where pool_id is not null and state <> 'deleted' and lease <> $1`, [FIRST_LENDS + LENDS])).toEqual([])
  await pools().delete(LENT)
})
