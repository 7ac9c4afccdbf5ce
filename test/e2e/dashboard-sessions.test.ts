// The pages of sessions in a real browser, over real sessions.
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import { checkPage, openDashboard, type Dashboard } from '../support/dashboard.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let dashboard: Dashboard
let page: Page
let session: Session

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  dashboard = await openDashboard(cloud)
  page = dashboard.page
  session = await openSession(cloud, {
    name: 'looked-at',
    tags: { team: 'search', run: '42' },
    viewport: { width: 1024, height: 768 },
    timeout_seconds: 600,
    telemetry: { enabled: true, browser: { page: { enabled: true }, console: { enabled: true } } },
  } as object)
  await session.page.goto(pages.url('watched.html'))
})
afterAll(async () => {
  await session?.[Symbol.asyncDispose]()
  await dashboard?.[Symbol.asyncDispose]()
})

const tab = (name: string) => page.getByRole('navigation', { name: 'Of this session' }).getByRole('link', { name })

describe('the list', () => {
  test('has running sessions with what they are, and filters by state, search and tags, which are in its address', async () => {
    await dashboard.open('sessions')
    const row = page.getByRole('row', { name: /looked-at/ })
    await row.waitFor()
    expect(await row.textContent()).toMatch(/Running.*1024×768/)
    await checkPage(page, 'sessions')
    await page.getByPlaceholder(/^Name, id/).fill('no-such-name')
    await page.getByRole('heading', { name: 'Nothing matches' }).waitFor()
    expect(page.url()).toContain('query=no-such-name')
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await row.waitFor()
    await page.getByPlaceholder('tag=value').fill('nonsense')
    await page.keyboard.press('Enter')
    await page.getByText('Write key=value').waitFor()
    await page.getByPlaceholder('tag=value').fill('team=search')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.url()).toContain('tag=team%3Dsearch')
    await row.waitFor()
    await page.getByRole('button', { name: 'Remove the tag team=search' }).click()
    await page.getByLabel('State').selectOption('Ended')
    await row.waitFor({ state: 'detached' })
    await page.goBack().catch(() => {})
  })

  test('says how to begin when there is nothing, in lines for this service', async () => {
    const { id } = await cloud.client.projects.create({ name: 'empty one' })
    try {
      await page.evaluate((project) => localStorage.setItem('cob.project', project), id)
      await dashboard.open('sessions')
      await page.getByRole('heading', { name: 'No browser runs' }).waitFor()
      await page.getByRole('tab', { name: 'curl' }).click()
      expect(await page.getByRole('region', { name: 'curl' }).textContent()).toBe(
        `curl -H "Authorization: Bearer $KERNEL_API_KEY" -X POST ${cloud.url}/browsers`,
      )
      await checkPage(page, 'sessions-empty')
      await page.getByLabel('Project').selectOption('Default')
      await page.getByRole('row', { name: /looked-at/ }).waitFor()
    } finally {
      await page.evaluate(() => localStorage.removeItem('cob.project'))
      await cloud.client.projects.delete(id)
    }
  })
})

describe('one session', () => {
  test('shows its live view, to watch first and to act in on demand', async () => {
    await dashboard.open(`sessions/${session.id}`)
    await page.getByRole('heading', { name: 'looked-at', level: 1 }).waitFor()
    const frame = page.frameLocator('iframe[title="Live view of the browser"]')
    await frame.locator('#screen canvas').waitFor()
    await checkPage(page, 'session-live')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: cloud.url })
    const copied = async (name: string): Promise<string> => {
      await page.getByRole('button', { name, exact: true }).click()
      await page.getByRole('button', { name: 'Copied' }).waitFor()
      return page.evaluate<string>('navigator.clipboard.readText()')
    }
    const { browser_live_view_url: control } = await cloud.client.browsers.retrieve(session.id)
    const watch = await copied('Copy link to watch')
    expect(watch.split('/').slice(0, -1)).toEqual(control!.split('/').slice(0, -1))
    expect(watch).not.toBe(control)
    await page.getByRole('button', { name: 'Take control' }).click()
    await page.getByText('Your mouse and keyboard act in the browser.').waitFor()
    await frame.locator('#screen canvas').waitFor()
    expect(await copied('Copy link to control')).toBe(control)
    // The service turns a control link into a read-only link. A link to watch is read-only already.
    const asked = async (url: string) => (await fetch(`${url}?readOnly=true`, { redirect: 'manual' })).status
    expect([await asked(control!), await asked(watch)]).toEqual([303, 200])
  })

  test('shows what happens as it happens, and what is kept after a reload', async () => {
    await dashboard.open(`sessions/${session.id}`)
    await tab('Events').click()
    await page.getByText('New events appear as they happen.').waitFor()
    expect(await page.title()).toBe('looked-at · Cob')
    await session.page.evaluate(`console.log('said just now')`)
    await page.getByText('said just now').first().waitFor()
    await page.reload()
    const line = page.getByText('said just now').first()
    await line.waitFor()
    await line.click()
    await page.getByText('"text": "said just now"').waitFor()
    await checkPage(page, 'session-events')
    await page.getByLabel('Category').selectOption('page')
    await line.waitFor({ state: 'detached' })
    await page.getByText('page load', { exact: true }).first().waitFor()
  })

  test('lists files, uploads, downloads and deletes them', async () => {
    await dashboard.open(`sessions/${session.id}/files`)
    await page.getByRole('button', { name: 'New folder' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('reports')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('button', { name: 'reports/' }).click()
    await page.getByRole('heading', { name: 'This folder is empty' }).waitFor()
    const content = Buffer.from('a,b\n1,2\n')
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Upload', exact: true }).click()])
    await chooser.setFiles({ name: 'table.csv', mimeType: 'text/csv', buffer: content })
    await page.getByText('The file has been uploaded').waitFor()
    await page.getByRole('row', { name: /table\.csv/ }).waitFor()
    const inside = await cloud.client.browsers.fs.readFile(session.id, { path: '/home/kernel/reports/table.csv' })
    expect(await inside.text()).toBe(content.toString())
    await checkPage(page, 'session-files')
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download table.csv' }).click()])
    expect(readFileSync((await download.path())!)).toEqual(content)
    await page.getByRole('button', { name: 'Delete table.csv' }).click()
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { name: 'This folder is empty' }).waitFor()
    // A large folder is shown in pages.
    await cloud.client.browsers.process.exec(session.id, { command: 'sh', args: ['-c', 'mkdir /tmp/many; cd /tmp/many; seq -f many-%g.txt 250 | xargs touch'] })
    await dashboard.open(`sessions/${session.id}/files?path=/tmp/many`)
    await page.getByText('1–200 of 250').waitFor()
    const rows = page.getByRole('row', { name: /many-/ })
    expect(await rows.count()).toBe(200)
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('201–250 of 250').waitFor()
    expect(await rows.count()).toBe(50)
    await dashboard.open(`sessions/${session.id}/files?path=/no/such`)
    await page.getByRole('heading', { name: 'This folder is not there' }).waitFor()
  })

  test('has a shell, which ends with its page', async () => {
    await dashboard.open(`sessions/${session.id}/terminal`)
    await page.getByText('Shift+Escape leaves the terminal.').waitFor()
    await page.keyboard.type('echo $((6 * 7))-is-it; stty size; echo shell=$$\n')
    const screen = page.locator('.terminal-box')
    await expect.poll(() => screen.textContent()).toContain('42-is-it')
    const rows = screen.locator('.xterm-rows')
    // The command has the word itself, and no number after it.
    await expect.poll(() => rows.textContent()).toMatch(/shell=\d/)
    const pid = /shell=(\d+)/.exec((await rows.textContent())!)
    expect(await problemsOf(page)).toEqual([])
    await checkPage(page, 'session-terminal')
    await page.locator('.xterm-helper-textarea').focus()
    await page.keyboard.press('Shift+Escape')
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Restart')
    expect(pid).not.toBeNull()
    await tab('Details').click()
    await page.getByRole('heading', { name: 'Name and tags' }).waitFor()
    const isAlive = async () => (await cloud.client.browsers.process.exec(session.id, { command: 'kill', args: ['-0', pid![1]!] })).exit_code === 0
    await expect.poll(isAlive).toBe(false)
  })

  test('shows the logs of its programs as they grow', async () => {
    await dashboard.open(`sessions/${session.id}/logs`)
    await page.getByText('New lines appear as they come.').waitFor()
    await page.getByRole('combobox', { name: 'Log' }).selectOption('A file')
    await cloud.client.browsers.process.exec(session.id, { command: 'sh', args: ['-c', 'echo first > /tmp/a.log'] })
    await page.getByLabel('Path').fill('/tmp/a.log')
    await page.getByRole('button', { name: 'Open' }).click()
    const log = page.getByRole('log')
    await log.getByText('first').waitFor()
    await page.getByText('New lines appear as they come.').waitFor()
    await cloud.client.browsers.process.exec(session.id, { command: 'sh', args: ['-c', 'echo second >> /tmp/a.log'] })
    await log.getByText('second').waitFor()
    expect(await log.getByText('first').count()).toBe(1)
    // An open log counts as use of the session, so a hidden tab must not keep the log open.
    const ended = page.waitForEvent('requestfailed', (request) => /follow=true/.test(request.url()))
    await page.evaluate(`Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`)
    await ended
    await page.getByText('New lines appear as they come.').waitFor({ state: 'detached' })
    await cloud.client.browsers.process.exec(session.id, { command: 'sh', args: ['-c', 'echo third >> /tmp/a.log'] })
    await page.evaluate(`delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))`)
    await log.getByText('third').waitFor()
    expect(await log.getByText('first').count()).toBe(1)
    await page.getByText('New lines appear as they come.').waitFor()
    await checkPage(page, 'session-logs')
  })

  test('records replays and plays them', async () => {
    await dashboard.open(`sessions/${session.id}/replays`)
    await page.getByRole('heading', { name: 'No replays' }).waitFor()
    await page.getByRole('button', { name: 'Record the screen' }).click()
    await page.getByRole('button', { name: 'Stop recording' }).waitFor()
    await session.page.reload()
    await page.getByRole('button', { name: 'Stop recording' }).click()
    await page.getByRole('button', { name: 'Download' }).waitFor()
    // While the service still stores the video, nothing is downloaded. Then the browser downloads it from its own address; the page does not hold it in memory.
    let asked = 0
    const seen = Promise.withResolvers<void>()
    await page.route(/\/replays\/\w+$/, async (route) => {
      if (asked++ === 0) return route.fulfill({ status: 202, headers: { 'retry-after': '0' } })
      await seen.promise
      return route.continue()
    })
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download' }).click()
    await page.getByRole('button', { name: 'Getting it ready…', disabled: true }).waitFor()
    seen.resolve()
    const film = await download
    await page.unrouteAll()
    expect(asked).toBe(2)
    expect(film.url()).toMatch(/\/replays\/\w+\/video\?jwt=/)
    expect(
      readFileSync((await film.path())!)
        .subarray(4, 8)
        .toString(),
    ).toBe('ftyp')
    await page.getByRole('button', { name: 'Play' }).click()
    await page.frameLocator('iframe[title="Player"]').locator('video').waitFor()
    await checkPage(page, 'session-replays')
  })

  test('changes its name and tags, and says what is wrong with them', async () => {
    await dashboard.open(`sessions/${session.id}/details`)
    await checkPage(page, 'session-details')
    await page.getByLabel('Tags').fill('nonsense')
    await page.getByText('Each line must be key=value.').waitFor()
    await page.getByLabel('Tags').fill('team = shop\nempty=')
    await page.getByRole('textbox', { name: 'Name' }).fill('renamed')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'renamed', level: 1 }).waitFor()
    expect(await cloud.client.browsers.retrieve(session.id)).toMatchObject({ name: 'renamed', tags: { team: 'shop', empty: '' } })
  })

  test('is started and ended here, by the keyboard, and shows after its end what is kept of it', async () => {
    await dashboard.open('sessions')
    await page.getByRole('button', { name: 'New session' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    expect(await problemsOf(page)).toEqual([])
    await page.getByRole('textbox', { name: 'Start page' }).fill('nonsense')
    await page.getByRole('textbox', { name: 'Name' }).fill('by hand')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByRole('textbox', { name: 'Start page' }).getAttribute('aria-invalid')).toBe('true')
    await page.getByRole('textbox', { name: 'Start page' }).fill('')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'by hand', level: 1 }).waitFor()
    const id = page.url().split('/').at(-1)!
    expect(await cloud.client.browsers.retrieve(id)).toMatchObject({ timeout_seconds: 600 })
    await page.getByRole('button', { name: 'End session' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('alertdialog').waitFor()
    expect(await problemsOf(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.getByRole('alertdialog').waitFor({ state: 'detached' })
    expect((await cloud.fetch(`/browsers/${id}`)).status).toBe(200)
    // The button gets the focus back a moment after the dialog has closed.
    await page.locator('button:focus', { hasText: 'End session' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('alertdialog').getByRole('button', { name: 'End' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('The session has ended').first().waitFor()
    expect((await cloud.fetch(`/browsers/${id}`)).status).toBe(404)
    await page.getByText('Ended', { exact: true }).waitFor()
    await checkPage(page, 'session-ended')
    await dashboard.open(`sessions/${id}/terminal`)
    await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
  })

  test('is started with a profile and saves into it, and tells how that went', async () => {
    const profile = await cloud.client.profiles.create({ name: 'kept' })
    try {
      await dashboard.open('sessions')
      await page.getByRole('button', { name: 'New session' }).click()
      await page.getByRole('combobox', { name: 'Profile' }).selectOption('kept')
      await page.getByText('Save what changes into it').click()
      expect(await problemsOf(page)).toEqual([])
      await page.getByRole('button', { name: 'Start', exact: true }).click()
      await tab('Details').click()
      await page.getByText('when it ends', { exact: true }).waitFor()
      await cloud.remove(page.url().split('/').at(-2)!)
      await page.getByText('All of it', { exact: true }).waitFor({ timeout: 60_000 })
      await page.getByRole('link', { name: 'kept' }).click()
      await page.getByText('Sessions load this one').waitFor()
    } finally {
      await cloud.client.profiles.delete(profile.id)
    }
  })

  test('that nobody has, or that is in another project, is a page that says so', async () => {
    await dashboard.open('sessions/abcdefghijklmnopqrstuvwx')
    await page.getByRole('heading', { name: 'This session is not there' }).waitFor()
    expect(await problemsOf(page)).toEqual([])
  })
})

describe('the wall', () => {
  test('shows the screen of each session, at most once a second, and asks for nothing while it cannot be seen', async () => {
    const asked: number[] = []
    const listen = (request: { url(): string }) => void (request.url().endsWith('/thumbnail') && asked.push(Date.now()))
    page.on('request', listen)
    try {
      await dashboard.open('wall')
      const tile = page.getByRole('link', { name: /renamed|looked-at/ })
      const picture = tile.locator('img')
      await picture.waitFor()
      expect(await page.evaluate(`document.querySelector('.tile img').naturalWidth`)).toBeGreaterThan(100)
      await checkPage(page, 'wall')
      const from = Date.now()
      await page.waitForTimeout(4_000)
      const times = asked.filter((at) => at >= from)
      expect(times.length).toBeGreaterThan(1)
      expect(times.length).toBeLessThanOrEqual(5)
      // Simulate that the person switches to another tab.
      await page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      )
      await page.waitForTimeout(1_500)
      const before = asked.length
      await page.waitForTimeout(2_500)
      expect(asked.length).toBe(before)
      await page.evaluate(`delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))`)
      await expect.poll(() => asked.length).toBeGreaterThan(before)
      // A tile that is not visible makes no requests.
      await page.evaluate(`document.querySelector('.wall').style.marginTop = '400vh'`)
      await page.waitForTimeout(1_500)
      const unseen = asked.length
      await page.waitForTimeout(2_500)
      expect(asked.length).toBe(unseen)
      await page.evaluate(`document.querySelector('.wall').style.marginTop = ''`)
      await tile.click()
      await page.getByRole('heading', { name: /renamed|looked-at/, level: 1 }).waitFor()
    } finally {
      page.off('request', listen)
    }
  })
})
