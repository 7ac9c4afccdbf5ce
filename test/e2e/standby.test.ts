// Sessions that sleep when nothing uses them, with a real Chromium: what is stopped, what wakes them, what keeps them awake, and how they end.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { childrenOf, isAlive, nameProcess, readProcessFile } from '../../src/base/processes.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { session as agentSession } from '../../src/agent/session/contract.ts'
import { call } from '../../src/http/client.ts'
import { startCloud, type Cloud, type OwnCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf, chromiumOf, processesOf } from '../support/inside.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { asleep, cpuTicks, isAsleep, stoppable } from '../support/standby.ts'
import { serveSockets } from '../support/upstreams.ts'

const SOON = { COB_STANDBY_AFTER_SECONDS: '1', COB_STANDBY_CONNECTED_AFTER_SECONDS: '1' }
/** Longer than an unused session takes to go to sleep. */
const LONG_MS = 3_000
const END_MS = 20_000

const cloud = forTests(() => shareCloud(SOON))

const create = async (options: Parameters<Cloud['client']['browsers']['create']>[0] = {}, of = cloud) =>
  (await of.client.browsers.create({ timeout_seconds: 300, ...options })).session_id
const ended = (id: string, of = cloud) =>
  until('the session to end', END_MS, async () => (await of.query(`select 1 from browsers where id = $1 and state = 'deleted'`, [id])).length === 1, {
    everyMs: 50,
  })

/**
 * The longest pause between ticks of the page's timer, in milliseconds. It includes the time since the last tick, because Chromium may handle this command before a
 * tick that is due.
 */
const LONGEST_PAUSE = 'Math.max(...[...times.slice(1), performance.now()].map((at, i) => at - times[i]))'

test('a session that nothing uses stands still without CPU time, keeps its silent connections, and goes on with the next command', async () => {
  await using session = await openSession(cloud)
  const { id, page, made } = session
  const other = await puppeteer.connect({ browserWSEndpoint: made.cdp_ws_url, defaultViewport: null })
  await page.setContent('<p>x</p>')
  await page.evaluate('times = [performance.now()]; setInterval(() => times.push(performance.now()), 20); 0')
  await asleep(cloud, id)
  const pids = stoppable(cloud, id)
  expect(pids.length).toBeGreaterThan(5)
  const before = cpuTicks(pids)
  await sleep(1_000)
  // The agent stays awake.
  const agent = { socketPath: join(cloud.dataDir, 'instances', id, 'agent.sock') }
  expect(await call(agent, agentSession.sessionActivity, {}, { signal: AbortSignal.timeout(END_MS) })).toEqual({ running: [] })
  expect(cpuTicks(pids)).toEqual(before)
  expect(await page.evaluate(LONGEST_PAUSE)).toBeGreaterThan(900)
  expect(isAsleep(cloud, id)).toBe(false)
  // The page's timer continues.
  const count = (await page.evaluate('times.length')) as number
  await until('its timer', END_MS, async () => ((await page.evaluate('times.length')) as number) > count + 5)
  await asleep(cloud, id)
  expect(await (await other.pages())[0]!.evaluate('document.body.innerText')).toBe('x')
  await other.disconnect()
})

test.concurrent('a command that takes long keeps its session awake', async () => {
  await using session = await openSession(cloud)
  const { page, id } = session
  const slow = page.evaluate(`new Promise((done) => setTimeout(() => done('done'), ${LONG_MS}))`)
  expect(await slow).toBe('done')
  await asleep(cloud, id)
})

test('a call, and a viewer, wake a session; a viewer keeps it awake', async () => {
  const { session_id: id, browser_live_view_url: view } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  await asleep(cloud, id)
  expect(await cloud.client.browsers.computer.getMousePosition(id)).toMatchObject({ x: expect.any(Number) })
  expect(isAsleep(cloud, id)).toBe(false)
  await asleep(cloud, id)
  const viewer = new WebSocket(`${view!.replace(/^http/, 'ws')}/socket`)
  await once(viewer, 'message')
  await sleep(LONG_MS)
  expect(isAsleep(cloud, id)).toBe(false)
  viewer.close()
  await asleep(cloud, id)
  // Chromium, its pages, the screen and programs all work.
  expect(await cloud.client.browsers.playwright.execute(id, { code: 'return 1 + 1' })).toMatchObject({ success: true, result: 2 })
  await asleep(cloud, id)
  expect((await (await cloud.client.browsers.computer.captureScreenshot(id)).arrayBuffer()).byteLength).toBeGreaterThan(1_000)
  await cloud.remove(id)
})

test.concurrent('a program that runs keeps its session awake until it ends, and is then stopped with the rest if it left something', async () => {
  const id = await create()
  const { process_id } = await cloud.client.browsers.process.spawn(id, { command: 'sh', args: ['-c', 'sleep 300 & sleep 300'] })
  await sleep(LONG_MS)
  expect(isAsleep(cloud, id)).toBe(false)
  await cloud.client.browsers.process.kill(process_id!, { id, signal: 'KILL' })
  await asleep(cloud, id)
  await cloud.remove(id)
})

test.concurrent('sessions that sleep are deleted, and time out, as others, and nothing is left of them', async () => {
  const [deleted, late] = await Promise.all([create(), create()])
  await asleep(cloud, deleted)
  await asleep(cloud, late)
  const processes = [deleted, late].flatMap((id) => processesOf(cloud, id))
  await cloud.query(`update browsers set last_active_at = now() - interval '1 hour' where id = $1`, [late])
  await cloud.remove(deleted)
  await ended(late)
  expect((await cloud.query('select end_reason from browsers where id = $1', [late]))[0]).toEqual({ end_reason: 'timeout' })
  expect(processes.filter(({ pid, ticks }) => isAlive({ pid, ticks })).map(({ command }) => command)).toEqual([])
})

test.concurrent('the profile of a session that sleeps is saved at its end', async () => {
  const profile = await cloud.client.profiles.create({ name: 'of-a-sleeper' })
  const first = await cloud.client.browsers.create({ timeout_seconds: 300, profile: { id: profile.id, save_changes: true } })
  const browser = await puppeteer.connect({ browserWSEndpoint: first.cdp_ws_url, defaultViewport: null })
  await browser.setCookie({ name: 'kept', value: 'yes', domain: 'example.test', expires: Date.now() / 1000 + 3600 })
  await browser.disconnect()
  await asleep(cloud, first.session_id)
  await cloud.client.browsers.deleteByID(first.session_id)
  await using next = await openSession(cloud, { profile: { id: profile.id } })
  expect(await next.browser.contexts()[0]!.cookies('https://example.test')).toMatchObject([{ name: 'kept', value: 'yes' }])
  await cloud.client.profiles.delete(profile.id)
})

test.concurrent("a page's WebSocket stays open while it sleeps: messages wait, and come when it wakes", async () => {
  const server = createServer()
  const sockets = new WebSocketServer({ server })
  await using served = await serveSockets(server)
  const joined = once(sockets, 'connection') as Promise<[WebSocket]>
  {
    await using session = await openSession(cloud)
    const { page, id } = session
    await page.goto('data:text/html,<p>x</p>')
    await page.evaluate(`got = []; socket = new WebSocket('ws://host.cob.internal:${served.port}'); socket.onmessage = (event) => got.push(event.data); 0`)
    const [socket] = await joined
    await asleep(cloud, id)
    let ponged = false
    socket.on('pong', () => (ponged = true))
    socket.ping()
    socket.send('while it sleeps')
    await sleep(500)
    expect([ponged, isAsleep(cloud, id), socket.readyState]).toEqual([false, true, WebSocket.OPEN])
    await until('the message', END_MS, async () => ((await page.evaluate('got.length')) as number) === 1)
    await until('the answer of the ping', END_MS, () => ponged)
    expect(await page.evaluate('[got[0], socket.readyState]')).toEqual(['while it sleeps', 1])
  }
})

test.concurrent('a Chromium that is killed while it sleeps is back when the session is used', async () => {
  const id = await create()
  await asleep(cloud, id)
  const before = chromiumOf(cloud, id)
  process.kill(before, 'SIGKILL')
  const version = async () => ((await (await cloud.fetch(`/browsers/${id}/cdp/json/version`)).json()) as { Browser?: string }).Browser
  await until('the next Chromium', END_MS, async () => /Chrom/.test((await version()) ?? '') && chromiumOf(cloud, id) !== before, { everyMs: 100 })
  await cloud.remove(id)
})

test.concurrent('an agent that is killed while its session sleeps ends the session, and nothing of it is left', async () => {
  const id = await create()
  await asleep(cloud, id)
  const processes = processesOf(cloud, id)
  process.kill(agentOf(cloud, id), 'SIGKILL')
  await ended(id)
  expect(processes.filter(({ pid, ticks }) => isAlive({ pid, ticks })).map(({ command }) => command)).toEqual([])
})

describe('a service that is killed', () => {
  let own: OwnCloud
  beforeAll(async () => {
    own = await startCloud({ ...SOON, COB_WARM_BROWSERS: '0' })
  })
  afterAll(() => own[Symbol.asyncDispose]())

  test('killing the service wakes what sleeps; its next start adopts it, and it sleeps again', async () => {
    const { session_id: id, cdp_ws_url } = await own.client.browsers.create({ timeout_seconds: 300 })
    await asleep(own, id)
    const chromium = nameProcess(chromiumOf(own, id))!
    await own.kill()
    // Without a service, a session can end itself only when it is awake.
    await until('the session to wake', END_MS, () => !isAsleep(own, id))
    await own.start()
    const browser = await puppeteer.connect({ browserWSEndpoint: cdp_ws_url, defaultViewport: null })
    expect(await (await browser.pages())[0]!.evaluate('1 + 1')).toBe(2)
    await browser.disconnect()
    expect(isAlive(chromium)).toBe(true)
    await asleep(own, id)
    await own.remove(id)
  })

  test('a start of the service wakes what sleeps since another one, and ends what cannot go on', async () => {
    const [kept, lost] = await Promise.all([create({}, own), create({}, own)])
    await asleep(own, kept)
    await asleep(own, lost)
    // On cgroup v1 a helper process of the service would wake the sessions, so kill it.
    for (const pid of childrenOf(own.pid())) if (readProcessFile(pid, 'cmdline')?.includes('freezer.state')) process.kill(pid, 'SIGKILL')
    const processes = processesOf(own, lost)
    await own.kill()
    process.kill(agentOf(own, lost), 'SIGKILL')
    expect(isAsleep(own, kept)).toBe(true)
    await own.start()
    expect(await own.client.browsers.playwright.execute(kept, { code: 'return 1 + 1' })).toMatchObject({ success: true, result: 2 })
    await ended(lost, own)
    expect(processes.filter(({ pid, ticks }) => isAlive({ pid, ticks })).map(({ command }) => command)).toEqual([])
  })
})
