// Lists in a real browser, over a service without real sessions: paging, and the lines to copy, which are run as they are.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { builtDashboard, openDashboard, type Dashboard } from '../support/dashboard.ts'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'

const PROGRAM_MS = 60_000
const ENDED = 52

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let dashboard: Dashboard

beforeAll(async () => {
  await builtDashboard()
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0' }))
  dashboard = scope.use(await openDashboard(cloud))
})
afterAll(() => scope.disposeAsync())

test('the lines of an empty list work when they are pasted, in each language', async () => {
  const { page } = dashboard
  await page.getByRole('heading', { name: 'No browser runs' }).waitFor()
  const lines = async (language: string): Promise<string> => {
    await page.getByRole('tab', { name: language }).click()
    return (await page.getByRole('region', { name: language }).textContent())!
  }
  const [typescript, python, curl] = [await lines('TypeScript'), await lines('Python'), await lines('curl')]
  // Inside the checkout, where Node finds the SDK.
  mkdirSync(join(PACKAGE_DIR, '.cob'), { recursive: true })
  const folder = mkdtempSync(join(PACKAGE_DIR, '.cob/pasted-'))
  scope.defer(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'pasted.ts'), typescript)
  writeFileSync(join(folder, 'pasted.py'), python)
  const release = readFileSync(join(PACKAGE_DIR, 'test/data/python/releases.txt'), 'utf8').trim().split('\n').at(-1)!
  const env = {
    PATH: process.env.PATH,
    KERNEL_API_KEY: cloud.key,
    PYTHONPATH: join(PACKAGE_DIR, '.cob/python', release),
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const run = async (program: string, ...args: string[]) => (await promisify(execFile)(program, args, { env, timeout: PROGRAM_MS })).stdout
  expect(await run(process.execPath, join(folder, 'pasted.ts'))).toMatch(/^[a-z0-9]{24} ws:/)
  expect(await run(join(PACKAGE_DIR, '.cob/python/venv/bin/python'), join(folder, 'pasted.py'))).toMatch(/^[a-z0-9]{24} ws:/)
  expect(await run('sh', '-c', curl)).toMatch(/"session_id":"[a-z0-9]{24}"/)
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
  // Only a page that asks again says so.
  await page.route(/\/(browsers|proxies)\?/, (route) => route.abort())
  await open('sessions')
  await page.getByText('This page tries again by itself.').waitFor()
  await open('proxies')
  await page.getByText('Try again in a moment.').waitFor()
  await page.unrouteAll()
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('heading', { name: 'No proxies' }).waitFor()
})
