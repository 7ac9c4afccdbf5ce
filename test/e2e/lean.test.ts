// Lean sessions, with the real headless shell, through the published SDK: what works as in a full one, and what is refused by name.
// The project "lean" (vitest.config.ts) runs the tests of mouse, keys, clipboard and screenshots at such sessions.
import { on, once } from 'node:events'
import { WebSocket } from 'ws'
import { expect, test } from 'vitest'
import { within } from '../../src/base/wait.ts'
import { markingExtension } from '../support/extensions.ts'
import { forTests } from '../support/for-tests.ts'
import { processesOf } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { run } from '../support/programs.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const cloud = forTests(() => shareCloud({ COB_HEADLESS: 'auto' }))
const pages = forTests(() => servePages())
const LEAN = { headless: true, timeout_seconds: 120 }

const [SHELL, FULL] = ['/usr/lib/chromium/chromium-headless-shell ', '/usr/lib/chromium/chromium ']

/** Which browser a session has, and whether it has an X server. */
function programsOf(id: string): string[] {
  const commands = processesOf(cloud, id).map(({ command }) => command)
  return [SHELL, FULL, 'Xvfb '].filter((name) => commands.some((command) => command.startsWith(name)))
}

test('a headless session has the headless shell and no X server; pages are told of the browser of a person', async () => {
  await using session = await openSession(cloud, LEAN)
  expect(programsOf(session.id)).toEqual([SHELL])
  expect(session.made).toMatchObject({ headless: true, stealth: false, kiosk_mode: false })
  const seen = await session.page.evaluate(
    `({ agent: navigator.userAgent, webdriver: navigator.webdriver, size: [innerWidth, innerHeight, screen.width, screen.height] })`,
  )
  expect(seen).toEqual({ agent: expect.not.stringContaining('Headless'), webdriver: false, size: [1920, 1080, 1920, 1080] })
  await session.page.goto(pages.url('probe.html'))
  expect(await session.page.evaluate('(async () => (await fetch("/echo")).status)()')).toBe(200)
})

test.each([
  ['a proxy', async () => ({ proxy_id: (await cloud.client.proxies.create({ type: 'custom', config: { host: '127.0.0.1', port: 9 } })).id })],
  ['stealth', async () => ({ stealth: true })],
  ['kiosk mode', async () => ({ kiosk_mode: true })],
  ['a policy', async () => ({ chrome_policy: { BookmarkBarEnabled: true } })],
  ['a list of hosts', async () => ({ network: { allowed_hosts: ['host.cob.internal'] } })],
  ['a profile', async () => ({ profile: { id: (await cloud.client.profiles.create({})).id } })],
])('a headless session with %s has the full browser', async (_name, options) => {
  await using session = await openSession(cloud, { ...LEAN, ...(await options()) })
  expect(programsOf(session.id)).toEqual([FULL, 'Xvfb '])
})

test('a session that is not headless has the full browser', async () => {
  await using session = await openSession(cloud, { timeout_seconds: 120 })
  expect(programsOf(session.id)).toEqual([FULL, 'Xvfb '])
})

test('what a running lean session cannot get is refused by name and changes nothing', async () => {
  await using session = await openSession(cloud, LEAN)
  const profile = await cloud.client.profiles.create({})
  for (const [field, change] of Object.entries({ profile: { profile: { id: profile.id } }, network: { network: { allowed_hosts: ['a.test'] } } })) {
    const answer = await cloud.fetch(`/browsers/${session.id}`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(change),
    })
    expect([answer.status, ((await answer.json()) as { message: string }).message]).toEqual([400, expect.stringContaining(`${field}: needs the full browser`)])
  }
  expect((await cloud.client.browsers.retrieve(session.id)).profile).toBeUndefined()
  await session.page.goto(pages.url('still'))
})

test('an extension for a running lean session is refused, and its files are gone', async () => {
  await using session = await openSession(cloud, LEAN)
  const load = cloud.client.browsers.loadExtensions(session.id, {
    extensions: [{ name: 'late', zip_file: new File([new Uint8Array(markingExtension('late'))], 'late.zip') }],
  })
  await expect(load).rejects.toMatchObject({ status: 400, message: expect.stringContaining('extensions: need the full browser') })
  expect((await run(cloud.client, session.id, 'ls /home/kernel/extensions')).out).toBe('')
})

test('browsers of a pool are lean like sessions', async () => {
  const pool = await cloud.client.browserPools.create({ size: 1, headless: true })
  try {
    const { session_id: id } = await cloud.client.browserPools.acquire(pool.id, { acquire_timeout_seconds: 60 })
    expect(programsOf(id)).toEqual([SHELL])
    await cloud.client.browserPools.release(pool.id, { session_id: id })
  } finally {
    await cloud.client.browserPools.delete(pool.id, { force: true })
  }
})

test('its files, programs, downloads, curl and replays work; a live view it has none', async () => {
  await using session = await openSession(cloud, LEAN)
  const { browsers } = cloud.client
  const { page, id } = session
  expect(session.made.browser_live_view_url).toBeUndefined()
  const replay = await browsers.replays.start(id, { framerate: 5 })
  await page.goto(pages.url('recorder.html'))
  await browsers.computer.typeText(id, { text: 'x' })
  // A download lands in its folder under its name, also for a client that has redirected downloads.
  await page.evaluate(`Object.assign(document.createElement('a'), { href: 'data:text/plain,cargo', download: 'cargo.txt' }).click()`)
  await expect.poll(async () => (await run(cloud.client, id, 'cat /home/kernel/Downloads/cargo.txt')).out).toBe('cargo')
  const curl = await browsers.curl(id, { url: pages.url('fetched') })
  expect([curl.status, curl.body]).toEqual([200, expect.stringContaining('<h1>fetched</h1>')])
  const ran = await browsers.playwright.execute(id, { code: 'await page.setContent("<h1>run</h1>"); return page.textContent("h1")' })
  expect(ran).toMatchObject({ success: true, result: 'run' })
  await browsers.replays.stop(replay.replay_id, { id })
  const film = await browsers.replays.download(replay.replay_id, { id })
  expect((await film.arrayBuffer()).byteLength).toBeGreaterThan(1_000)
  const shot = await browsers.computer.captureScreenshot(id)
  expect(Buffer.from(await shot.arrayBuffer()).toString('latin1', 1, 4)).toBe('PNG')
})

test('a client of WebDriver BiDi sees its page', async () => {
  await using session = await openSession(cloud, LEAN)
  await session.page.goto(pages.url('seen'))
  const socket = new WebSocket(session.made.webdriver_ws_url)
  await once(socket, 'open')
  const ask = async (id: number, method: string, params: object): Promise<unknown> => {
    socket.send(JSON.stringify({ id, method, params }))
    for await (const [data] of on(socket, 'message', { signal: AbortSignal.timeout(20_000) })) {
      const message = JSON.parse(String(data)) as { id?: number }
      if (message.id === id) return message
    }
    return undefined
  }
  await ask(1, 'session.new', { capabilities: {} })
  expect(await ask(2, 'browsingContext.getTree', {})).toMatchObject({ type: 'success', result: { contexts: [{ url: pages.url('seen') }] } })
  socket.close()
})

test('the viewport changes while it runs, and every page follows', async () => {
  await using session = await openSession(cloud, LEAN)
  await cloud.client.browsers.update(session.id, { viewport: { width: 800, height: 600 } })
  await expect.poll(() => session.page.evaluate('[innerWidth, innerHeight]')).toEqual([800, 600])
  const shot = Buffer.from(await (await cloud.client.browsers.computer.captureScreenshot(session.id)).arrayBuffer())
  expect([shot.readUInt32BE(16), shot.readUInt32BE(20)]).toEqual([800, 600])
})

test('after a crash of its browser the session goes on with its tabs', async () => {
  await using session = await openSession(cloud, LEAN)
  await session.page.goto(pages.url('first'))
  const second = await session.page.context().newPage()
  await second.goto(pages.url('second'))
  const main = processesOf(cloud, session.id).find(({ command }) => command.startsWith(SHELL) && !command.includes('--type='))!
  const socket = new WebSocket(session.made.cdp_ws_url)
  const closed = new Promise((done) => socket.once('close', done))
  await new Promise((done) => socket.once('open', done))
  process.kill(main.pid, 'SIGKILL')
  await within('the connection to end', 20_000, closed)
  const titles = async () => {
    const answer = await cloud.client.browsers.playwright.execute(session.id, { code: 'return Promise.all(context.pages().map((each) => each.title()))' })
    return (answer.result as string[] | undefined)?.toSorted()
  }
  await expect.poll(titles, { timeout: 30_000 }).toEqual(['first', 'second'])
})
