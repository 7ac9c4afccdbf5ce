// Detectors of automated browsers find no more in a session than in a browser that a person started on the same machine.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { session } from '../../src/agent/session/contract.ts'
import { until } from '../../src/base/wait.ts'
import { call } from '../../src/http/client.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import { bringDetectors, findingsByHand, serveDetectors, type Detectors, type Findings } from '../support/detectors.ts'
import { forTests } from '../support/for-tests.ts'
import { killChromium } from '../support/inside.ts'
import { mmdb } from '../support/mmdb.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { capturing } from '../support/telemetry.ts'

let detectors: Detectors
let byHand: Findings
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  detectors = ended.use(await serveDetectors())
  byHand = await findingsByHand(detectors)
})
afterAll(() => ended.disposeAsync())

/** Findings that may differ: without a window manager a window is one pixel smaller than its screen, and a machine without a sound card has no speakers. */
const MAY_DIFFER = new Set([
  'window',
  'botd sees windowSize',
  'fpscanner sees device.screenResolution.innerWidth',
  'fpscanner sees device.screenResolution.innerHeight',
  'devices',
  'fpscanner sees device.multimediaDevices.speakers',
])

/** The findings that differ from those of a browser that a person started: for each, that browser's value and the session's value. */
const differing = (found: Findings) =>
  Object.fromEntries(
    [...new Set([...Object.keys(byHand), ...Object.keys(found)])]
      .filter((name) => !MAY_DIFFER.has(name) && JSON.stringify(byHand[name]) !== JSON.stringify(found[name]))
      .map((name) => [name, [byHand[name], found[name]]]),
  )

/** Runs `work` with a session that can reach the detectors. */
async function inSession(stealth: boolean, work: (id: string, cdpUrl: string) => Promise<Findings>, options = {}): Promise<Findings> {
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ stealth, ...options })
  try {
    await bringDetectors(cloud, id, detectors)
    return await work(id, cdp_ws_url)
  } finally {
    await cloud.client.browsers.deleteByID(id)
  }
}

/** Opens the page as a person does, by computer controls: the address bar, the address, Enter. */
async function openByHand(id: string): Promise<Findings> {
  const { computer } = cloud.client.browsers
  const next = detectors.next()
  await computer.pressKey(id, { keys: ['Ctrl+l'] })
  await computer.typeText(id, { text: `${detectors.url}\n` })
  return next
}

/** A CDP client of a session's first page. It sends only the commands that the test asks for. */
async function plainClient(cdpUrl: string): Promise<{ send(method: string, params?: object): Promise<unknown>; close(): void }> {
  const line = new WebSocket(cdpUrl)
  await once(line, 'open')
  let commands = 0
  const post = (method: string, params: object, sessionId?: string) =>
    new Promise<unknown>((resolve, reject) => {
      const id = ++commands
      const hear = (data: WebSocket.RawData) => {
        const answer = JSON.parse((data as Buffer).toString()) as { id?: number; result?: unknown; error?: object }
        if (answer.id !== id) return
        line.off('message', hear)
        if (answer.error) reject(new Error(JSON.stringify(answer.error)))
        else resolve(answer.result)
      }
      line.on('message', hear)
      line.send(JSON.stringify({ id, method, params, sessionId }))
    })
  const { targetInfos } = (await post('Target.getTargets', {})) as { targetInfos: { type: string; targetId: string }[] }
  const { targetId } = targetInfos.find(({ type }) => type === 'page')!
  const { sessionId } = (await post('Target.attachToTarget', { targetId, flatten: true })) as { sessionId: string }
  return { send: (method, params = {}) => post(method, params, sessionId), close: () => line.terminate() }
}

describe('by computer controls', () => {
  test('with stealth, botd, fpscanner and 120 checks of our own find what they find in a browser that was started by hand', async () => {
    expect(Object.keys(byHand).length).toBeGreaterThan(300)
    expect(differing(await inSession(true, openByHand))).toEqual({})
  })

  test('the same with telemetry of pages, network, interaction and pictures', async () => {
    expect(differing(await inSession(true, openByHand, { telemetry: capturing('page', 'network', 'interaction', 'screenshot') }))).toEqual({})
  })

  test('an ordinary session differs in one thing: its pages may open windows by themselves', async () => {
    expect(differing(await inSession(false, openByHand))).toEqual({ 'a window without a gesture': [false, true] })
  })
})

interface Recorded {
  type: string
  isTrusted: boolean
  timeStamp: number
  screenX: number
  movementX: number
  clientX: number
  pointerType?: string
  pressure?: number
  code?: string
  coalesced?: number
}

/** What a page notices of computer controls: the calls of programs in the page's world, and the input events. */
async function input(stealth: boolean): Promise<{ calls: string[]; events: Recorded[] }> {
  const found = await inSession(stealth, async (id) => {
    const { computer } = cloud.client.browsers
    await computer.pressKey(id, { keys: ['Ctrl+l'] })
    const opened = detectors.next()
    await computer.typeText(id, { text: `${detectors.url}?input\n` })
    await opened
    const next = detectors.next()
    // Click at once, while the agent waits for the first frames of the page. A shortcut follows, because the agent then asks the page whether it has handled it.
    await computer.clickMouse(id, { x: 400, y: 500 })
    await computer.clickMouse(id, { x: 900, y: 700 })
    await computer.pressKey(id, { keys: ['Ctrl+a'] })
    await computer.typeText(id, { text: 'ab', smooth: true } as Parameters<typeof computer.typeText>[1])
    await computer.pressKey(id, { keys: ['F8'] })
    return next
  })
  return found as unknown as { calls: string[]; events: Recorded[] }
}

test('with stealth, input is like that of a person, and pages do not notice that the agent watches them', async () => {
  const { calls, events } = await input(true)
  expect(calls).toEqual([])
  expect(events.every(({ isTrusted }) => isTrusted)).toBe(true)
  const of = (type: string) => events.filter((event) => event.type === type)
  const [before, ...moves] = of('mousemove')
  // The pointer moves to the click in steps and does not jump.
  expect(moves.length).toBeGreaterThan(10)
  let x = before!.screenX
  for (const { screenX, movementX } of moves) {
    expect(movementX).toBe(screenX - x)
    x = screenX
  }
  for (const { pointerType, coalesced } of of('pointermove')) expect([pointerType, coalesced! >= 1]).toEqual(['mouse', true])
  expect(of('pointerdown').map(({ pressure }) => pressure)).toEqual([0.5, 0.5])
  expect(of('pointerup').map(({ pressure }) => pressure)).toEqual([0, 0])
  const heldMs = (down: string, up: string) =>
    of(down).map(({ timeStamp, code }) => (of(up).find((one) => one.timeStamp > timeStamp && one.code === code)?.timeStamp ?? Infinity) - timeStamp)
  for (const ms of heldMs('pointerdown', 'pointerup')) expect(ms).toBeGreaterThan(30)
  for (const ms of heldMs('keydown', 'keyup').slice(0, -1)) expect(ms).toBeGreaterThan(20)
  expect(of('keydown').every(({ code }) => code !== '')).toBe(true)
})

test('in an ordinary session input is at once, and pages do not notice that the agent watches them either', async () => {
  const { calls, events } = await input(false)
  expect(calls).toEqual([])
  expect(events.filter(({ type }) => type === 'mousemove').length).toBeLessThan(5)
})

describe('by CDP', () => {
  test('a client that does not enable Runtime leaves no trace', async () => {
    const found = await inSession(true, async (_, cdpUrl) => {
      const client = await plainClient(cdpUrl)
      const next = detectors.next()
      await client.send('Page.enable')
      // In a new window the address bar has the focus.
      await client.send('Page.bringToFront')
      await client.send('Page.navigate', { url: detectors.url })
      await client.send('Runtime.evaluate', { expression: 'document.title' })
      const all = await next
      client.close()
      return all
    })
    expect(differing(found)).toEqual({})
  })

  test('Playwright is seen by what it enables itself, and by nothing else', async () => {
    const found = await inSession(true, async (_, cdpUrl) => {
      const browser = await chromium.connectOverCDP(cdpUrl)
      try {
        const next = detectors.next()
        const page = browser.contexts()[0]!.pages()[0]!
        await page.goto(detectors.url)
        const all = await next
        // Evaluate only after the findings: Chromium counts Playwright's evaluate as a user gesture.
        await page.evaluate('document.title')
        return all
      } finally {
        await browser.close()
      }
    })
    expect(differing(found)).toEqual({
      'fpscanner: hasCDP': [false, true],
      'fpscanner sees automation.cdp': ['false', 'true'],
      'prepareStackTrace is called by the console': [false, true],
    })
  })
})

/** How often a timer of 10 ms fires in a background page, within 1.5 s. */
async function ticksInBackground(stealth: boolean): Promise<unknown> {
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ stealth })
  const client = await plainClient(cdp_ws_url)
  try {
    const evaluate = async (expression: string) => {
      const { result } = (await client.send('Runtime.evaluate', { expression, awaitPromise: true })) as { result: { value: unknown } }
      return result.value
    }
    await client.send('Target.createTarget', { url: 'about:blank' })
    await until('the page to be in the background', 10_000, () => evaluate('document.hidden'), { everyMs: 50 })
    return await evaluate(
      'new Promise((done) => { let ticks = 0; const at = performance.now(); setInterval(() => (ticks++, performance.now() - at > 1500 && done(ticks)), 10) })',
    )
  } finally {
    client.close()
    await cloud.client.browsers.deleteByID(id)
  }
}

test('pages in the background are slowed down, as those of a person are; in ordinary sessions they are not', async () => {
  expect(await ticksInBackground(true)).toBeLessThan(10)
  expect(await ticksInBackground(false)).toBeGreaterThan(30)
})

/** The time zone that a page sees, and the one that its worker sees. */
const zones = (page: Page): Promise<string[]> =>
  page.evaluate(`new Promise((done) => {
    const zone = 'Intl.DateTimeFormat().resolvedOptions().timeZone + new Date(0).getTimezoneOffset()'
    const worker = new Worker(URL.createObjectURL(new Blob(['postMessage(' + zone + ')'])))
    worker.onmessage = ({ data }) => done([eval(zone), data])
  })`)

test('the time zone can be set while pages are open: they, new ones and workers see it, also after a crash of Chromium', async () => {
  await using opened = await openSession(cloud)
  const [row] = await cloud.query<{ endpoint: Endpoint }>('select endpoint from browsers where id = $1', [opened.id])
  const before = await zones(opened.page)
  const set = (time_zone: string) => call(row!.endpoint, session.fitSession, { body: { time_zone } }, { signal: AbortSignal.timeout(30_000) })
  await set('Asia/Tokyo')
  await expect.poll(() => zones(opened.page)).toEqual(['Asia/Tokyo-540', 'Asia/Tokyo-540'])
  await set('America/Argentina/Ushuaia')
  await expect.poll(() => zones(opened.page)).toEqual(['America/Argentina/Ushuaia180', 'America/Argentina/Ushuaia180'])
  await killChromium(cloud, opened.id)
  const again = await chromium.connectOverCDP(opened.made.cdp_ws_url)
  expect(await zones(again.contexts()[0]!.pages()[0]!)).toEqual(['America/Argentina/Ushuaia180', 'America/Argentina/Ushuaia180'])
  await set('')
  await expect.poll(() => zones(again.contexts()[0]!.pages()[0]!)).toEqual(before)
  await again.close()
  await expect(set('Mars/Olympus')).rejects.toThrow('time zone')
})

test('with stealth and a GeoIP file, the time zone goes with the proxy; without stealth it stays', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'cob-geoip-'))
  const file = join(folder.path, 'city.mmdb')
  writeFileSync(file, mmdb('GeoLite2-City', { '127.0.0.0/8': { location: { time_zone: 'Asia/Kolkata' } } }))
  await using own = await shareCloud({ COB_GEOIP_FILE: file })
  const proxy = await own.client.proxies.create({ type: 'custom', config: { host: '127.0.0.1', port: 9 } })
  const seen = async (stealth: boolean) => {
    await using opened = await openSession(own, { stealth, proxy_id: proxy.id! })
    const there = await zones(opened.page)
    await own.client.browsers.update(opened.id, { proxy_id: '' })
    return { there, after: await zones(opened.page) }
  }
  const { there, after } = await seen(true)
  expect(there).toEqual(['Asia/Calcutta-330', 'Asia/Calcutta-330'])
  expect(await seen(false)).toEqual({ there: after, after })
  await own.client.proxies.delete(proxy.id!)
})
