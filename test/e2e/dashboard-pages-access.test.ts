// The pages of keys, people, projects and credentials in a real browser, and what each role sees on them.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BACK, oauthFlow } from '../../src/control/access/oauth/flow.suite.ts'
import { register } from '../../src/control/access/oauth/register.suite.ts'
import { DEFAULT_PROJECT } from '../../src/control/access/projects/resolve.ts'
import type { Role } from '../../src/http/route.ts'
import { problemsOf } from '../support/axe.ts'
import { startCloud } from '../support/cloud.ts'
import type { Actions } from '../support/dashboard-actions.ts'
import { checkPage, openDashboard, type Dashboard } from '../support/dashboard.ts'
import { forTests } from '../support/for-tests.ts'
import { asPage, signedIn } from '../support/people.ts'

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>'
const CANARY = 'canary-of-a-secret'

let dashboard: Dashboard
let page: Page
let actions: Actions

const cloud = forTests(() => startCloud())
beforeAll(async () => {
  dashboard = await openDashboard(cloud)
  ;({ page, actions } = dashboard)
})
afterAll(async () => {
  await dashboard?.[Symbol.asyncDispose]()
})

test('API keys are made, shown once, rotated, and deleted; the key in use cannot delete itself', async () => {
  await dashboard.open('api-keys')
  await actions.row(/signed in with it/).waitFor()
  await checkPage(page, 'api-keys')
  await actions.press('New key')
  await actions.inDialog('Create')
  await actions.says('Fill this in.')
  expect(await problemsOf(page)).toEqual([])
  await actions.dialog().getByLabel('Name').fill(HOSTILE)
  await actions.dialog().getByLabel('Project').selectOption('Default')
  await actions.dialog().getByLabel('Expires after').fill('0')
  await actions.inDialog('Create')
  await actions.isWrong('Expires after')
  await actions.dialog().getByLabel('Expires after').fill('30')
  await actions.inDialog('Create')
  const key = (await actions.dialog().locator('code').textContent())!
  expect(await problemsOf(page)).toEqual([])
  const call = (bearer: string) => fetch(`${cloud.url}/profiles`, { headers: { authorization: `Bearer ${bearer}` } })
  expect((await call(key)).status).toBe(200)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: cloud.url })
  await actions.press('Copy the key')
  await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe(key)
  await actions.inDialog('Done')
  await actions.row(/onerror/).waitFor()
  expect(await page.content()).not.toContain(key)
  await actions.press(`Rotate ${HOSTILE}`)
  await actions.dialog().getByLabel('The old key expires').fill('0')
  await actions.inDialog('Rotate')
  const next = (await actions.dialog().locator('code').textContent())!
  await page.keyboard.press('Escape')
  await actions.dialog().waitFor({ state: 'detached' })
  expect((await call(next)).status).toBe(200)
  // The service caches a checked key for a moment.
  await expect.poll(async () => (await call(key)).status).toBe(401)
  await actions.row(/Expired/).waitFor()
  await checkPage(page, 'api-keys-more')
  while ((await page.getByRole('button', { name: `Delete ${HOSTILE}` }).count()) > 0) {
    const before = await page.getByRole('button', { name: `Delete ${HOSTILE}` }).count()
    await page
      .getByRole('button', { name: `Delete ${HOSTILE}` })
      .first()
      .click()
    await actions.confirm('Delete')
    await expect.poll(() => page.getByRole('button', { name: `Delete ${HOSTILE}` }).count()).toBeLessThan(before)
  }
  await expect.poll(async () => (await call(next)).status).toBe(401)
})

test('credentials are created, show keys and never values, are changed by key, and are deleted', async () => {
  await dashboard.open('credentials')
  await actions.heading('No credentials', 2).waitFor()
  await actions.press('New credential')
  await actions.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE)
  await actions.dialog().getByLabel('Domain').fill('https://not a host/')
  await actions.dialog().getByLabel('Password').fill(CANARY)
  await actions.dialog().getByLabel('More values').fill('nonsense')
  await actions.inDialog('Create')
  await actions.says('Each line must be key=value')
  await actions.dialog().getByLabel('More values').fill(`pin=${CANARY}`)
  await actions.inDialog('Create')
  await actions.says(/must be a host/)
  await actions.dialog().getByLabel('Domain').fill('example.com')
  await actions.inDialog('Create')
  await actions.row(/onerror/).waitFor()
  await actions.press(`Keys of ${HOSTILE}`)
  await actions.says('password, pin')
  expect(await problemsOf(page)).toEqual([])
  expect(await page.content()).not.toContain(CANARY)
  await actions.inDialog('Close')
  await checkPage(page, 'credentials')
  await actions.press(`Change ${HOSTILE}`)
  await actions.says('It has password, pin.')
  expect(await problemsOf(page)).toEqual([])
  await actions.dialog().getByLabel('Name', { exact: true }).fill('changed')
  await actions.dialog().getByLabel('More values').fill(`code=${CANARY}`)
  await actions.dialog().getByLabel('Keys to remove').fill('pin')
  await actions.dialog().getByLabel('TOTP secret').fill('JBSWY3DPEHPK3PXP')
  await actions.inDialog('Save')
  await actions.row(/changed/).waitFor()
  const changed = () => cloud.client.credentials.retrieve('changed')
  expect(await changed()).toMatchObject({ has_totp_secret: true, value_keys: ['password', 'code'] })
  // Saving a form without edits changes nothing.
  for (const removes of [false, true]) {
    await actions.press('Change changed')
    if (removes) await actions.dialog().getByText('Remove the TOTP secret').click()
    await actions.inDialog('Save')
    await actions.dialog().waitFor({ state: 'detached' })
    expect(await changed()).toMatchObject({ has_totp_secret: !removes, value_keys: ['password', 'code'] })
  }
  expect(await page.content()).not.toContain(CANARY)
  await actions.press('Delete changed', 'Delete')
  await actions.heading('No credentials', 2).waitFor()
})

test('credential providers are created, tested, changed and deleted', async () => {
  await dashboard.open('credential-providers')
  await actions.heading('No credential providers', 2).waitFor()
  await actions.press('New provider')
  await actions.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE)
  await actions.dialog().getByLabel('Type').selectOption('A file')
  await actions.dialog().getByLabel('Token').fill(CANARY)
  await actions.inDialog('Create')
  await actions.isWrong('Token')
  expect(await problemsOf(page)).toEqual([])
  await actions.dialog().getByLabel('Token').fill(`{"file": "${CANARY}.json"}`)
  await actions.inDialog('Create')
  await actions.row(/onerror/).waitFor()
  await actions.press(`Test ${HOSTILE}`)
  await page.getByText('It cannot be read').waitFor({ timeout: 60_000 })
  await page.getByRole('alertdialog', { name: 'It cannot be read' }).getByLabel('Close').click()
  await actions.press(`Change ${HOSTILE}`)
  await actions.dialog().getByLabel('Name', { exact: true }).fill('team')
  await actions.dialog().getByText('Logins use it').click()
  await actions.inDialog('Save')
  await actions.row(/team.*file.*Off/).waitFor()
  await checkPage(page, 'credential-providers')
  expect(await page.content()).not.toContain(CANARY)
  await actions.press('Delete team', 'Delete')
  await actions.heading('No credential providers', 2).waitFor()
})

test('projects are created, limited, renamed, archived and deleted', async () => {
  await dashboard.open('projects')
  await actions.heading('All projects together', 2).waitFor()
  await actions.press('New project')
  await actions.dialog().getByLabel('Name').fill('a/b')
  await actions.inDialog('Create')
  await actions.says(/must have no \//)
  await actions.dialog().getByLabel('Name').fill('second')
  await actions.inDialog('Create')
  await actions.row(/second/).waitFor()
  const { items } = await cloud.client.projects.list()
  const { id } = items.find(({ name }) => name === 'second')!
  await actions.press('Limits of second')
  await actions.dialog().getByLabel('Sessions at a time').fill('3')
  expect(await problemsOf(page)).toEqual([])
  await actions.inDialog('Save')
  await actions.dialog().waitFor({ state: 'detached' })
  expect(await cloud.client.projects.limits.retrieve(id)).toMatchObject({ max_concurrent_sessions: 3 })
  await checkPage(page, 'projects')
  await actions.press('Rename second')
  await actions.dialog().getByLabel('Name').fill('third')
  await actions.inDialog('Save')
  await actions.press('Archive third')
  await actions.row(/third.*Archived/).waitFor()
  await actions.press('Activate third')
  await actions.row(/third.*Active/).waitFor()
  await actions.press('Delete third', 'Delete')
  await actions.row(/third/).waitFor({ state: 'detached' })
})

test('people are invited, get other roles, and are removed', async () => {
  await dashboard.open('members')
  await actions.heading('No members', 2).waitFor()
  await actions.press('Invite')
  await actions.dialog().getByLabel('E-mail address').fill('nobody')
  await actions.inDialog('Invite')
  await actions.isWrong('E-mail address')
  await actions.dialog().getByLabel('E-mail address').fill('ada@example.com')
  await actions.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE)
  await actions.dialog().getByLabel('Role').selectOption('Viewer: looks on')
  await actions.dialog().getByRole('combobox', { name: 'In', exact: true }).selectOption('Default')
  await actions.inDialog('Invite')
  await actions.row(/Invited.*viewer of Default/).waitFor()
  // The form opens with the person's present roles, so saving it unchanged changes nothing.
  await actions.press(`Change the role of ${HOSTILE}`)
  const place = actions.dialog().getByRole('combobox', { name: 'In', exact: true })
  const role = actions.dialog().getByLabel('Role')
  expect([await place.inputValue(), await role.inputValue()]).toEqual([DEFAULT_PROJECT, 'viewer'])
  await actions.inDialog('Save')
  await actions.dialog().waitFor({ state: 'detached' })
  await actions.row(/Invited.*viewer of Default/).waitFor()
  await actions.press(`Change the role of ${HOSTILE}`)
  await place.selectOption('All projects')
  await actions.inDialog('Save')
  await actions.says('Choose one.')
  expect(await problemsOf(page)).toEqual([])
  await role.selectOption('Member: works in it')
  await actions.inDialog('Save')
  await actions.row(/member of all projects/).waitFor()
  await checkPage(page, 'members')
  await actions.press(`Remove ${HOSTILE}`, 'Remove')
  await actions.heading('No members', 2).waitFor()
})

test('programs that were allowed access are listed by their own name, and lose it here', async () => {
  await dashboard.open('programs')
  await actions.heading('No programs', 2).waitFor()
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name.endsWith('cob_session'))
  const { codeFor, exchange, tokensFor, withToken } = oauthFlow(() => cloud)
  const signedInHere = asPage(cloud.url, `${cookie!.name}=${cookie!.value}`)
  const { access_token: token } = await tokensFor(signedInHere, { project_id: DEFAULT_PROJECT })
  const { client_id: id } = (await register(cloud.url, { client_name: HOSTILE, redirect_uris: [BACK] })).body as { client_id: string }
  const { code, verifier } = await codeFor(signedInHere, { looks_only: true }, { client_id: id })
  expect((await exchange(code, verifier, { client_id: id })).status).toBe(200)
  await page.reload()
  await actions.row(/may only look.*all of yours/).waitFor()
  await actions.row(/Kernel CLI.*may do what you may.*Default/).waitFor()
  await checkPage(page, 'programs')
  await actions.press('Delete Kernel CLI', 'Delete')
  await actions.row(/Kernel CLI/).waitFor({ state: 'detached' })
  expect((await withToken(token, '/me')).status).toBe(401)
  await actions.press(`Delete ${HOSTILE}`, 'Delete')
  await actions.heading('No programs', 2).waitFor()
})

describe('of the role', () => {
  const asPerson = async (roles: Record<string, Role>, work: (dashboard: Dashboard) => Promise<void>): Promise<void> => {
    const person = await signedIn(cloud, roles)
    await using other = await openDashboard(cloud, { key: null })
    await other.page.context().addCookies([{ name: 'cob_session', value: person.cookie.split('=')[1]!, url: cloud.url, httpOnly: true, sameSite: 'Strict' }])
    await other.open('sessions')
    await other.page.getByRole('navigation', { name: 'Pages' }).waitFor()
    await work(other)
  }

  test('viewer, a person sees lists and no action that would be refused; what is for owners says so', async () => {
    await cloud.client.profiles.create({ name: 'looked-at' })
    const { session_id: session } = await cloud.client.browsers.create({ name: 'shared', timeout_seconds: 600 })
    try {
      await asPerson({ [DEFAULT_PROJECT]: 'viewer' }, async ({ actions: their, open, page: theirPage }) => {
        for (const [path, button] of [
          ['pools', 'New pool'],
          ['proxies', 'New proxy'],
          ['extensions', 'Upload'],
          ['apps', 'Deploy'],
          ['logins', 'New managed login'],
          ['credentials', 'New credential'],
        ] as const) {
          await open(path)
          await their.heading(/^No /, 2).waitFor()
          expect(await theirPage.getByRole('button', { name: button }).count(), path).toBe(0)
        }
        await open('profiles')
        await theirPage.getByRole('link', { name: 'looked-at' }).click()
        await their.heading('looked-at').waitFor()
        await theirPage.getByText('Nothing has been saved into it yet').waitFor()
        expect(await theirPage.getByRole('button', { name: /Rename|Delete|Download/ }).count()).toBe(0)
        for (const path of ['api-keys', 'members', 'audit-log']) {
          await open(path)
          await their.heading(/is not yours to see$/, 2).waitFor()
          expect(await problemsOf(theirPage)).toEqual([])
        }
        await open('playground')
        await their.heading('You look on here', 2).waitFor()
        await open('sessions')
        await theirPage.getByRole('link', { name: 'shared' }).waitFor()
        expect(await theirPage.getByRole('button', { name: /^(New session|End)/ }).count()).toBe(0)
        await theirPage.getByRole('link', { name: 'shared' }).click()
        await their.heading('shared').waitFor()
        const tabs = await theirPage.getByRole('navigation', { name: 'Of this session' }).getByRole('link').allTextContents()
        expect(tabs).toEqual(['Live view', 'Events', 'Files', 'Logs', 'Replays', 'Details'])
        for (const name of ['End session', 'Take control']) expect(await theirPage.getByRole('button', { name }).count()).toBe(0)
        await open(`sessions/${session}/files?path=/`)
        await theirPage.getByRole('button', { name: 'Refresh' }).waitFor()
        expect(await theirPage.getByRole('button', { name: /^(Upload|New folder|Delete|Download)/ }).count()).toBe(0)
        await open(`sessions/${session}/terminal`)
        await theirPage.getByTitle('Live view of the browser').waitFor()
        await open(`sessions/${session}/details`)
        await theirPage.getByText('Ends after').waitFor()
        expect(await theirPage.getByRole('button', { name: 'Save' }).count()).toBe(0)
      })
    } finally {
      await cloud.client.profiles.delete('looked-at')
      await cloud.remove(session)
    }
  })

  test('member, a person works in the project and does not decide who may', async () => {
    await asPerson({ [DEFAULT_PROJECT]: 'member' }, async ({ actions: their, open, page: theirPage }) => {
      await open('profiles')
      await their.press('New profile')
      await their.dialog().getByLabel('Name').fill('of-a-member')
      await their.inDialog('Create')
      await their.heading('of-a-member').waitFor()
      await their.press('Delete of-a-member', 'Delete')
      await their.heading('No profiles', 2).waitFor()
      await open('machine')
      await theirPage.getByText('Figures of the whole service are for those who own all projects.').waitFor()
      await open('projects')
      await their.row(/Default/).waitFor()
      expect(await theirPage.getByRole('button', { name: /New project|Rename|Delete/ }).count()).toBe(0)
    })
  })

  test('owner of one project, a person sees its keys and invites into it alone', async () => {
    await asPerson({ [DEFAULT_PROJECT]: 'owner' }, async ({ actions: their, open, page: theirPage }) => {
      await open('members')
      await their.press('Invite')
      expect(await their.dialog().getByRole('combobox', { name: 'In', exact: true }).locator('option').allTextContents()).toEqual(['Default'])
      await theirPage.keyboard.press('Escape')
      // Only a person who owns all projects sees the exports of the audit log.
      await open('exports')
      await their.heading('No collectors', 2).waitFor()
      expect(await theirPage.getByRole('navigation', { name: 'Of exports' }).getByRole('link').allTextContents()).toEqual(['Telemetry'])
      await open('api-keys')
      await their.press('New key')
      expect(await their.dialog().getByLabel('Project').locator('option').allTextContents()).toEqual(['Default'])
    })
  })
})
