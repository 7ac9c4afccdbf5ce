// Telemetry about the users of a session: calls, clients of CDP and of the live view, programs that crash or are killed. Every event is checked against the published
// contract.
import type Kernel from '@onkernel/sdk'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { isRoot } from '../../src/base/user.ts'
import { until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { childrenOf, chromiumOf, killChromium, processesOf } from '../support/inside.ts'
import { openSession, type Session } from '../support/session.ts'
import { readTelemetry, type TelemetryEvents } from '../support/telemetry.ts'

/** A secret that is typed, copied, written and run: no event may contain it. */
const CANARY = 'hunter2-canary'
const TOLD_MS = 20_000
/** So little that a page uses it up in seconds, but enough for Chromium. */
const MEMORY_MB = 1_024
const EATEN_MS = 60_000

const cloud = forTests(() => startCloud({ COB_INSTANCE_MEMORY_MB: String(MEMORY_MB) }))

/** The event data that a session has sent. */
interface Told {
  events: TelemetryEvents['all']
  of(type: string): Record<string, unknown>[]
  /** Resolves when there are `count` events of a type that match `like`. */
  has(type: string, like?: object, count?: number): Promise<Record<string, unknown>[]>
}

type Telemetry = NonNullable<Kernel.BrowserCreateParams['telemetry']>

async function watched(telemetry: Telemetry | undefined): Promise<Session & { told: Told }> {
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await openSession(cloud, { timeout_seconds: 600, headless: true, ...(telemetry && { telemetry }) }))
  const told = scope.use(await readTelemetry(cloud, session.id))
  scope.defer(() => expect(JSON.stringify(told.all)).not.toContain('canary'))
  const of = (type: string) => told.of(type).map(({ data }) => data)
  const has: Told['has'] = (type, like = {}, count = 1) => {
    const found = () => of(type).filter((data) => Object.entries(like).every(([key, value]) => data[key] === value))
    return until(`${count} ${type} like ${JSON.stringify(like)}`, TOLD_MS, () => found().length >= count && found())
  }
  const owner = scope.move()
  return { ...session, told: { events: told.all, of, has }, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

const ON: Telemetry = { enabled: true }

describe('calls', () => {
  test('those that drive the browser and those that manage it are told with their ids, statuses and times, and nothing of what they carry', async () => {
    await using session = await watched({ enabled: true, browser: { platform: { enabled: true } } } as Telemetry)
    const { id, told } = session
    const { computer, playwright, process, fs } = cloud.client.browsers
    await computer.typeText(id, { text: CANARY })
    await computer.writeClipboard(id, { text: CANARY })
    expect((await computer.readClipboard(id)).text).toBe(CANARY)
    await (await computer.captureScreenshot(id)).arrayBuffer()
    expect((await playwright.execute(id, { code: `return ${JSON.stringify(CANARY)}.length` })).result).toBe(CANARY.length)
    await computer.batch(id, { actions: [{ type: 'type_text', type_text: { text: CANARY } }] })
    await process.exec(id, { command: 'echo', args: [CANARY] })
    await fs.writeFile(id, Buffer.from(CANARY), { path: `/home/kernel/${CANARY}` })
    const [named, refused] = await Promise.all(
      [
        { x: 1, y: 1 },
        { x: 'here', y: 1, note: CANARY },
      ].map((body) =>
        cloud.fetch(`/browsers/${id}/computer/click_mouse`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      ),
    )
    const [click] = await told.has('api_call', { request_id: named!.headers.get('x-request-id') })
    expect(click).toMatchObject({ operation_id: 'ClickMouse', status: named!.status })
    expect(await told.has('api_call', { request_id: refused!.headers.get('x-request-id') })).toMatchObject([{ status: 400 }])
    for (const operation of ['TypeText', 'WriteClipboard', 'ReadClipboard', 'TakeScreenshot', 'ExecutePlaywrightCode', 'BatchComputerAction'])
      expect(await told.has('api_call', { operation_id: operation })).toMatchObject([{ status: expect.any(Number) }])
    for (const operation of ['ProcessExec', 'WriteFile']) await told.has('platform_api_call', { operation_id: operation })
    expect(told.of('platform_api_call').map(({ operation_id }) => operation_id)).not.toContain('AgentStatus')
  })

  test('of a category that is off nothing is told', async () => {
    await using session = await watched({ enabled: true, browser: { control: { enabled: false }, connection: { enabled: false } } })
    await cloud.client.browsers.computer.moveMouse(session.id, { x: 5, y: 5 })
    await session.page.keyboard.type('x')
    await killChromium(cloud, session.id)
    await session.told.has('service_crashed')
    expect(session.told.events.map(({ category }) => category)).not.toContain('control')
    expect(session.told.events.map(({ category }) => category)).not.toContain('connection')
  })
})

describe('clients of CDP', () => {
  test('their connections and commands are told, and how they ended', async () => {
    await using session = await watched(ON)
    const { made, told } = session
    const client = await chromium.connectOverCDP(made.cdp_ws_url)
    const page = client.contexts()[0]!.pages()[0]!
    await page.goto(`data:text/html,<input id=in style="position:fixed;inset:0"><title>${CANARY}</title>`)
    await page.mouse.click(100, 100)
    await page.keyboard.type('secret')
    await page.keyboard.press('Enter')
    await page.keyboard.insertText(CANARY)
    expect(await page.inputValue('#in')).toBe(`secret${CANARY}`)
    await page.screenshot()
    await client.close()

    const [, second] = await told.has('cdp_connect', {}, 2)
    const { connection_id } = second!
    const [end] = await told.has('cdp_disconnect', { connection_id })
    expect(end).toMatchObject({ reason: 'client_close', telemetry_dropped: 0, telemetry_excluded: 0 })
    expect(end!.message_count).toBeGreaterThan(20)
    const commands = told.of('cdp_command').filter((data) => data.connection_id === connection_id)
    const like = (method: string, more: object = {}) => expect(commands).toContainEqual(expect.objectContaining({ method, ...more }))
    like('Page.navigate', { url_scheme: 'data' })
    like('Input.dispatchMouseEvent', { event_type: 'mousePressed', button: 'left', x: 100, y: 100, click_count: 1 })
    like('Input.dispatchKeyEvent', { named_key: 'Enter' })
    like('Input.insertText', { text_length: CANARY.length })
    like('Page.captureScreenshot', { format: 'png' })
    // When a key types text, no event says which key it was.
    expect(commands.filter(({ method, named_key }) => method === 'Input.dispatchKeyEvent' && named_key === undefined)).toHaveLength(12)
    expect(JSON.stringify(commands)).not.toMatch(/KeyS|"s"/)
  })

  test('one that is connected when telemetry is switched on is told of from then on, without what is excluded, until that is changed', async () => {
    await using session = await watched(undefined)
    const { id, page, told } = session
    const { browsers } = cloud.client
    const set = (telemetry: object) => browsers.update(id, { telemetry } as Kernel.BrowserUpdateParams)
    await page.mouse.move(1, 1)
    await set({ enabled: true, browser: { control: { enabled: true, cdp: { excluded_methods: ['Input.insertText'] } } } })
    await page.keyboard.insertText('first')
    await page.mouse.move(2, 2)
    await told.has('cdp_command', { method: 'Input.dispatchMouseEvent', x: 2 })
    await set({ enabled: false })
    await page.mouse.move(3, 3)
    await set({ enabled: true })
    await page.keyboard.insertText('second')
    await told.has('cdp_command', { method: 'Input.insertText', text_length: 6 })
    await session.browser.close()
    expect(await told.has('cdp_disconnect')).toMatchObject([{ telemetry_excluded: 1, reason: 'client_close' }])
    expect(told.of('cdp_connect')).toEqual([])
    expect(told.of('cdp_command').map(({ method, x }) => [method, x])).toEqual([
      ['Input.dispatchMouseEvent', 2],
      ['Input.insertText', undefined],
    ])
  })

  test('when Chromium crashes, that is told with its process, and that they were cut off by it', async () => {
    await using session = await watched(ON)
    const inside = /^NSpid:.*\s(\d+)$/m.exec(processesOf(cloud, session.id).find(({ pid }) => pid === chromiumOf(cloud, session.id))!.status)![1]
    await killChromium(cloud, session.id)
    expect(await session.told.has('service_crashed')).toEqual([{ service_name: 'chromium', phase: 'running', pid: Number(inside) }])
    expect(await session.told.has('cdp_disconnect')).toMatchObject([{ reason: 'upstream_changed' }])
  })
})

test('viewers of the live view are told of', async () => {
  await using session = await watched(ON)
  const viewer = new WebSocket(`${session.made.browser_live_view_url!.replace('http', 'ws')}/socket`)
  await once(viewer, 'open')
  const [joined] = await session.told.has('live_view_connect')
  expect(session.told.of('live_view_disconnect')).toEqual([])
  viewer.close()
  expect(await session.told.has('live_view_disconnect', { session_id: joined!.session_id })).toHaveLength(1)
})

describe('programs that end and were not meant to', () => {
  const programOf = (id: string, name: string): number => processesOf(cloud, id).find(({ status }) => status.startsWith(`Name:\t${name}\n`))!.pid

  test('the server of the picture', async () => {
    await using session = await watched(ON)
    const viewer = new WebSocket(`${session.made.browser_live_view_url!.replace('http', 'ws')}/socket`)
    await once(viewer, 'open')
    await session.told.has('live_view_connect')
    process.kill(programOf(session.id, 'X0tigervnc'), 'SIGKILL')
    expect(await session.told.has('service_crashed')).toEqual([{ service_name: 'x0tigervnc', phase: 'running', pid: expect.any(Number) }])
    await session.told.has('live_view_disconnect')
    viewer.terminate()
  })

  test('the X server, with which the session ends', async () => {
    const session = await watched(ON)
    process.kill(programOf(session.id, 'Xvfb'), 'SIGKILL')
    expect(await session.told.has('service_crashed')).toContainEqual({ service_name: 'xvfb', phase: 'running' })
    await session.browser.close()
  })
})

// Only root may read the kernel's log, and the kernel enforces only cgroup limits.
test.skipIf(!isRoot() || !existsSync('/dev/kmsg'))('a page that uses up the memory of its session is killed by the kernel, and that is told', async () => {
  await using session = await watched(ON)
  const eaten = session.page.evaluate(`for (const eaten = [];;) eaten.push(new Uint8Array(64 * 1024 * 1024).fill(1))`).catch((error: unknown) => String(error))
  expect(childrenOf(cloud, session.id, 'renderer').length).toBeGreaterThan(0)
  await until('the page to be killed', EATEN_MS, async () => session.told.of('system_oom_kill').length > 0)
  const [kill] = session.told.of('system_oom_kill')
  expect(kill).toMatchObject({ constraint: 'memcg', process_name: expect.any(String), top_tasks: expect.any(Array) })
  expect(kill!.rss_kb).toBeGreaterThan(100 * 1024)
  expect(kill!.rss_kb).toBeLessThanOrEqual(MEMORY_MB * 1024)
  // The session continues without that page.
  await cloud.client.browsers.computer.moveMouse(session.id, { x: 5, y: 5 })
  await session.told.has('api_call', { operation_id: 'MoveMouse' })
  await session.browser.close()
  await eaten
})
