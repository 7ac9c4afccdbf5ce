// The pages of apps and of managed logins in a real browser: a real app is built and run, and a real login is under way.
import { createServer } from 'node:http'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import { zipOf } from '../support/apps.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import type { Actions } from '../support/dashboard-actions.ts'
import { checkPage, openDashboard, type Dashboard } from '../support/dashboard.ts'
import { serveSockets } from '../support/upstreams.ts'

const HOSTILE = '<img src=x onerror=alert(1)>'
/** The first install downloads packages. */
const BUILD_MS = 180_000

let cloud: Cloud
let dashboard: Dashboard
let page: Page
let actions: Actions
let files: string
let site: { port: number }
const ended = new AsyncDisposableStack()

beforeAll(async () => {
  // Runs keep a sandbox ready; a shared service must not keep it after this file.
  cloud = ended.use(await startCloud())
  dashboard = ended.use(await openDashboard(cloud))
  ;({ page, actions } = dashboard)
  files = mkdtempSync(join(tmpdir(), 'cob-pages-'))
  ended.defer(() => rmSync(files, { recursive: true }))
  const label = HOSTILE.replaceAll('<', '&lt;')
  const server = createServer((_request, response) =>
    response
      .setHeader('content-type', 'text/html')
      .end(
        `<title>Log in</title><form method="post"><label>${label} Email <input type="email" name="email"></label><label>Password <input type="password" name="password"></label><button>Log in</button></form>`,
      ),
  )
  site = ended.use(await serveSockets(server))
})
afterAll(() => ended.disposeAsync())

const SOURCE = `
  import Kernel from '@onkernel/sdk'
  const app = new Kernel().app('shouting')
  app.action('shout', async (ctx, payload) => {
    console.log('${HOSTILE} said ' + payload.text)
    if (payload.slow) await new Promise((resolve) => setTimeout(resolve, 60_000))
    return { loud: payload.text.toUpperCase() }
  })`

test(
  'apps are deployed with their build in view, invoked with a payload, stopped and deleted',
  async () => {
    await dashboard.open('apps')
    await actions.heading('No apps', 2).waitFor()
    await dashboard.open('invocations')
    await actions.heading('No invocations', 2).waitFor()
    const zip = join(files, 'app.zip')
    writeFileSync(zip, await zipOf({ 'index.ts': SOURCE, 'package.json': JSON.stringify({ type: 'module', dependencies: { '@onkernel/sdk': '0.84.0' } }) }))
    await dashboard.open('deployments')
    await actions.heading('No deployments', 2).waitFor()
    await actions.press('Deploy')
    await actions.choose(/Choose a file/, zip)
    await actions.dialog().getByLabel('Entry point').fill('index.ts')
    await actions.dialog().getByLabel('Variables').fill('TOKEN=canary-of-a-variable')
    expect(await problemsOf(page)).toEqual([])
    await actions.inDialog('Deploy')
    await page.waitForURL(/\/deployments\/\w+/)
    const log = page.getByRole('log')
    await log.getByText('— running —').waitFor({ timeout: BUILD_MS })
    await page.getByText('Running', { exact: true }).waitFor()
    expect(await page.content()).not.toContain('canary-of-a-variable')
    await checkPage(page, 'deployment')
    const deployment = page.url()
    await page.getByRole('link', { name: 'Invoke' }).click()
    await actions.row(/shouting.*latest.*shout/).waitFor()
    await checkPage(page, 'apps')

    await actions.press('Invoke shouting latest')
    await actions.dialog().getByLabel('Payload').fill('{"text": ')
    await actions.inDialog('Invoke')
    await actions.says(/This is not JSON/)
    await actions.dialog().getByLabel('Payload').fill('{"text": "hello"}')
    await actions.inDialog('Invoke')
    await actions.heading('shouting · shout').waitFor()
    await log.getByText(`${HOSTILE} said hello`).waitFor({ timeout: 60_000 })
    await page.getByRole('region', { name: 'Output' }).getByText('"loud": "HELLO"').first().waitFor()
    await page.getByText('Succeeded', { exact: true }).waitFor()
    await checkPage(page, 'invocation')

    await dashboard.open('apps')
    await actions.press('Invoke shouting latest')
    await actions.dialog().getByLabel('Payload').fill('{"text": "slow", "slow": true}')
    await actions.inDialog('Invoke')
    await log.getByText('said slow').waitFor({ timeout: 60_000 })
    await page.getByText('It has none now.').waitFor()
    await actions.press('Stop', 'Stop')
    await page.getByText('Failed', { exact: true }).waitFor()
    await dashboard.open('invocations?status=failed')
    await actions.row(/shouting · shout/).waitFor()
    expect(await actions.row(/shouting · shout/).count()).toBe(1)
    await page.getByLabel('State').selectOption('Any state')
    await expect.poll(() => actions.row(/shouting · shout/).count()).toBe(2)
    await checkPage(page, 'invocations')
    await page.goto(deployment)
    await page.getByRole('button', { name: /^Delete/ }).click()
    await actions.confirm('Delete')
    await page.waitForURL(/\/deployments$/)
    await dashboard.open('apps')
    await actions.heading('No apps', 2).waitFor()
  },
  BUILD_MS + 120_000,
)

test('a build that fails says why', async () => {
  const { id } = await cloud.client.deployments.create({
    entrypoint_rel_path: 'index.ts',
    file: new File([new Uint8Array(await zipOf({ 'other.ts': '', 'package.json': '{"type": "module"}' }))], 'app.zip'),
  })
  await dashboard.open(`deployments/${id}`)
  await actions.heading('The build has failed', 2).waitFor({ timeout: 60_000 })
  await checkPage(page, 'deployment-failed')
  await cloud.client.deployments.delete(id)
})

test('managed logins are created, begun, continued on their page, and deleted; what the site says is text', async () => {
  const { port } = site
  await dashboard.open('logins')
  await actions.heading('No managed logins', 2).waitFor()
  await actions.press('New managed login')
  expect(await actions.dialog().getByLabel('Keep what a person types').isChecked()).toBe(true)
  await actions.dialog().getByLabel('Domain').fill('https://host.cob.internal')
  await actions.dialog().getByLabel('Profile').fill('logged-in')
  await actions.inDialog('Create')
  await actions.says(/must be a host name/)
  expect(await problemsOf(page)).toEqual([])
  await actions.dialog().getByLabel('Domain').fill('host.cob.internal')
  await actions.dialog().getByLabel('Page of the login').fill(`http://host.cob.internal:${port}/`)
  await actions.inDialog('Create')
  await actions.heading('host.cob.internal').waitFor()
  await page.getByText('No login and no check yet.').waitFor()
  const connection = page.url().split('/').at(-1)!
  await actions.press('Change')
  await actions.dialog().getByLabel('More hosts where it may be typed').fill('login.host.cob.internal')
  await actions.dialog().getByLabel('Checked every so many seconds').fill('1')
  await actions.dialog().getByText('Record logins').click()
  await actions.inDialog('Save')
  await actions.isWrong('Checked every so many seconds')
  expect(await problemsOf(page)).toEqual([])
  await actions.dialog().getByLabel('Checked every so many seconds').fill('7200')
  await actions.inDialog('Save')
  await actions.dialog().waitFor({ state: 'detached' })
  await page.getByText('login.host.cob.internal').waitFor()
  expect(await cloud.client.auth.connections.retrieve(connection)).toMatchObject({
    allowed_domains: ['login.host.cob.internal'],
    health_check_interval: 7200,
    record_session: true,
    save_credentials: true,
    login_url: `http://host.cob.internal:${port}/`,
  })
  await actions.press('Log in')
  const asks = page.getByRole('region', { name: 'Last login' })
  await asks.getByText(/awaiting input/).waitFor({ timeout: 60_000 })
  expect(await asks.textContent()).toContain(HOSTILE)
  await actions.row(/Login/).waitFor()
  await checkPage(page, 'login')
  const opened = page.waitForEvent('popup')
  await page.getByRole('link', { name: 'Continue the login' }).click()
  const hosted = await opened
  await hosted.getByRole('button', { name: 'Continue' }).click()
  await hosted
    .getByLabel(/Password/)
    .first()
    .waitFor()
  await hosted.close()
  await dashboard.open('logins')
  await actions.row(/host\.cob\.internal.*Needs a login/).waitFor()
  await checkPage(page, 'logins')
  await page.getByRole('link', { name: 'host.cob.internal' }).click()
  await actions.press('Delete host.cob.internal', 'Delete')
  await actions.heading('No managed logins', 2).waitFor()
  await cloud.client.profiles.delete('logged-in')
})
