// The login applications themselves, without the login engine: each is driven as a person would, by Playwright in a Chromium of its own.
import { isRoot } from '../../src/base/user.ts'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { processesUsing } from '../../src/base/processes.ts'
import { sendings, type LoginApp } from './app.ts'
import { TESTED } from './list.ts'
import { startLoginNet, type LoginNet } from './net.ts'
import { SCRATCH_PREFIX } from './program.ts'
import { totpCode } from './totp.ts'

let browser: Browser
let net: LoginNet
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  net = ended.use(await startLoginNet([]))
  browser = await chromium.launch({
    executablePath: '/usr/lib/chromium/chromium',
    chromiumSandbox: !isRoot(),
    proxy: { server: `http://127.0.0.1:${net.port}` },
  })
  ended.defer(() => browser.close())
})
afterAll(() => ended.disposeAsync())

/** What a person does on each application's log-in page, which is open. */
const LOGINS: Record<string, (page: Page, user: Record<string, string>) => Promise<void>> = {
  async 'oidc-provider'(page, user) {
    await page.getByPlaceholder('Enter any login').fill(user.username!)
    await page.getByPlaceholder('and password').fill(user.password!)
    await page.getByRole('button', { name: 'Sign-in' }).click()
    await page.getByRole('button', { name: 'Continue' }).or(page.getByText('Invalid login')).first().waitFor()
    if (await page.getByRole('button', { name: 'Continue' }).isVisible()) await page.getByRole('button', { name: 'Continue' }).click()
  },
  async 'oidc-sso'(page, user) {
    await page.getByRole('link', { name: 'Log in with Identity' }).click()
    await LOGINS['oidc-provider']!(page, user)
  },
  async django(page, user) {
    await page.getByLabel('Username').fill(user.username!)
    await page.getByLabel('Password').fill(user.password!)
    await page.getByRole('button', { name: 'Log in' }).click()
  },
  async jupyter(page, user) {
    await page.getByLabel('Password:').fill(user.password!)
    await page.getByRole('button', { name: 'Log in' }).click()
  },
  async 'node-red'(page, user) {
    await page.locator('#node-dialog-login-username').fill(user.username!)
    await page.locator('#node-dialog-login-password').fill(user.password!)
    await page.locator('#node-dialog-login-submit').click()
  },
  async verdaccio(page, user) {
    await page.getByTestId('header--button-login').click()
    await page.locator('#login--dialog-username').fill(user.username!)
    await page.locator('#login--dialog-password').fill(user.password!)
    await page.locator('#login--dialog-button-submit').click()
  },
  async 'parse-dashboard'(page, user) {
    const fill = async () => {
      await page.locator('input[name=username]').fill(user.username!)
      await page.locator('input[name=password]').fill(user.password!)
    }
    await fill()
    await page
      .getByRole('button', { name: /log in/i })
      .or(page.locator('input[type=submit]'))
      .first()
      .click()
    await page.locator('input[name=otpCode]').or(page.getByText('Invalid username')).first().waitFor()
    if (!(await page.locator('input[name=otpCode]').isVisible())) return
    // It sends the form by itself after the last digit.
    await page.locator('input[name=otpCode]').pressSequentially(totpCode(user.totpSecret!))
    await page.waitForURL('**/apps')
  },
  async dokuwiki(page, user) {
    await page.getByRole('link', { name: 'Log In' }).first().click()
    await page.locator('input[name=u]').fill(user.username!)
    await page.locator('input[name=p]').fill(user.password!)
    await page.locator('#dw__login button[type=submit]').click()
  },
  async adminer(page, user) {
    await page.locator('input[name="auth[server]"]').fill(user.server!)
    await page.locator('input[name="auth[username]"]').fill(user.username!)
    await page.locator('input[name="auth[password]"]').fill(user.password!)
    await page.locator('input[name="auth[db]"]').fill(user.database!)
    await page.getByRole('button', { name: 'Login' }).click()
  },
  async roundcube(page, user) {
    await page.locator('#rcmloginuser').fill(user.username!)
    await page.locator('#rcmloginpwd').fill(user.password!)
    await page.locator('#rcmloginsubmit').click()
  },
  async simplesamlphp(page, user) {
    await page.locator('input[name=username]').fill(user.username!)
    await page.locator('input[name=password]').fill(user.password!)
    await page.getByRole('button', { name: 'Login' }).click()
  },
  async lemonldap(page, user) {
    await page.locator('input[name=user]').first().fill(user.username!)
    await page.locator('input[name=password]').first().fill(user.password!)
    await page.getByRole('button', { name: 'Connect' }).click()
    const choice = page.locator('button[name=sf][value=totp]')
    await choice.or(page.getByText('Wrong credentials')).first().waitFor()
    if (!(await choice.isVisible())) return
    await choice.click()
    await page.locator('input[name=code]').fill(totpCode(user.totpSecret!))
    await page.getByRole('button', { name: 'Connect' }).click()
    await page.getByText('Connected as').first().waitFor()
  },
  async cockpit(page, user) {
    await page.locator('#login-user-input').fill(user.username!)
    await page.locator('#login-password-input').fill(user.password!)
    await page.locator('#login-button').click()
    // The script keeps asking for the page that it leads to.
    await page.waitForTimeout(1_000)
  },
  async rabbitmq(page, user) {
    await page.locator('input[name=username]').fill(user.username!)
    await page.locator('input[name=password]').fill(user.password!)
    await page.locator('input[type=submit]').click()
    await page.waitForTimeout(1_000)
  },
  async 'calibre-web'(page, user) {
    await page.locator('#username').fill(user.username!)
    await page.locator('#password').fill(user.password!)
    await page.locator('#remember_me').check()
    await page.locator('button[name=submit]').first().click()
  },
  async 'flask-appbuilder'(page, user) {
    if (await page.locator('a[href*="/login"]').first().isVisible()) await page.locator('a[href*="/login"]').first().click()
    await page.locator('#username').fill(user.username!)
    await page.locator('#password').fill(user.password!)
    await page.locator('input[type=submit]').click()
  },
  async deluge(page, user) {
    await page.locator('input[name=password]').fill(user.password!)
    await page.getByRole('button', { name: 'Login' }).click()
    await page.waitForTimeout(1_000)
  },
  async mediawiki(page, user) {
    await page.locator('#wpName1').fill(user.username!)
    await page.locator('#wpPassword1').fill(user.password!)
    await page.locator('#wpLoginAttempt').click()
  },
  async phpmyadmin(page, user) {
    await page.locator('#input_username').fill(user.username!)
    await page.locator('#input_password').fill(user.password!)
    await page.locator('#input_go').click()
  },
  async qbittorrent(page, user) {
    await page.locator('#username').fill(user.username!)
    await page.locator('#password').fill(user.password!)
    await page.locator('#login, #loginButton').first().click()
    await page.waitForTimeout(1_000)
  },
  async ungit(page, user) {
    await page.locator('#inputUsername').fill(user.username!)
    await page.locator('#inputPassword').fill(user.password!)
    await page.getByRole('button', { name: 'Login' }).click()
    await page.waitForTimeout(1_000)
  },
  async znc(page, user) {
    await page.locator('#user').fill(user.username!)
    await page.locator('#pass').fill(user.password!)
    await page.locator('input[type=submit]').click()
  },
  async artemis(page, user) {
    await page.locator('#pf-login-username-id').fill(user.username!)
    await page.locator('#pf-login-password-id').fill(user.password!)
    await page.locator('button[type=submit]').click()
    await page.waitForTimeout(1_000)
  },
  async miniflux(page, user) {
    await page.locator('#form-username').fill(user.username!)
    await page.locator('#form-password').fill(user.password!)
    await page.locator('button[type=submit]').first().click()
  },
  async wordpress(page, user) {
    await page.locator('#user_login').fill(user.username!)
    await page.locator('#user_pass').fill(user.password!)
    await page.locator('#wp-submit').click()
  },
}

/** Whether a new tab with this page's cookies and storage shows the proof. */
async function provesLogin(page: Page, app: LoginApp): Promise<boolean> {
  const tab = await page.context().newPage()
  try {
    await tab.goto(app.proof.url)
    return await tab
      .getByText(app.proof.text)
      .first()
      .waitFor({ timeout: 3_000 })
      .then(
        () => true,
        () => false,
      )
  } finally {
    await tab.close()
  }
}

/** Folders of applications, and processes that use one. Empty when all have ended. */
const left = async () => [
  ...readdirSync(tmpdir()).filter((name) => name.startsWith(SCRATCH_PREFIX)),
  ...(await processesUsing(SCRATCH_PREFIX, '')).flatMap(({ pid }) => (pid === process.pid ? [] : [`process ${pid}`])),
]

afterEach(() => expect.poll(left).toEqual([]))

test.each(TESTED)('$name: a wrong password is refused, the right one logs in, and endSessions logs out', async ({ name, start }) => {
  await using app = await start()
  expect(app.name).toBe(name)
  net.add(app)
  const context = await browser.newContext()
  try {
    const page = await context.newPage()
    expect(await provesLogin(page, app)).toBe(false)
    const open = () => page.goto(app.loginUrl ?? app.homeUrl)
    await open()
    await LOGINS[name]!(page, { ...app.user, password: 'wrong-password-1' })
    await page.waitForLoadState('load')
    expect(await provesLogin(page, app)).toBe(false)
    await page.goto('about:blank')
    await open()
    await LOGINS[name]!(page, app.user)
    await expect.poll(() => provesLogin(page, app), { timeout: 20_000 }).toBe(true)
    expect(sendings(app, app.user.password!)).toBeGreaterThan(0)
    await app.endSessions()
    expect(await provesLogin(page, app)).toBe(false)
  } finally {
    await context.close()
  }
})
