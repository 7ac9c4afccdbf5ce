// The dashboard as a whole, in a real browser: signing in and out, the navigation, keyboard, themes.
import { expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import { checkPage, openDashboard, PHONE, signIn } from '../support/dashboard.ts'
import { forTests } from '../support/for-tests.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const cloud = forTests(() => shareCloud())

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
  // Scripts cannot read the session cookie, and the page stores the key nowhere.
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

test('a key that is deleted ends the sign-in: the next thing that is asked for shows the page to sign in', async () => {
  const { id, key } = await cloud.client.apiKeys.create({ name: 'short-lived' })
  await using dashboard = await openDashboard(cloud, { key })
  await dashboard.page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
  await cloud.client.apiKeys.delete(id)
  await dashboard.page.getByRole('heading', { name: 'Sign in to Cob' }).waitFor()
})
