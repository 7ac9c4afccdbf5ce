// Lean sessions, with the real headless shell, through the published SDK: what works as in a full one, and how one becomes a full one.
// The project "lean" (vitest.config.ts) runs the tests of mouse, keys, clipboard, screenshots and the live view at such sessions.
import { on, once } from 'node:events'
import { WebSocket } from 'ws'
import { expect, test } from 'vitest'
import { within } from '../../src/base/wait.ts'
import { markingExtension } from '../support/extensions.ts'
import { forTests } from '../support/for-tests.ts'
import { processesOf } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { invitePerson, live, sees } from '../support/person.ts'
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
  ['stealth', async () => ({ stealth: true })],
  ['kiosk mode', async () => ({ kiosk_mode: true })],
  ['a policy', async () => ({ chrome_policy: { BookmarkBarEnabled: true } })],
])('a headless session with %s has the full browser', async (_name, options) => {
  await using session = await openSession(cloud, { ...LEAN, ...(await options()) })
  expect(programsOf(session.id)).toEqual([FULL, 'Xvfb '])
})

test('a session that is not headless has the full browser', async () => {
  await using session = await openSession(cloud, { timeout_seconds: 120 })
  expect(programsOf(session.id)).toEqual([FULL, 'Xvfb '])
})

/** What pages have stored, and where the session is. */
const STORED = `({ local: localStorage.kept, cookies: document.cookie.split('; ').sort().join(), url: location.href })`

test.each([
  ['a profile', async () => ({ profile: { id: (await cloud.client.profiles.create({})).id } })],
  ['a proxy', async () => ({ proxy_id: (await cloud.client.proxies.create({ type: 'custom', config: { host: '127.0.0.1', port: 9 } })).id })],
])('a lean session with %s, from its create or later, stays lean', async (_name, options) => {
  await using created = await openSession(cloud, { ...LEAN, ...(await options()) })
  await using updated = await openSession(cloud, LEAN)
  await cloud.client.browsers.update(updated.id, await options())
  for (const { id } of [created, updated]) expect(programsOf(id)).toEqual([SHELL])
})

test('a list of hosts holds in a lean session', async () => {
  await using session = await openSession(cloud, { ...LEAN, network: { allowed_hosts: ['host.cob.internal'] } } as object)
  expect(programsOf(session.id)).toEqual([SHELL])
  await session.page.goto(pages.url('allowed'))
  const answer = await session.page.goto('http://other.test/')
  expect([answer?.status(), await session.page.textContent('body')]).toEqual([403, expect.stringContaining('allowed_hosts')])
})

test('a proxy that a running lean session gets keeps its tabs, their storage and cookies', async () => {
  await using session = await openSession(cloud, { ...LEAN, viewport: { width: 900, height: 700 } })
  const { id, page } = session
  await page.goto(pages.url('kept'))
  await page.evaluate(`localStorage.kept = 'yes'; document.cookie = 'short=1'; document.cookie = 'long=2; max-age=9999'`)
  const proxy = await cloud.client.proxies.create({ type: 'custom', config: { host: '127.0.0.1', port: 9 } })
  await cloud.client.browsers.update(id, { proxy_id: proxy.id! })
  await cloud.client.browsers.update(id, { proxy_id: '' })
  const { result } = await cloud.client.browsers.playwright.execute(id, {
    code: `
      const before = context.pages().map((each) => each.url())
      await context.pages()[0].goto(${JSON.stringify(pages.url('kept'))})
      return { before, ...(await context.pages()[0].evaluate(() => (${STORED}))), size: await context.pages()[0].evaluate(() => [innerWidth, innerHeight]) }`,
  })
  expect(result).toEqual({ before: [pages.url('kept')], url: pages.url('kept'), local: 'yes', cookies: 'long=2,short=1', size: [900, 700] })
})

test('a profile goes from a full session to a lean one and back, with localStorage and both kinds of cookies', async () => {
  const { client } = cloud
  const { id: profile } = await client.profiles.create({})
  const visit = async (headless: boolean, mark: string): Promise<unknown> => {
    const { session_id: id } = await client.browsers.create({ headless, timeout_seconds: 120, profile: { id: profile, save_changes: true } })
    expect(programsOf(id)).toEqual(headless ? [SHELL] : [FULL, 'Xvfb '])
    const { result } = await client.browsers.playwright.execute(id, {
      code: `
        await page.goto(${JSON.stringify(pages.url('kept'))})
        const found = await page.evaluate(() => [localStorage.mark, document.cookie.split('; ').sort().join()])
        await page.evaluate((mark) => { localStorage.mark = mark; document.cookie = 'short=' + mark; document.cookie = 'long=' + mark + '; max-age=9999' }, ${JSON.stringify(mark)})
        return found`,
    })
    await client.browsers.deleteByID(id)
    return result
  }
  expect(await visit(false, 'one')).toEqual([undefined, ''].map((each) => each ?? null))
  expect(await visit(true, 'two')).toEqual(['one', 'long=one,short=one'])
  expect(await visit(true, 'three')).toEqual(['two', 'long=two,short=two'])
  expect(await visit(false, 'four')).toEqual(['three', 'long=three,short=three'])
})

test('an extension for a running lean session loads: the full browser has its tabs, their storage and cookies, and takes mouse and keys', async () => {
  await using session = await openSession(cloud, LEAN)
  const { id, page } = session
  await page.goto(pages.url('first'))
  await page.evaluate(`localStorage.kept = 'yes'; document.cookie = 'short=1'; document.cookie = 'long=2; max-age=9999'`)
  const second = await page.context().newPage()
  await second.goto(pages.url('recorder.html'))
  await cloud.client.browsers.loadExtensions(id, {
    extensions: [{ name: 'late', zip_file: new File([new Uint8Array(markingExtension('late'))], 'late.zip') }],
  })
  expect(programsOf(id)).toEqual([FULL, 'Xvfb '])
  const { result } = await cloud.client.browsers.playwright.execute(id, {
    code: `
      const urls = context.pages().map((each) => each.url())
      const first = context.pages()[urls.indexOf(${JSON.stringify(pages.url('first'))})]
      await first.goto(${JSON.stringify(pages.url('first'))})
      return { urls: urls.sort(), stored: await first.evaluate(() => (${STORED})), marked: await first.evaluate(() => document.documentElement.outerHTML.includes('late')) }`,
  })
  expect(result).toEqual({
    urls: [pages.url('first'), pages.url('recorder.html')],
    stored: { local: 'yes', cookies: 'long=2,short=1', url: pages.url('first') },
    marked: true,
  })
  await cloud.client.browsers.computer.clickMouse(id, { x: 300, y: 300 })
  await cloud.client.browsers.computer.typeText(id, { text: 'x' })
  const { result: keys } = await cloud.client.browsers.playwright.execute(id, {
    code: `return Promise.all(context.pages().map((each) => each.evaluate(() => JSON.stringify(window.record))))`,
  })
  expect(String(keys)).toContain('"key":"x"')
})

test('who watches a lean session that gets the full browser goes on to watch that', async () => {
  await using person = await invitePerson()
  await using session = await openSession(cloud, LEAN)
  const view = await person.look(session.made.browser_live_view_url!)
  await cloud.client.browsers.loadExtensions(session.id, {
    extensions: [{ name: 'late', zip_file: new File([new Uint8Array(markingExtension('late'))], 'late.zip') }],
  })
  await cloud.client.browsers.playwright.execute(session.id, { code: `await page.goto(${JSON.stringify(pages.url('watched.html'))})` })
  await live(view)
  const { result } = await cloud.client.browsers.playwright.execute(session.id, {
    code: `await page.evaluate(() => { document.body.innerHTML = ''; document.documentElement.style.background = 'rgb(208, 32, 32)' })
      return page.evaluate(() => [innerWidth / 2, screenY + outerHeight - innerHeight / 2])`,
  })
  const [x, y] = (result as [number, number]).map(Math.round) as [number, number]
  await sees(view, [208, 32, 32], x, y)
})

test('two changes at once make one full browser, and a later crash of it is recovered as that of any', async () => {
  await using session = await openSession(cloud, LEAN)
  const { id, page } = session
  await page.goto(pages.url('there'))
  const profile = await cloud.client.profiles.create({})
  const load = cloud.client.browsers.loadExtensions(id, {
    extensions: [{ name: 'late', zip_file: new File([new Uint8Array(markingExtension('late'))], 'late.zip') }],
  })
  await Promise.all([load, cloud.client.browsers.update(id, { profile: { id: profile.id } })])
  expect(processesOf(cloud, id).filter(({ command }) => command.startsWith('Xvfb '))).toHaveLength(1)
  const main = processesOf(cloud, id).find(({ command }) => command.startsWith(FULL) && !command.includes('--type='))!
  process.kill(main.pid, 'SIGKILL')
  const ask = async () => (await cloud.client.browsers.playwright.execute(id, { code: 'return 1 + 1' })).result
  await expect.poll(ask, { timeout: 30_000 }).toBe(2)
  expect(programsOf(id)).toEqual([FULL, 'Xvfb '])
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

test('its files, programs, downloads, curl and replays work', async () => {
  await using session = await openSession(cloud, LEAN)
  const { browsers } = cloud.client
  const { page, id } = session
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
