// The pages of everything in a project besides sessions, in a real browser: each page lists, creates, changes and deletes against a real service.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import { zipOf } from '../support/apps.ts'
import { checkPage, openDashboard, type Dashboard } from '../support/dashboard.ts'
import type { Actions } from '../support/dashboard-actions.ts'
import { forTests } from '../support/for-tests.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** These names would run as script if a page inserted them as markup. Names of pools and proxies are free text. */
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>'

let dashboard: Dashboard
let page: Page
let files: string
let actions: Actions
const ended = new AsyncDisposableStack()

const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  dashboard = ended.use(await openDashboard(cloud))
  ;({ page, actions } = dashboard)
  files = mkdtempSync(join(tmpdir(), 'cob-pages-'))
  ended.defer(() => rmSync(files, { recursive: true }))
})
afterAll(() => ended.disposeAsync())

describe('browser pools', () => {
  test('are created, changed, lent from, flushed and deleted; the form says which field is wrong', async () => {
    await dashboard.open('pools')
    await actions.heading('No pools', 2).waitFor()
    await checkPage(page, 'pools-empty')
    await page.getByRole('button', { name: 'New pool' }).focus()
    await page.keyboard.press('Enter')
    await actions.dialog().waitFor()
    expect(await problemsOf(page)).toEqual([])
    await actions.dialog().getByLabel('Browsers', { exact: true }).fill('many')
    await actions.inDialog('Create')
    await actions.says('Write a number.')
    await actions.dialog().getByLabel('Browsers', { exact: true }).fill('0')
    await actions.inDialog('Create')
    // The form shows the service's error next to its field.
    const size = actions.dialog().getByLabel('Browsers', { exact: true })
    await expect.poll(() => size.getAttribute('aria-invalid')).toBe('true')
    expect(await problemsOf(page)).toEqual([])
    await size.fill('1')
    await actions.dialog().getByLabel('Name').fill(HOSTILE)
    await actions.dialog().getByLabel('A lent browser ends after so many idle seconds').fill('600')
    await page.keyboard.press('Enter')
    await actions.heading(HOSTILE).waitFor()
    const [pool] = (await cloud.client.browserPools.list()).items
    expect(pool).toMatchObject({ name: HOSTILE, browser_pool_config: { size: 1, timeout_seconds: 600 } })
    await page.getByText('1 idle and 0 lent, of 1').waitFor({ timeout: 60_000 })
    await actions.press('Acquire')
    await page.waitForURL(/\/sessions\//)
    const session = page.url().split('/').at(-1)!
    await dashboard.open(`pools/${pool!.id}`)
    await actions.row(new RegExp(session)).waitFor()
    await checkPage(page, 'pool')
    await actions.press(`Discard ${session}`, 'Discard')
    await actions.row(new RegExp(session)).waitFor({ state: 'detached' })
    expect((await cloud.fetch(`/browsers/${session}`)).status).toBe(404)
    await actions.press('Change')
    await actions.dialog().getByLabel('Start page').fill('about:blank')
    await actions.dialog().getByLabel('Policies of Chromium').fill('{"BookmarkBarEnabled": true}')
    await actions.dialog().getByLabel('Extensions').fill('no-such-extension')
    await actions.inDialog('Save')
    // The dialog stays open and shows the typed text and the service's error.
    await actions.says('0.name: there is no such extension.')
    await actions.dialog().getByLabel('Extensions').fill('')
    await actions.dialog().getByLabel('Reaches only these hosts').fill('example.com\nhttps://not.a.host/')
    await actions.inDialog('Save')
    await actions.says(/^allowed_hosts\.1: |^1: /)
    await actions.dialog().getByLabel('Reaches only these hosts').fill('example.com\n*.example.org')
    await actions.dialog().getByLabel('Reaches these without a proxy').fill('10.0.0.0/8')
    await actions.inDialog('Save')
    await actions.dialog().waitFor({ state: 'detached' })
    expect((await cloud.client.browserPools.retrieve(pool!.id)).browser_pool_config).toMatchObject({
      start_url: 'about:blank',
      chrome_policy: { BookmarkBarEnabled: true },
      network: { allowed_hosts: ['example.com', '*.example.org'], private_hosts: ['10.0.0.0/8'] },
    })
    // Empty lists remove the limits on hosts.
    await actions.press('Change')
    await actions.dialog().getByLabel('Reaches only these hosts').fill('')
    await actions.dialog().getByLabel('Reaches these without a proxy').fill('')
    await actions.inDialog('Save')
    await actions.dialog().waitFor({ state: 'detached' })
    expect((await cloud.client.browserPools.retrieve(pool!.id)).browser_pool_config).not.toHaveProperty('network')
    await actions.press('Flush', 'Flush')
    await dashboard.open('pools')
    await actions.row(/onerror/).waitFor()
    await checkPage(page, 'pools')
    await page.getByRole('link', { name: HOSTILE }).click()
    await actions.press('Delete', 'Delete')
    await actions.heading('No pools', 2).waitFor()
  })
})

describe('profiles', () => {
  test('are created, renamed and deleted; versions are listed, restored and downloaded', async () => {
    await dashboard.open('profiles')
    await actions.heading('No profiles', 2).waitFor()
    await checkPage(page, 'profiles-empty')
    await actions.press('New profile')
    await actions.dialog().getByLabel('Name').fill('not a name')
    await actions.inDialog('Create')
    await actions.says(/must have 1 to 255 letters/)
    await actions.dialog().getByLabel('Name').fill('shop')
    await actions.inDialog('Create')
    await actions.heading('shop').waitFor()
    const id = page.url().split('/').at(-1)!
    for (let time = 0; time < 2; time++) {
      const { session_id: session } = await cloud.client.browsers.create({ profile: { name: 'shop', save_changes: true } })
      await cloud.remove(session)
    }
    await page.reload()
    await expect.poll(() => actions.row(/Sessions load this one|ago|now/).count(), { timeout: 60_000 }).toBe(2)
    await checkPage(page, 'profile')
    await actions.press('Restore', 'Restore')
    const versions = (await (await cloud.fetch(`/profiles/${id}/versions`)).json()) as { current: boolean }[]
    expect(versions.map(({ current }) => current)).toEqual([false, true])
    const download = page.waitForEvent('download')
    await actions.press('Download')
    const file = await download
    expect(file.suggestedFilename()).toBe('shop.tar.zst')
    expect(
      readFileSync((await file.path())!)
        .subarray(0, 4)
        .toString('hex'),
    ).toBe('28b52ffd')
    await actions.press('Rename')
    await actions.dialog().getByLabel('Name').fill('store')
    await actions.inDialog('Save')
    await actions.heading('store').waitFor()
    await actions.press('Delete store', 'Delete')
    await actions.heading('No profiles', 2).waitFor()
  })
})

describe('proxies', () => {
  test('are created, checked and deleted; the fields follow the type, and a refusal stands at its field', async () => {
    await dashboard.open('proxies')
    await actions.heading('No proxies', 2).waitFor()
    await actions.press('New proxy')
    await actions.dialog().getByLabel('Type').selectOption('Residential')
    await actions.dialog().getByLabel('Zip code').waitFor()
    await actions.dialog().getByLabel('Host', { exact: true }).waitFor({ state: 'detached' })
    await actions.dialog().getByLabel('City').fill('berlin')
    await actions.inDialog('Create')
    await actions.isWrong('Country')
    await actions.dialog().getByLabel('Type').selectOption('A server of your own')
    await actions.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE)
    await actions.dialog().getByLabel('Host', { exact: true }).fill('127.0.0.1')
    await actions.dialog().getByLabel('Port').fill('9')
    await actions.dialog().getByLabel('User name').fill('me')
    await actions.dialog().getByLabel('Password').fill('canary-of-a-password')
    await actions.inDialog('Create')
    await actions.row(/onerror/).waitFor()
    expect((await cloud.client.proxies.list()).items).toMatchObject([{ name: HOSTILE, config: { host: '127.0.0.1', port: 9, has_password: true } }])
    expect(await page.content()).not.toContain('canary-of-a-password')
    await actions.press(`Check ${HOSTILE}`)
    await page.getByText('It does not work').waitFor()
    await page.getByRole('alertdialog', { name: 'It does not work' }).getByLabel('Close').click()
    await page.getByText('Does not work', { exact: true }).waitFor()
    await checkPage(page, 'proxies')
    await actions.press(`Rename ${HOSTILE}`)
    await actions.dialog().getByLabel('Name', { exact: true }).fill('office')
    await actions.inDialog('Save')
    await actions.row(/office/).waitFor()
    await actions.press('Delete office', 'Delete')
    await actions.heading('No proxies', 2).waitFor()
  })
})

describe('extensions', () => {
  test('are uploaded, downloaded and deleted', async () => {
    await dashboard.open('extensions')
    await actions.heading('No extensions', 2).waitFor()
    const zip = join(files, 'extension.zip')
    const content = { 'manifest.json': JSON.stringify({ manifest_version: 3, name: 'One', version: '1' }), 'noise.bin': randomBytes(1_000_000) }
    writeFileSync(zip, await zipOf(content))
    await actions.press('Upload')
    await actions.inDialog('Upload')
    await actions.says('Choose a file.')
    await actions.choose(/Choose a file/, zip)
    await actions.says('extension.zip')
    expect(await problemsOf(page)).toEqual([])
    await actions.dialog().getByLabel('Name').fill('one')
    // On a slow connection, the form shows the progress of the upload.
    const line = await page.context().newCDPSession(page)
    await line.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 400_000 })
    await actions.inDialog('Upload')
    await actions
      .dialog()
      .getByRole('button', { name: /^Upload… [1-9]\d? %$/ })
      .waitFor()
    await actions.row(/one/).waitFor()
    await line.detach()
    await checkPage(page, 'extensions')
    const download = page.waitForEvent('download')
    await actions.press('Download one')
    expect(readFileSync((await (await download).path())!)).toEqual(readFileSync(zip))
    await actions.press('Delete one', 'Delete')
    await actions.heading('No extensions', 2).waitFor()
  })
})
