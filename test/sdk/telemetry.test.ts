// Telemetry as the published SDKs read it, for a session with real pages: live from `base_url`, and afterwards from the archive.
import { createServer } from 'node:http'
import type Kernel from '@onkernel/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { assertEvent } from '../support/telemetry-schemas.ts'
import { serveSockets } from '../support/upstreams.ts'

type Envelope = Kernel.Browsers.TelemetryStreamResponse
type Stream = Awaited<ReturnType<Kernel['browsers']['telemetry']['stream']>>

/** The limit until an event is in the archive: it takes half a second, and the rest is for a busy machine. */
const STORED_MS = 15_000

const SHOP = `<!doctype html><title>shop</title><link rel="icon" href="data:,"><button id="buy" style="position:fixed;inset:0">Buy</button>
<script>
  console.log('the shop opens', { items: 3 })
  buy.onclick = async () => console.error(await (await fetch('/order', { method: 'POST', body: JSON.stringify({ item: 7 }), headers: { 'content-type': 'application/json' } })).text())
</script>`

let cloud: Cloud
let page: string
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  const server = createServer((request, response) => {
    if (request.url === '/order') return void response.setHeader('content-type', 'application/json').end('{"order":"taken"}')
    response.setHeader('content-type', 'text/html').end(SHOP)
  })
  page = `http://host.cob.internal:${scope.use(await serveSockets(server)).port}/shop`
  cloud = scope.use(await shareCloud({ COB_WARM_BROWSERS: '0' }))
})
afterAll(() => scope.disposeAsync())

const on = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: true }]))
const EVERYTHING = { enabled: true, browser: on('console', 'network', 'page', 'interaction', 'screenshot', 'platform') }

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
