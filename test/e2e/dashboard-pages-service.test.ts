// The pages of the service itself in a real browser: audit log, exports, machine.
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { exportsTo } from '../support/audit-exports.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import type { Actions } from '../support/dashboard-actions.ts'
import { checkPage, openDashboard, PHONE, type Dashboard } from '../support/dashboard.ts'
import { runPasted } from '../support/pasted.ts'
import { s3Server, type S3Server } from '../support/s3.ts'

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>'
const CANARY = 'canary-of-a-secret'

let cloud: Cloud
let s3: S3Server
let dashboard: Dashboard
let page: Page
let actions: Actions

beforeAll(async () => {
  s3 = await s3Server()
  cloud = await startCloud(exportsTo(s3))
  dashboard = await openDashboard(cloud)
  ;({ page, actions } = dashboard)
})
afterAll(async () => {
  await dashboard?.[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
  await s3[Symbol.asyncDispose]()
})

test('the audit log is filtered, paged from the newest entry back, and downloaded', async () => {
  for (let time = 0; time < 60; time++) await cloud.fetch('/profiles/no-such-profile')
  await dashboard.open('audit-log')
  await actions.row(/GET/).first().waitFor()
  await checkPage(page, 'audit-log')
  await page.getByPlaceholder('Path, id, address or status').fill('no-such-profile')
  await expect.poll(() => page.url()).toContain('search=no-such-profile')
  await expect.poll(() => actions.row(/no-such-profile/).count()).toBe(50)
  await actions.press('Older')
  await expect.poll(() => actions.row(/no-such-profile/).count()).toBeLessThan(50)
  expect(page.url()).toContain('page_token=')
  const older = await actions.row(/no-such-profile/).count()
  expect(older).toBeGreaterThanOrEqual(10)
  await page.reload()
  await expect.poll(() => actions.row(/no-such-profile/).count()).toBe(older)
  await actions.press('To the newest')
  await expect.poll(() => actions.row(/no-such-profile/).count()).toBe(50)
  // The file has every entry, however many chunks the download needs.
  let chunks = 0
  await page.route(/\/audit-logs\/export\/chunk/, (route) => {
    chunks++
    return route.continue({
      url: route
        .request()
        .url()
        .replace(/limit=\d+/, 'limit=25'),
    })
  })
  const download = page.waitForEvent('download')
  await actions.press('Download')
  const file = await download
  await page.unrouteAll()
  expect(file.suggestedFilename()).toBe('audit-log.jsonl')
  const lines = (await readFile((await file.path())!, 'utf8')).trim().split('\n')
  expect(lines.length).toBeGreaterThanOrEqual(60)
  expect(chunks).toBe(Math.ceil(lines.length / 25))
  expect(new Set(lines).size).toBe(lines.length)
  expect(lines.every((line) => (JSON.parse(line) as { path: string }).path.includes('no-such-profile'))).toBe(true)
  await page.getByText(`The file has all ${lines.length} entries`).waitFor()
  // A phone hides the column of the caller.
  await page.setViewportSize(PHONE)
  await page
    .getByText(/^by api_key/)
    .first()
    .waitFor()
  await page.setViewportSize({ width: 1280, height: 800 })
  await page.getByLabel('Method').selectOption('DELETE')
  await actions.heading('Nothing matches', 2).waitFor()
})

test('the audit log of days long ago is reached by their dates', async () => {
  const at = new Date(Date.now() - 100 * 86_400_000)
  await cloud.query(
    `insert into audit_log (at, event_id, project_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id)
     values ($1, $2, null, 'GET', '/long-ago', '/long-ago', 200, 1, 'd', '', '', 'oauth', 'kim')`,
    [at, newId()],
  )
  await dashboard.open('audit-log?window=days')
  const day = (add: number) => new Date(at.getTime() + add * 86_400_000).toISOString().slice(0, 10)
  await page.getByLabel('From', { exact: true }).fill(day(-1))
  await page.getByLabel('to', { exact: true }).fill(day(40))
  await actions.heading('These are not days of one search', 2).waitFor()
  await page.getByLabel('to', { exact: true }).fill(day(1))
  await actions.row(/long-ago/).waitFor()
  await page.getByRole('combobox', { name: 'By', exact: true }).selectOption('Allowed programs')
  await expect.poll(() => page.url()).toContain('auth_strategy=oauth')
  await actions.row(/long-ago.*oauth/).waitFor()
  await checkPage(page, 'audit-log-days')
})

test('exports: a collector and a bucket are created, tested, paused and deleted', async () => {
  await dashboard.open('exports')
  await actions.heading('No collectors', 2).waitFor()
  await checkPage(page, 'exports-empty')
  await actions.press('New collector')
  await actions.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE)
  await actions.dialog().getByLabel('Endpoint').fill('ftp://example.com')
  await actions.dialog().getByLabel('Headers').fill(`authorization=${CANARY}`)
  await actions.inDialog('Create')
  await actions.says(/must be an http or https URL/)
  await actions.dialog().getByLabel('Endpoint').fill('https://1.1.1.1')
  await actions.inDialog('Create')
  await actions.row(/onerror.*1\.1\.1\.1.*authorization/i).waitFor()
  expect(await page.content()).not.toContain(CANARY)
  await checkPage(page, 'exports')
  await page.getByRole('link', { name: 'Audit log' }).last().click()
  await actions.heading('No buckets', 2).waitFor()
  // The copied command creates a bucket.
  await page.getByRole('tab', { name: 'curl', exact: true }).click()
  await runPasted('curl', (await page.getByRole('region', { name: 'curl', exact: true }).textContent())!, cloud.key)
  await page.reload()
  await actions.press('Delete logs', 'Delete')
  await actions.heading('No buckets', 2).waitFor()
  await actions.press('New bucket')
  await actions.dialog().getByLabel('Bucket', { exact: true }).fill('Not a bucket')
  await actions.dialog().getByLabel('Region').fill('eu-west-1')
  await actions.inDialog('Create')
  await actions.says(/must be the name of a bucket/)
  await actions.dialog().getByLabel('Bucket', { exact: true }).fill('logs')
  await actions.inDialog('Create')
  await actions.row(/logs.*Paused/).waitFor()
  await checkPage(page, 'exports-audit-log')
  await actions.press('Test logs')
  await page.getByText('An object has been written').waitFor()
  await actions.press('Start logs')
  await actions.row(/logs.*Active/).waitFor()
  await actions.press('Pause logs')
  await actions.row(/logs.*Paused/).waitFor()
  await actions.press('Delete logs', 'Delete')
  await actions.heading('No buckets', 2).waitFor()
  await page.getByRole('link', { name: 'Telemetry' }).click()
  await actions.press(`Delete ${HOSTILE}`, 'Delete')
  await actions.heading('No collectors', 2).waitFor()
})

test('the machine: its parts, seats, disk and version', async () => {
  await dashboard.open('machine')
  await page.getByText(/Version \d+\.\d+\.\d+/).waitFor()
  await page
    .getByRole('region', { name: 'Sessions' })
    .getByText(/^0 of \d+$/)
    .waitFor()
  await page.getByRole('region', { name: 'Disk' }).getByText(/free$/).waitFor()
  await page
    .getByRole('region', { name: 'Memory', exact: true })
    .getByText(/^\d.* [MG]iB free$/)
    .waitFor()
  expect(await page.getByRole('region', { name: 'Parts of the service' }).textContent()).toMatch(/Database.*Works/)
  await checkPage(page, 'machine')
})
