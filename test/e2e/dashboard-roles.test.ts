// The dashboard offers each role only what it may do. People sign in through an identity provider.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkPage, openDashboard } from '../support/dashboard.ts'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'
import { freePort } from '../support/free-port.ts'
import { startIdentityProvider, type IdentityProvider } from '../support/identity-provider.ts'

const scope = new AsyncDisposableStack()
let idp: IdentityProvider
let cloud: FastCloud
let session: string

beforeAll(async () => {
  const port = await freePort()
  idp = scope.use(await startIdentityProvider(port))
  idp.people.vera = { email: 'vera@team.test', email_verified: true, name: 'vera' }
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', ...idp.settings }))
  expect((await cloud.send('POST', '/org/members', { email: 'vera@team.test', role: 'viewer' })).status).toBe(201)
  session = (await cloud.create({ name: 'shared', timeout_seconds: 600 })).session_id
})
afterAll(() => scope.disposeAsync())

async function signInByProvider(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Continue with Team login' }).click()
  await page.fill('[name=login]', 'vera')
  await page.fill('[name=password]', 'x')
  await page.click('[type=submit]')
  await page.click('[type=submit]') // consent
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
}

test('a viewer looks and is offered nothing that the service would refuse', async () => {
  await using dashboard = await openDashboard(cloud, { key: null })
  const { page } = dashboard
  await page.getByRole('link', { name: 'Continue with Team login' }).waitFor()
  await checkPage(page, 'sign-in-provider')
  // Sign-in returns to the page that the person wanted.
  await dashboard.open('sessions?query=shared')
  await signInByProvider(page)
  expect(page.url()).toContain('/dashboard/sessions?query=shared')
  await page.getByRole('link', { name: 'shared' }).waitFor()
  await page.getByRole('button', { name: /Account: vera vera@team\.test/ }).waitFor()
  expect(await page.getByRole('button', { name: /^(New session|End)/ }).count()).toBe(0)
  await page.getByRole('link', { name: 'shared' }).click()
  await page.getByRole('heading', { name: 'shared', level: 1 }).waitFor()
  const tabs = await page.getByRole('navigation', { name: 'Of this session' }).getByRole('link').allTextContents()
  expect(tabs).toEqual(['Live view', 'Events', 'Files', 'Logs', 'Replays', 'Details'])
  for (const name of ['End session', 'Take control']) expect(await page.getByRole('button', { name }).count()).toBe(0)
  await dashboard.open(`sessions/${session}/files?path=/`)
  await page.getByRole('button', { name: 'Refresh' }).waitFor()
  expect(await page.getByRole('button', { name: /^(Upload|New folder|Delete|Download)/ }).count()).toBe(0)
  await dashboard.open(`sessions/${session}/terminal`)
  await page.getByTitle('Live view of the browser').waitFor()
  await dashboard.open(`sessions/${session}/details`)
  await page.getByText('Ends after').waitFor()
  expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0)
})

test('a key that is deleted ends the sign-in: the next thing that is asked for shows the page to sign in', async () => {
  const made = (await (await cloud.send('POST', '/org/api_keys', { name: 'short-lived' })).json()) as { id: string; key: string }
  await using dashboard = await openDashboard(cloud, { key: made.key })
  await dashboard.page.getByRole('link', { name: 'shared' }).waitFor()
  expect((await cloud.fetch(`/org/api_keys/${made.id}`, { method: 'DELETE' })).status).toBe(204)
  await dashboard.page.getByRole('heading', { name: 'Sign in to Cob' }).waitFor()
})
