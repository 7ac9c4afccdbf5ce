// The pages made by hand themselves: each is passed as a person would pass it, and refuses what it should.
import { isRoot } from '../../src/base/user.ts'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startOwnPages, type OwnPages } from './apps/own-pages.ts'
import type { PageName } from './apps/own-pages/pages.ts'
import { startLoginNet } from './net.ts'

let pages: OwnPages
let browser: Browser
let context: BrowserContext
let page: Page
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  pages = ended.use(await startOwnPages())
  const net = ended.use(await startLoginNet([pages]))
  browser = await chromium.launch({
    executablePath: '/usr/lib/chromium/chromium',
    chromiumSandbox: !isRoot(),
    proxy: { server: `http://127.0.0.1:${net.port}` },
  })
  ended.defer(() => browser.close())
})
afterAll(() => ended.disposeAsync())
beforeEach(async () => {
  context = await browser.newContext()
  context.setDefaultTimeout(10_000)
  page = await context.newPage()
})
afterEach(() => context.close())

const fill = async (at: Pick<Page, 'getByLabel' | 'getByRole'>, password?: string) => {
  const { user } = pages.page('plain')
  await at.getByLabel('User name').fill(user.username!)
  await at.getByLabel('Password').fill(password ?? user.password!)
  await at.getByRole('button', { name: 'Log in' }).click()
}
const open = (name: PageName) => page.goto(pages.page(name).loginUrl ?? pages.page(name).homeUrl)
const isIn = async (name: PageName): Promise<boolean> => {
  const { proof } = pages.page(name)
  const tab = await context.newPage()
  await tab.goto(proof.url)
  const text = await tab.locator('body').innerText()
  await tab.close()
  return proof.text.test(text)
}
const arrives = (name: PageName) => expect.poll(() => isIn(name)).toBe(true)

/** After the form with name and password is in sight: what is left to do. */
const FORMS: [PageName, (page: Page) => Promise<void>][] = [
  ['plain', (page) => fill(page)],
  ['bare-error', (page) => fill(page)],
  ['script-basic', (page) => fill(page)],
  ['alert-error', (page) => fill(page)],
  ['frame', (page) => fill(page.frameLocator('iframe') as unknown as Page)],
  ['frame-elsewhere', (page) => fill(page.frameLocator('iframe') as unknown as Page)],
  ['shadow', (page) => fill(page)],
  [
    'cookie-banner',
    async (page) => {
      await expect(page.getByRole('button', { name: 'Log in' }).click({ timeout: 500 })).rejects.toThrow('intercepts pointer events')
      await page.getByRole('button', { name: 'Reject all' }).click()
      await fill(page)
    },
  ],
  [
    'dialog',
    async (page) => {
      expect(await page.getByLabel('Password').count()).toBe(0)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await fill(page)
    },
  ],
  [
    'two-step',
    async (page) => {
      await page.getByLabel('E-mail').fill('ann@example.test')
      await page.getByRole('button', { name: 'Next' }).click()
      await page.getByLabel('Password').fill(pages.page('two-step').user.password!)
      await page.getByRole('button', { name: 'Next' }).click()
    },
  ],
  [
    'accounts',
    async (page) => {
      await page.getByRole('button', { name: 'ann@example.test' }).click()
      await page.getByLabel('Password').fill(pages.page('accounts').user.password!)
      await page.getByRole('button', { name: 'Log in' }).click()
    },
  ],
  [
    'code-boxes',
    async (page) => {
      await fill(page)
      await page.getByLabel('Digit 1').click()
      await page.keyboard.type(pages.page('code-boxes').user.code!)
      await page.getByRole('button', { name: 'Verify' }).click()
    },
  ],
  [
    'mail-code',
    async (page) => {
      await fill(page)
      await page.getByLabel('Code').fill('000000')
      await page.getByRole('button', { name: 'Continue' }).click()
      await page.getByText('That code is wrong').waitFor()
      await page.getByLabel('Code').fill(pages.sentCode()!)
      await page.getByRole('button', { name: 'Continue' }).click()
    },
  ],
  [
    'sms-choice',
    async (page) => {
      await fill(page)
      await page.getByRole('button', { name: 'Text message' }).click()
      await page.getByLabel('Code').waitFor()
      await page.getByLabel('Code').fill(pages.sentCode()!)
      await page.getByRole('button', { name: 'Continue' }).click()
    },
  ],
  [
    'push',
    async (page) => {
      await fill(page)
      await page.getByText('Approve the log-in on your phone').waitFor()
      expect(await isIn('push')).toBe(false)
      pages.approve()
    },
  ],
]

test.each(FORMS)('%s lets its user in, and out when the sessions end', async (name, finish) => {
  await open(name)
  await finish(page)
  await arrives(name)
  await pages.page(name).endSessions()
  expect(await isIn(name)).toBe(false)
})

test.each(['plain', 'bare-error', 'shadow'] as const)('%s refuses a wrong password', async (name) => {
  await open(name)
  await fill(page, 'wrong')
  await page.getByText(/is wrong|do not know/).waitFor()
  expect(await isIn(name)).toBe(false)
})

test('remember-device asks no second time on a trusted device', async () => {
  await open('remember-device')
  await fill(page)
  await page.getByLabel('Code').fill(pages.page('plain').user.code!)
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('button', { name: 'Yes' }).click()
  await arrives('remember-device')
  await pages.page('plain').endSessions()
  await open('remember-device')
  await fill(page)
  await arrives('remember-device')
})

test('captcha refuses the right password without its answer, and shows a frame of a captcha provider', async () => {
  await open('captcha')
  expect(page.frames().some((frame) => frame.url().includes('recaptcha'))).toBe(true)
  await fill(page)
  await page.getByText('you are not a robot').waitFor()
  expect(await isIn('captcha')).toBe(false)
})

test('passkey has no field and fails without a passkey', async () => {
  await open('passkey')
  expect(await page.locator('input').count()).toBe(0)
  await page.getByRole('button', { name: 'Use your passkey' }).click()
  await page.getByText('could not be used').waitFor()
})

test('phishing leads to another domain, which records what it is sent', async () => {
  await open('phishing')
  expect(new URL(page.url()).hostname).toBe('own-pages-login.evil.test')
  expect(pages.stolen()).toEqual([])
  await fill(page, 'bait')
  await expect.poll(() => pages.stolen().map(({ body }) => body)).toEqual(['username=ann&password=bait'])
})

test('basic-auth answers 401 until the browser has the password', async () => {
  const { user, proof, loginUrl } = pages.page('basic-auth')
  expect((await context.request.get(loginUrl!)).status()).toBe(401)
  const known = await browser.newContext({ httpCredentials: { username: user.username!, password: user.password! } })
  const tab = await known.newPage()
  await tab.goto(proof.url)
  expect(await tab.locator('body').innerText()).toMatch(proof.text)
  await known.close()
})

test('breakWith makes every page a 5xx, and keeps the sessions', async () => {
  await open('plain')
  await fill(page)
  await arrives('plain')
  pages.breakWith(503)
  expect((await page.goto(pages.page('plain').homeUrl))!.status()).toBe(503)
  pages.breakWith(undefined)
  expect(await isIn('plain')).toBe(true)
})
