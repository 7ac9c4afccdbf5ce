// A hostile session sends arbitrary text to every place where the dashboard shows it. None of the text becomes markup, a script, a link or a request.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import { openDashboard, type Dashboard } from '../support/dashboard.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const PAYLOADS = [
  '<img src=x onerror="alert(1)">',
  '"><script>alert(2)</script>',
  "'-alert(3)-'",
  '<svg/onload=alert(4)>',
  'javascript:alert(5)',
  '{{alert(6)}}${alert(7)}',
  '</pre><iframe srcdoc="<script>alert(8)</script>">',
]
const TURNED = 'invoice\u202efdp.exe'

let dashboard: Dashboard
let page: Page
let session: Session
/** The page's requests to other origins. */
const outside: string[] = []

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  dashboard = await openDashboard(cloud)
  page = dashboard.page
  page.on('request', (request) => {
    if (!/^(blob:|data:)/.test(request.url()) && new URL(request.url()).origin !== cloud.url) outside.push(request.url())
  })
  page.context().on('page', (popup) => dashboard.wrongs.push(`window: ${popup.url()}`))
  session = await openSession(cloud, {
    name: PAYLOADS[0],
    tags: Object.fromEntries(PAYLOADS.map((payload, at) => [`${payload}${at}`, payload])),
    timeout_seconds: 600,
    telemetry: { enabled: true, browser: { page: { enabled: true }, console: { enabled: true }, network: { enabled: true } } },
  } as object)
})
afterAll(async () => {
  await session?.[Symbol.asyncDispose]()
  // Closing fails when the page showed a dialog, violated its policy or threw an error.
  await dashboard?.[Symbol.asyncDispose]()
  expect(outside).toEqual([])
})

/** The page has only elements that our own components create. */
const nothingRan = async (): Promise<void> => {
  expect(
    await page.evaluate(
      `document.querySelectorAll('main script, main svg, main [onerror], main [onload], main iframe[srcdoc], main a[href^="javascript"]').length`,
    ),
  ).toBe(0)
  expect(await page.evaluate(`[...document.querySelectorAll('main img')].filter(({ src }) => !src.startsWith('blob:')).length`)).toBe(0)
}
const exec = (command: string) => cloud.client.browsers.process.exec(session.id, { command: 'sh', args: ['-c', command] })

test('names and tags', async () => {
  await dashboard.open('sessions')
  await page.getByRole('link', { name: PAYLOADS[0]! }).waitFor()
  for (const payload of PAYLOADS) expect(await page.getByText(payload, { exact: true }).count()).toBeGreaterThan(0)
  await nothingRan()
  expect(await problemsOf(page)).toEqual([])
  await page.getByRole('link', { name: PAYLOADS[0]! }).click()
  await page.getByRole('heading', { level: 1, name: PAYLOADS[0]! }).waitFor()
  await expect.poll(() => page.title()).toBe(`${PAYLOADS[0]} · Cob`)
  await page.getByRole('button', { name: 'End session' }).click()
  await page.getByRole('alertdialog').waitFor()
  await page.keyboard.press('Escape')
  await nothingRan()
})

test('console text, titles, addresses and requests, in the events', async () => {
  await session.page.goto(pages.url('watched.html'))
  await session.page.evaluate(`for (const payload of ${JSON.stringify([...PAYLOADS, TURNED])}) {
    console.log(payload)
    document.title = payload
    history.pushState(null, '', '#' + payload)
    fetch('/no/' + payload).catch(() => {})
  }`)
  await dashboard.open(`sessions/${session.id}/events`)
  for (const payload of PAYLOADS) await page.locator('.timeline .said').getByText(payload).first().waitFor()
  await page.getByText('invoice\ufffdfdp.exe').first().waitFor()
  await page.evaluate(`for (const each of document.querySelectorAll('.timeline details')) each.open = true`)
  await page.locator('.timeline pre').first().waitFor()
  await nothingRan()
  expect(await problemsOf(page)).toEqual([])
})

test('names and content of files: they are saved, never opened', async () => {
  const folder = '/home/kernel/hostile'
  const write = (name: string) =>
    cloud.fetch(`/browsers/${session.id}/fs/write_file?path=${encodeURIComponent(`${folder}/${name}`)}`, { method: 'PUT', body: '<script>alert(9)</script>' })
  const names = [...PAYLOADS.map((payload) => payload.replaceAll('/', '∕')), TURNED, 'page.html']
  for (const name of names) expect((await write(name)).status).toBe(201)
  await exec(`mkdir '${folder}/<b>folder'`)
  await dashboard.open(`sessions/${session.id}/files?path=${encodeURIComponent(folder)}`)
  for (const name of names) await page.locator('td').getByText(name.replace('\u202e', '\ufffd'), { exact: true }).waitFor()
  await nothingRan()
  expect(await problemsOf(page)).toEqual([])
  const before = page.url()
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download page.html' }).click()])
  await download.path()
  expect(page.url()).toBe(before)
  await page.getByRole('button', { name: '<b>folder/' }).click()
  await page.getByRole('heading', { name: 'This folder is empty' }).waitFor()
  await nothingRan()
  // A navigation to the file's own address gets 401: this path does not accept the dashboard's cookie.
  const answer = await page.context().request.get(`${cloud.url}/browsers/${session.id}/fs/read_file?path=${encodeURIComponent(`${folder}/page.html`)}`)
  expect(answer.status()).toBe(401)
})

test('lines of logs', async () => {
  await cloud.client.browsers.fs.writeFile(
    session.id,
    Buffer.from([...PAYLOADS, TURNED, '\u001b]8;;https://evil.test\u0007text\u001b]8;;\u0007'].join('\n') + '\n') as never,
    {
      path: '/tmp/hostile.log',
    },
  )
  await dashboard.open(`sessions/${session.id}/logs`)
  await page.getByRole('combobox', { name: 'Log' }).selectOption('A file')
  await page.getByLabel('Path').fill('/tmp/hostile.log')
  await page.getByRole('button', { name: 'Open' }).click()
  for (const payload of PAYLOADS) await page.getByRole('log').getByText(payload).first().waitFor()
  expect(await page.getByRole('log').locator('a').count()).toBe(0)
  await nothingRan()
})

test('what programs print to the terminal: no markup, no links, no clipboard, no title', async () => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: cloud.url })
  await dashboard.open(`sessions/${session.id}/terminal`)
  await page.getByText('Shift+Escape leaves the terminal.').waitFor()
  await page.evaluate(`navigator.clipboard.writeText('mine')`)
  await page.locator('.xterm-helper-textarea').focus()
  const title = await page.title()
  const said = [
    ...PAYLOADS,
    '\u001b]8;;javascript:alert(10)\u0007a link\u001b]8;;\u0007',
    '\u001b]52;c;aGFja2Vk\u0007',
    '\u001b]0;other title\u0007',
    'the end of it',
  ].join('\n')
  await cloud.client.browsers.fs.writeFile(session.id, Buffer.from(said) as never, { path: '/tmp/said' })
  await page.keyboard.type('clear; cat /tmp/said\n')
  await expect.poll(() => page.locator('.xterm-rows').textContent()).toContain('the end of it')
  await page.locator('.xterm-rows').getByText('a link').click({ force: true })
  await nothingRan()
  expect(await page.locator('.terminal-box a').count()).toBe(0)
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('mine')
  expect(await page.title()).toBe(title)
})
