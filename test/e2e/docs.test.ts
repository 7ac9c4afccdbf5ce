// The documentation in a real browser: axe checks contrast and structure, light and dark, on a desktop and on a phone. Also search, keyboard and copy buttons.
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { buildDocs } from '../../web/docs/build.ts'
import { problemsOf, tooWide } from '../support/axe.ts'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'
import { invitePerson, type Person } from '../support/person.ts'

const PHONE: BrowserContextOptions = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true }
const FOUND_MS = 30_000
const BUILD_MS = 300_000

let cloud: FastCloud
let person: Person
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  await buildDocs()
  cloud = ended.use(await startFastCloud())
  person = ended.use(await invitePerson())
}, BUILD_MS)
afterAll(() => ended.disposeAsync())
afterEach(() => person.leave())

async function open(path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await person.newPage(options)
  await page.goto(cloud.url + path, { timeout: FOUND_MS })
  return page
}

/** Opens the search dialog and searches; resolves with the links found. */
async function find(page: Page, words: string) {
  await page.getByRole('button', { name: /^Search/ }).click()
  await page.getByRole('combobox').fill(words)
  await page.getByRole('option').first().waitFor()
  return page.getByRole('option')
}

describe('axe has no finding, and no page is wider than its screen', () => {
  /** Headings, long code, wide tables, nested lists, and a page of each list. */
  const PAGES = [
    '/docs',
    '/docs/start',
    '/docs/settings',
    '/docs/performance',
    '/docs/operations',
    '/docs/quickstarts/cdp',
    '/docs/decisions',
    '/docs/decisions/0087-managed-auth',
    '/docs/nothing',
  ]

  test.each<[string, BrowserContextOptions]>([
    ['light, on a desk', { colorScheme: 'light', viewport: { width: 1440, height: 900 } }],
    ['dark, on a small phone', { ...PHONE, colorScheme: 'dark' }],
  ])('%s', async (_name, options) => {
    const page = await person.newPage(options)
    const found: Record<string, (string | number)[]> = {}
    const check = async (name: string) => void (found[name] = [...(await problemsOf(page)), await tooWide(page)])
    for (const path of PAGES) {
      await page.goto(cloud.url + path, { timeout: FOUND_MS })
      await page.getByRole('button', { name: /^Search/ }).waitFor()
      await check(path)
    }
    await find(page, 'session')
    await check('the search dialog')
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((name) => [name, [0]])))
    expect(Object.keys(found)).toHaveLength(PAGES.length + 1)
  })
})

describe('search', () => {
  test('opens by "/" and Ctrl+K, loads its index then, and leads to the section by keys alone', async () => {
    const page = await open('/docs')
    const loaded: string[] = []
    page.on('request', (request) => loaded.push(new URL(request.url()).pathname))
    const index = () => loaded.filter((path) => path.includes('localSearchIndex'))
    await page.getByRole('button', { name: /^Search/ }).waitFor()
    expect(index()).toEqual([])
    await page.keyboard.press('/')
    await page.getByRole('combobox').waitFor()
    await page.keyboard.type('changing the key')
    await page.getByRole('option', { name: /Credentials.*Changing the key/ }).waitFor()
    expect(index()).toHaveLength(1)
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.waitForURL(`${cloud.url}/docs/credentials#changing-the-key`)

    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').waitFor()
    // In a text field, "/" types a slash and does not open the search.
    await page.getByRole('combobox').fill('')
    await page.keyboard.type('a/b')
    expect(await page.getByRole('combobox').inputValue()).toBe('a/b')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
  })

  test('shows markup in words and results as text', async () => {
    const page = await open('/docs')
    const options = await find(page, '<img src=x onerror=alert(1)> <script> session')
    expect(await options.count()).toBeGreaterThan(0)
    expect(await page.locator('[role=dialog] img, [role=dialog] script').count()).toBe(0)
  })
})

test('the skip link is the first stop of the keyboard and leads to the text', async () => {
  const page = await open('/docs/telemetry')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
  await page.keyboard.press('Enter')
  await page.waitForFunction("document.activeElement.id === 'VPContent'")
})

test('on a phone, "Menu" shows the list of pages, and each page leads to the next', async () => {
  const page = await open('/docs/start', PHONE)
  await page.getByRole('button', { name: 'Menu' }).filter({ hasText: 'Menu' }).click()
  await page.getByRole('link', { name: 'Security' }).click()
  await page.waitForURL(`${cloud.url}/docs/security`)
  await page.goto(`${cloud.url}/docs/start`)
  await page.getByRole('link', { name: /^Next page/ }).click()
  await page.waitForURL(`${cloud.url}/docs/quickstarts/playwright`)
})

test('old addresses lead to their pages: with an ending, with a slash, with an anchor', async () => {
  for (const path of ['/docs/telemetry.html', '/docs/telemetry/', '/docs/telemetry#the-archive', '/docs/decisions/', '/docs/']) {
    const page = await open(path)
    await page.waitForLoadState('networkidle')
    expect([path, await page.getByRole('heading', { level: 1 }).innerText()]).toEqual([path, expect.stringMatching(/^(Telemetry|Decisions|Cob)/)])
    await person.leave()
  }
})

test('"Copy" copies the code, also where the clipboard API is missing', async () => {
  const page = await open('/docs/quickstarts/playwright', { permissions: ['clipboard-read', 'clipboard-write'] })
  const copy = async (text: string) => {
    const block = page.locator('[class*=language-]', { hasText: text })
    await block.hover()
    await block.getByRole('button', { name: 'Copy code' }).click()
    await block.locator('.copied').waitFor()
  }
  await copy('npm init')
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('npm init -y\nnpm install @onkernel/sdk playwright-core')
  // Simulate a page without TLS, which has no clipboard API.
  await page.evaluate("globalThis.kept = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
  await copy('connectOverCDP')
  expect(await page.evaluate('kept.readText()')).toMatch(/^import Kernel from '@onkernel\/sdk'\n.*\n\n.*\n\}$/s)
})

test('pages need no script, ask only this service, and their policy blocks nothing of their own', async () => {
  const plain = await open('/docs/telemetry', { javaScriptEnabled: false })
  expect(await plain.getByRole('heading', { name: /^Telemetry/, level: 1 }).isVisible()).toBe(true)
  expect(await plain.getByRole('button').count()).toBe(0)
  const page = await person.newPage()
  const said: string[] = []
  const asked = new Set<string>()
  page.on('console', (message) => said.push(message.text()))
  page.on('pageerror', ({ message }) => said.push(message))
  page.on('request', (request) => asked.add(new URL(request.url()).origin))
  for (const path of ['/docs', '/docs/start', '/docs/performance']) await page.goto(cloud.url + path)
  await find(page, 'session')
  expect([said, [...asked].filter((origin) => origin !== 'null')]).toEqual([[], [cloud.url]])
})

test('/docs/api shows the calls of this service', async () => {
  const page = await open('/docs/api')
  await page.locator('.opblock').first().waitFor({ timeout: FOUND_MS })
  expect(await page.getByRole('link', { name: 'Cob docs' }).getAttribute('href')).toBe('/docs')
})
