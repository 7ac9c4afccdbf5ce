// The dashboard as a whole, in a real browser: signing in and out, the navigation, keyboard, themes.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cloud } from '../support/cloud.ts'
import { builtDashboard, checkPage, openDashboard, PHONE, problemsOf, signIn } from '../support/dashboard.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let cloud: Cloud
beforeAll(async () => {
  await builtDashboard()
  cloud = await shareCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())

test('somebody without a sign-in is asked for a key, told when it is wrong, and signed in with the right one until they sign out', async () => {
  await using dashboard = await openDashboard(cloud, { key: null })
  const { page } = dashboard
  await page.getByRole('heading', { name: 'Sign in to Cob' }).waitFor()
  await checkPage(page, 'sign-in')
  await page.getByLabel('API key').fill('cob_wrong')
  await page.keyboard.press('Enter')
  await page.getByText(/key/i).and(page.locator('.problem')).waitFor()
  expect(await problemsOf(page)).toEqual([])
  await signIn(page, cloud.key)
  await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
  expect(await page.title()).toBe('Sessions · Cob')
  // Scripts cannot read what the browser is signed in with, and the key is nowhere.
  expect(await page.evaluate('document.cookie')).toBe('')
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(cloud.key)
  await page.reload()
  await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
  await page.getByRole('button', { name: /^Account/ }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to Cob' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in to Cob' }).waitFor()
})

test('the service answers the application to browsers at `/` and below `/dashboard`, and text and errors to programs', async () => {
  const get = (path: string, accept = 'text/html,*/*') => fetch(`${cloud.url}${path}`, { headers: { accept } })
  for (const path of ['/', '/dashboard', '/dashboard/', '/dashboard/sessions/abc/files', '/dashboard/a%2Fb']) {
    const answer = await get(path)
    expect(answer.status, path).toBe(200)
    expect(answer.headers.get('content-security-policy')).toMatch(/script-src 'self';.*frame-ancestors 'none'; require-trusted-types-for 'script'/)
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('cache-control')).toBe('no-store')
  }
  const nonces = await Promise.all([1, 2].map(async () => /nonce-([^']+)/.exec((await get('/')).headers.get('content-security-policy')!)![1]!))
  expect(nonces[0]).not.toBe(nonces[1])
  const html = await (await get('/')).text()
  expect(html).not.toContain('__COB_NONCE__')
  expect(html).not.toMatch(/<script(?![^>]*src=)/)
  const script = /\/dashboard\/assets\/[\w-]+\.js/.exec(html)![0]
  for (const encoding of ['br', 'gzip', 'identity']) {
    const answer = await fetch(`${cloud.url}${script}`, { headers: { 'accept-encoding': encoding } })
    expect(answer.headers.get('content-encoding')).toBe(encoding === 'identity' ? null : encoding)
    expect(answer.headers.get('cache-control')).toMatch(/immutable/)
    expect(answer.headers.get('content-type')).toMatch(/^text\/javascript/)
    expect(await answer.text()).toContain('createRoot')
  }
  expect((await get('/dashboard/assets/no-such.js')).status).toBe(404)
  expect((await get('/dashboard/manifest.json', '*/*')).status).toBe(404)
  expect((await get('/dashboard/..%2f..%2fpackage.json', '*/*')).status).toBe(404)
  const text = await get('/', '*/*')
  expect(text.headers.get('content-type')).toMatch(/^text\/plain/)
  expect(await text.text()).toContain('the dashboard')
})

test('the keyboard alone reaches everything: past the navigation, through it, the account, and signing out', async () => {
  await using dashboard = await openDashboard(cloud)
  const { page } = dashboard
  await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
  await page.locator('body').press('Tab')
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Skip to the content')
  await page.getByRole('link', { name: 'Wall' }).focus()
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/dashboard\/wall$/)
  await page.getByRole('button', { name: /^Account/ }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('menuitemradio', { name: 'Dark' }).focus()
  await page.keyboard.press('Enter')
  await expect.poll(() => page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
  await page.reload()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
})

test('on a phone the navigation opens on demand, closes by Escape and by a choice', async () => {
  await using dashboard = await openDashboard(cloud, { key: null, viewport: PHONE, hasTouch: true, isMobile: true })
  const { page } = dashboard
  await page.getByLabel('API key').fill(cloud.key)
  await page.getByRole('button', { name: 'Sign in' }).tap()
  const menu = page.getByRole('button', { name: 'Navigation' })
  await menu.tap()
  const wall = page.getByRole('link', { name: 'Wall' })
  await wall.waitFor()
  expect(await problemsOf(page)).toEqual([])
  await page.keyboard.press('Escape')
  await wall.waitFor({ state: 'hidden' })
  await menu.tap()
  await wall.tap()
  await page.waitForURL(/\/dashboard\/wall$/)
  await wall.waitFor({ state: 'hidden' })
})

test('an address that nobody has is answered with a way back', async () => {
  await using dashboard = await openDashboard(cloud)
  await dashboard.open('no/such/page')
  await dashboard.page.getByRole('heading', { name: 'There is no such page' }).waitFor()
  await dashboard.page.getByRole('link', { name: 'Go to the sessions.' }).click()
  await dashboard.page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
})
