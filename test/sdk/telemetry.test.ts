// Telemetry as the published SDKs read it: a session's life over real pages, live from `base_url` and afterwards from the archive.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type Kernel from '@onkernel/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { assertEvent } from '../support/telemetry-schemas.ts'

type Envelope = Kernel.Browsers.TelemetryStreamResponse
type Stream = Awaited<ReturnType<Kernel['browsers']['telemetry']['stream']>>

/** From an event until the archive has it: half a second, and the rest is for a busy machine. */
const STORED_MS = 15_000

const SHOP = `<!doctype html><title>shop</title><link rel="icon" href="data:,"><button id="buy" style="position:fixed;inset:0">Buy</button>
<script>
  console.log('the shop opens', { items: 3 })
  buy.onclick = async () => console.error(await (await fetch('/order', { method: 'POST', body: JSON.stringify({ item: 7 }), headers: { 'content-type': 'application/json' } })).text())
</script>`

let cloud: Cloud
let server: Server
let page: string
beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/order') return void response.setHeader('content-type', 'application/json').end('{"order":"taken"}')
    response.setHeader('content-type', 'text/html').end(SHOP)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  page = `http://host.cob.internal:${(server.address() as AddressInfo).port}/shop`
  cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await cloud[Symbol.asyncDispose]()
})

const on = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: true }]))
const EVERYTHING = { enabled: true, browser: on('console', 'network', 'page', 'interaction', 'screenshot', 'platform') }

/** Reads a stream in the background. */
function follow(stream: Stream) {
  const seen: Envelope[] = []
  let ended = false
  const done = (async () => {
    for await (const one of stream) seen.push(one)
    ended = true
  })()
  const types = () => seen.map(({ event }) => event.type as string)
  return { seen, types, done, hasEnded: () => ended, has: (type: string) => until(type, 20_000, () => types().includes(type)) }
}

const archived = async (id: string, query: Kernel.Browsers.TelemetryEventsParams = {}): Promise<Envelope[]> => {
  const all: Envelope[] = []
  for await (const one of cloud.client.browsers.telemetry.events(id, query)) all.push(one)
  return all
}

describe('a session with everything captured', () => {
  test('is told live by the stream of the SDK, straight from base_url, until it ends; the archive has the same, also afterwards', async () => {
    const { browsers } = cloud.client
    const made = await browsers.create({ telemetry: EVERYTHING, headless: true, timeout_seconds: 600 })
    conforms('BrowserCreateResponse', made)
    const id = made.session_id
    const live = follow(await browsers.telemetry.stream(id, { replay: 'all' }))

    const went = await browsers.playwright.execute(id, { code: `await page.goto(${JSON.stringify(page)})` })
    expect(went.success).toBe(true)
    await live.has('page_load')
    await browsers.computer.clickMouse(id, { x: 300, y: 300 })
    for (const type of [
      'interaction_click',
      'network_request',
      'network_response',
      'console_log',
      'console_error',
      'page_navigation',
      'api_call',
      'monitor_screenshot',
    ])
      await live.has(type)
    await browsers.telemetry.events(id)

    for (const one of live.seen) assertEvent(one)
    const order = live.seen.find(({ event }) => event.type === 'network_response' && String((event.data as { url?: string }).url).endsWith('/order'))
    expect(JSON.stringify(order)).toContain('taken')
    expect(JSON.stringify(live.seen.find(({ event }) => event.type === 'console_log'))).toContain('the shop opens')
    expect(live.seen.map(({ seq }) => seq)).toEqual(Array.from({ length: live.seen.length }, (_, at) => live.seen[0]!.seq + at))
    const times = live.seen.map(({ event }) => event.ts)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(Math.abs(times.at(-1)! / 1000 - Date.now())).toBeLessThan(600_000)

    const last = live.seen.at(-1)!.seq
    await until('the archive has the same', STORED_MS, async () => (await archived(id, { limit: 100 })).some(({ seq }) => seq === last))
    const kept = await archived(id, { limit: 7 })
    expect(kept.filter(({ seq }) => seq <= last)).toEqual(live.seen.filter(({ seq }) => seq <= last))

    await browsers.deleteByID(id)
    await until('the end of the stream', 20_000, live.hasEnded)
    await live.done
    const after = await archived(id, { limit: 100 })
    expect(after.slice(0, kept.length)).toEqual(kept)
    expect(after.map(({ seq }) => seq)).toEqual(expect.arrayContaining(live.seen.map(({ seq }) => seq)))
  })

  test('is read in pages in both directions, by category and by type, and refuses what makes no sense', async () => {
    const { browsers } = cloud.client
    const { session_id: id } = await browsers.create({ telemetry: { browser: on('console') }, headless: true })
    await browsers.playwright.execute(id, { code: `await page.evaluate(() => { for (let n = 0; n < 30; n++) console.log('line ' + n) })` })
    await until('all lines in the archive', STORED_MS, async () => (await archived(id, { category: ['console'], limit: 100 })).length === 30)
    const texts = (all: Envelope[]) => all.flatMap((one) => /line (\d+)/.exec(JSON.stringify(one.event))?.[1] ?? []).map(Number)
    expect(texts(await archived(id, { category: ['console'], limit: 4 }))).toEqual(Array.from({ length: 30 }, (_, n) => n))
    const back = await browsers.telemetry.events(id, { order: 'desc', limit: 10 })
    const seqs = back.getPaginatedItems().map(({ seq }) => seq)
    expect(seqs).toEqual(seqs.toSorted((a, b) => b - a))
    await expect(browsers.telemetry.events(id, { order: 'desc', since: '5m' })).rejects.toMatchObject({ status: 400 })
    await expect(browsers.telemetry.events('nonesuch')).rejects.toMatchObject({ status: 404 })
    await browsers.deleteByID(id)
  })

  test('is resumed after an event by its number', async () => {
    const { browsers } = cloud.client
    const { session_id: id } = await browsers.create({ telemetry: { browser: on('console') }, headless: true })
    const say = (text: string) => browsers.playwright.execute(id, { code: `await page.evaluate((said) => console.log(said), ${JSON.stringify(text)})` })
    await say('one')
    const first = follow(await browsers.telemetry.stream(id, { replay: 'all' }))
    await first.has('console_log')
    const at = first.seen.find(({ event }) => event.type === 'console_log')!.seq
    await say('two')
    const again = follow(await browsers.telemetry.stream(id, { 'Last-Event-ID': String(at) }))
    await again.has('console_log')
    expect(again.seen[0]!.seq).toBe(at + 1)
    expect(JSON.stringify(again.seen)).not.toContain('"one"')
    await browsers.deleteByID(id)
    await Promise.all([first.done, again.done])
  })

  test('is off at first and afterwards: its stream is open and silent, its archive empty; on and off at any time', async () => {
    const { browsers } = cloud.client
    const made = await browsers.create({ headless: true })
    const id = made.session_id
    expect(made.telemetry ?? null).toBeNull()
    const live = follow(await browsers.telemetry.stream(id, { replay: 'all' }))
    const say = (text: string) => browsers.playwright.execute(id, { code: `await page.evaluate((said) => console.log(said), ${JSON.stringify(text)})` })
    await say('unheard')
    expect(await archived(id)).toEqual([])
    const changed = await browsers.update(id, { telemetry: { browser: on('console') } })
    conforms('BrowserUpdateResponse', changed)
    expect(changed.telemetry?.browser).toMatchObject({ console: { enabled: true }, network: { enabled: false } })
    await say('heard')
    await live.has('console_log')
    await browsers.update(id, { telemetry: { enabled: false } })
    await say('unheard again')
    await browsers.deleteByID(id)
    await live.done
    const lines = live.seen.filter(({ event }) => event.type === 'console_log')
    expect([lines.length, JSON.stringify(live.seen).includes('unheard')]).toEqual([1, false])
  })
})
