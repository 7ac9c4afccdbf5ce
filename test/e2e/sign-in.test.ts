// Signing in with a real Chromium: how the browser treats the cookie on our own pages and on other sites; and signing in through an identity provider.
import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'
import { freePort } from '../support/free-port.ts'
import { startIdentityProvider, type IdentityProvider } from '../support/identity-provider.ts'
import { invitePerson, type Person } from '../support/person.ts'
import { serveSockets } from '../support/upstreams.ts'

const scope = new AsyncDisposableStack()
let person: Person
let idp: IdentityProvider
let cloud: FastCloud
/** A page of another site, under another host name. */
let elsewhere: string
beforeAll(async () => {
  person = scope.use(await invitePerson())
  const port = await freePort()
  idp = scope.use(await startIdentityProvider(port))
  idp.people.ann = { email: 'ann@team.test', email_verified: true, name: 'Ann' }
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', ...idp.settings, COB_OIDC_FIRST_OWNER: 'ann@team.test' }))
  const { port: other } = scope.use(
    await serveSockets(createServer((_, response) => response.setHeader('content-type', 'text/html').end('<title>elsewhere</title>'))),
  )
  elsewhere = `http://localhost:${other}/`
})
afterEach(() => person.leave())
afterAll(() => scope.disposeAsync())

/** The status that a script of the page gets for a request, or that the browser refused it. */
const ask = (page: Page, url: string, init: object = {}): Promise<number | string> =>
  page.evaluate(
    async ([to, options]) =>
      fetch(to, options as RequestInit).then(
        (response) => response.status,
        () => 'refused',
      ),
    [url, init] as const,
  )
const OURS = { headers: { 'x-cob-dashboard': '1' } }

async function withKey(): Promise<Page> {
  const page = await person.newPage()
  await page.goto(`${cloud.url}/status`)
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: cloud.key }) }
  expect(await ask(page, '/sign-in/key', init)).toBe(204)
  return page
}

describe('a web browser that is signed in with a key', () => {
  test('is signed in for the script of our pages, which cannot read the cookie', async () => {
    const page = await withKey()
    expect(await ask(page, '/me', OURS)).toBe(200)
    expect(await ask(page, '/me')).toBe(401)
    expect(await page.evaluate('document.cookie')).toBe('')
    const [cookie] = await page.context().cookies()
    expect(cookie).toMatchObject({ name: 'cob_session', httpOnly: true, sameSite: 'Strict', path: '/' })
    expect(await ask(page, '/sign-out', { method: 'POST', ...OURS })).toBe(204)
    expect([await ask(page, '/me', OURS), await page.context().cookies()]).toEqual([401, []])
  })

  test('opens no address with its rights: not by navigation, image, frame, form or EventSource', async () => {
    const page = await withKey()
    expect((await page.goto(`${cloud.url}/browsers`))!.status()).toBe(401)
    const seen: Record<string, number> = {}
    page.on('response', (response) => {
      const { pathname, search } = new URL(response.url())
      if (pathname === '/profiles') seen[search.slice(1)] = response.status()
    })
    await page.goto(`${cloud.url}/status`)
    await page.setContent(`<img src="${cloud.url}/profiles?image"><iframe src="${cloud.url}/profiles?frame"></iframe>`)
    await page.evaluate(`new EventSource('${cloud.url}/profiles?events')`)
    // The form leaves the page, which ends what has no answer yet.
    await expect.poll(() => seen).toEqual({ image: 401, frame: 401, events: 401 })
    await page.evaluate(
      `document.body.insertAdjacentHTML('beforeend', '<form method="post" action="${cloud.url}/profiles?form"></form>'); document.forms[0].submit()`,
    )
    await expect.poll(() => seen.form).toBe(401)
  })

  test('does nothing for a page elsewhere', async () => {
    const page = await withKey()
    await page.goto(elsewhere)
    for (const credentials of ['include', 'same-origin'])
      for (const init of [
        { credentials },
        { credentials, ...OURS },
        { credentials, method: 'POST', ...OURS },
        { credentials, method: 'POST', mode: 'no-cors', ...OURS },
        { credentials, method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body: '{}' },
      ])
        expect(await ask(page, `${cloud.url}/profiles`, init)).not.toBe(200)
    expect(await ask(page, `${cloud.url}/sign-out`, { method: 'POST', credentials: 'include', mode: 'no-cors' })).not.toBe(204)
    expect(await cloud.query('select from profiles')).toEqual([])
    await page.goto(`${cloud.url}/status`)
    expect(await ask(page, '/me', OURS)).toBe(200)
  })
})

describe('a person with an identity provider', () => {
  const signIn = async (page: Page, name: string) => {
    await page.goto(`${cloud.url}/dashboard/sessions?query=shared`)
    await page.getByRole('link', { name: 'Continue with Team login' }).click()
    await page.fill('[name=login]', name)
    await page.fill('[name=password]', 'x')
    await page.click('[type=submit]')
    await page.click('[type=submit]') // consent
    await page.waitForURL((url) => url.port === new URL(cloud.url).port)
  }

  test('is signed in when they come back, with the cookie that the web browser takes from there', async () => {
    const page = await person.newPage()
    await signIn(page, 'ann')
    expect(page.url()).toBe(`${cloud.url}/dashboard/sessions?query=shared`)
    await page.getByRole('button', { name: /Account: Ann ann@team\.test/ }).waitFor()
    await page.goto(`${cloud.url}/status`)
    expect(await page.evaluate(`fetch('/me', { headers: { 'x-cob-dashboard': '1' } }).then((response) => response.json())`)).toMatchObject({
      principal: { type: 'user', email: 'ann@team.test', name: 'Ann' },
      role: 'owner',
    })
    expect((await page.context().cookies(cloud.url)).filter(({ name }) => name.startsWith('cob_'))).toMatchObject([{ name: 'cob_session', sameSite: 'Strict' }])
  })

  test('who is not let in reads why, and can try again by keyboard', async () => {
    idp.people.eve = { email: 'eve@team.test', email_verified: true, name: '<img src=x onerror=alert(1)>' }
    const page = await person.newPage()
    const dialogs: string[] = []
    page.on('dialog', (dialog) => (dialogs.push(dialog.message()), dialog.dismiss()))
    await signIn(page, 'eve')
    await expect.poll(() => page.textContent('main')).toContain('Ask an owner to invite eve@team.test')
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Try again with Team login')
    expect(dialogs).toEqual([])
    expect((await page.context().cookies(cloud.url)).filter(({ name }) => name.startsWith('cob_'))).toEqual([])
  })
})
