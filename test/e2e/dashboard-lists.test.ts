// Lists in a real browser, over a service without real sessions: paging, and the commands to copy, which the test runs unchanged.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDashboard, type Dashboard } from '../support/dashboard.ts'
import { startFastCloud } from '../support/fast-cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { runPasted, type Language } from '../support/pasted.ts'

const ENDED = 52

const scope = new AsyncDisposableStack()
let dashboard: Dashboard

const cloud = forTests(() => startFastCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  dashboard = scope.use(await openDashboard(cloud))
})
afterAll(() => scope.disposeAsync())

test('the lines of an empty list work when they are pasted, in each language', async () => {
  const { page } = dashboard
  await page.getByRole('heading', { name: 'No browser runs' }).waitFor()
  const lines: Partial<Record<Language, string>> = {}
  for (const language of ['TypeScript', 'Python', 'curl'] as const) {
    await page.getByRole('tab', { name: language }).click()
    lines[language] = (await page.getByRole('region', { name: language }).textContent())!
  }
  const pasted = (language: Language) => runPasted(language, lines[language]!, cloud.key)
  for (const language of ['TypeScript', 'Python'] as const) expect(await pasted(language)).toMatch(/^[a-z0-9]{24} ws:/)
  expect(await pasted('curl')).toMatch(/"session_id":"[a-z0-9]{24}"/)
  await expect.poll(() => page.getByRole('row').count()).toBe(1 + 3)
})

test('a long list pages forth and back, by its address too, and says when a page has become empty', async () => {
  for (let at = 0; at < ENDED; at++) {
    const { session_id: id } = await cloud.create({ name: `number ${at}` })
    expect((await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
  }
  const { page, open } = dashboard
  await open('sessions?status=deleted')
  const rows = page.getByRole('row', { name: /number/ })
  await expect.poll(() => rows.count()).toBe(50)
  expect(await page.getByRole('button', { name: 'Previous' }).isDisabled()).toBe(true)
  await page.getByRole('button', { name: 'Next' }).click()
  await expect.poll(() => rows.count()).toBe(ENDED - 50)
  expect(page.url()).toContain('offset=50')
  await page.getByText(`51–${ENDED}`).waitFor()
  expect(await page.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true)
  await page.reload()
  await expect.poll(() => rows.count()).toBe(ENDED - 50)
  await page.getByRole('button', { name: 'Previous' }).click()
  await expect.poll(() => rows.count()).toBe(50)
  await page.goBack()
  await expect.poll(() => rows.count()).toBe(ENDED - 50)
  await open('sessions?status=deleted&offset=500')
  await page.getByRole('button', { name: 'Remove the filters' }).click()
  await page.getByRole('table').waitFor()
})

test('a service that cannot be reached is said, with what is known meanwhile, and the list goes on by itself', async () => {
  const { page, open } = dashboard
  await open('sessions')
  await page.getByRole('table').waitFor()
  await page.route('**/browsers?*', (route) => route.abort())
  await page.getByText('The list may be out of date: The service cannot be reached.').waitFor()
  expect(await page.getByRole('table').count()).toBe(1)
  await page.unroute('**/browsers?*')
  await page.getByText('The list may be out of date').waitFor({ state: 'detached' })
  // A page promises to try again only if it polls.
  await page.route(/\/(browsers|proxies)\?/, (route) => route.abort())
  await open('sessions')
  await page.getByText('This page tries again by itself.').waitFor()
  await open('proxies')
  await page.getByText('Try again in a moment.').waitFor()
  await page.unrouteAll()
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('heading', { name: 'No proxies' }).waitFor()
})
