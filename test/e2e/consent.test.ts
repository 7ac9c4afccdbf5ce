// The page on which a person gives a program access, in a real Chromium: with an API key or an identity provider, by keyboard, on a phone, and with hostile names.
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { register } from '../../src/control/access/oauth/register.suite.ts'
import { problemsOf } from '../support/axe.ts'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'
import { freePort } from '../support/free-port.ts'
import { startIdentityProvider, type IdentityProvider } from '../support/identity-provider.ts'
import { invitePerson, type Person } from '../support/person.ts'
import { serveSockets } from '../support/upstreams.ts'
import { form } from '../support/visitor.ts'

const scope = new AsyncDisposableStack()
let person: Person
let idp: IdentityProvider
let cloud: FastCloud
/** The program that asks for access. Like the official command line, it listens on a free port. */
let program: { url: string; got: URL[] }
beforeAll(async () => {
  person = scope.use(await invitePerson())
  const port = await freePort()
  idp = scope.use(await startIdentityProvider(port))
  idp.people.ann = { email: 'ann@team.test', email_verified: true, name: 'Ann' }
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', ...idp.settings, COB_OIDC_FIRST_OWNER: 'ann@team.test' }))
  const got: URL[] = []
  const server = createServer((request, response) => {
    if (request.url!.startsWith('/callback')) got.push(new URL(request.url!, 'http://localhost'))
    response.setHeader('content-type', 'text/html').end('<title>done</title>')
  })
  const { port: own } = scope.use(await serveSockets(server, 'localhost'))
  program = { url: `http://localhost:${own}/callback`, got }
})
afterEach(() => {
  program.got.length = 0
  return person.leave()
})
afterAll(() => scope.disposeAsync())

const verifier = randomBytes(32).toString('base64url')
const addressFor = (clientId: string, more: Record<string, string> = {}) =>
  `${cloud.url}/authorize?${new URLSearchParams({
    client_id: clientId,
    redirect_uri: program.url,
    response_type: 'code',
    state: 'st',
    scope: 'openid email',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  }).toString()}`

/** Exchanges the program's code for a token. */
async function tokenOf(clientId: string): Promise<{ access_token: string; access_scope: string }> {
  await expect.poll(() => program.got.length).toBe(1)
  const code = program.got[0]!.searchParams.get('code')!
  const fields = { grant_type: 'authorization_code', code, redirect_uri: program.url, client_id: clientId, code_verifier: verifier }
  const response = await fetch(`${cloud.url}/token`, form(fields))
  expect(response.status).toBe(200)
  return (await response.json()) as { access_token: string; access_scope: string }
}
const withToken = async (token: string, path: string, method = 'GET') =>
  (
    await fetch(cloud.url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(method === 'POST' && { body: '{}' }),
    })
  ).status

const title = (page: Page) => expect.poll(() => page.textContent('h1'))

test('with a key and the keyboard alone: the program gets a token of the key', async () => {
  const page = await person.newPage()
  const errors: string[] = []
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  await page.goto(addressFor('kernel-cli'))
  await title(page).toBe('Sign in to allow access')
  expect(await problemsOf(page)).toEqual([])
  // The page focuses the field itself.
  await page.keyboard.type('cob_wrong')
  await page.keyboard.press('Enter')
  await expect.poll(() => page.textContent('#message')).toContain('not known')
  await page.keyboard.type(cloud.key)
  await page.keyboard.press('Enter')
  await title(page).toBe('Allow access?')
  expect(await page.textContent('#consent dl')).toMatch(/Kernel CLI[\s\S]*a program on this computer[\s\S]*the API key/)
  expect(await problemsOf(page)).toEqual([])
  for (let tabs = 0; tabs < 10 && (await page.evaluate('document.activeElement.value')) !== 'allow'; tabs++) await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  const { access_token: token, access_scope: access } = await tokenOf('kernel-cli')
  expect([access, await withToken(token, '/browsers')]).toEqual(['organization', 200])
  expect(program.got[0]!.searchParams.get('state')).toBe('st')
  // Chromium logs the refused requests (401). There is no other error, above all none of the content security policy.
  expect(errors.filter((text) => !/401/.test(text))).toEqual([])
})

test('with an identity provider, for one project, only to look', async () => {
  const project = ((await (await cloud.send('POST', '/org/projects', { name: 'consent' })).json()) as { id: string }).id
  const page = await person.newPage({ viewport: { width: 320, height: 640 }, colorScheme: 'dark' })
  await page.goto(addressFor('kernel-cli'))
  await page.click('text=Sign in with Team login')
  await page.fill('[name=login]', 'ann')
  await page.fill('[name=password]', 'x')
  await page.click('[type=submit]')
  await page.click('[type=submit]')
  await title(page).toBe('Allow access?')
  expect(await page.textContent('#who')).toBe('ann@team.test')
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320)
  expect(await problemsOf(page)).toEqual([])
  await page.selectOption('#project', project)
  await page.check('#looks-only')
  await page.click('button[value=allow]')
  const { access_token: token, access_scope: access } = await tokenOf('kernel-cli')
  expect([access, await withToken(token, '/profiles'), await withToken(token, '/profiles', 'POST')]).toEqual(['project', 200, 403])
})

test('a person who does not allow it sends the program away; another may sign in', async () => {
  const page = await person.newPage()
  await page.goto(addressFor('kernel-cli'))
  await page.fill('#key', cloud.key)
  await page.keyboard.press('Enter')
  await title(page).toBe('Allow access?')
  await page.click('#other')
  await title(page).toBe('Sign in to allow access')
  await page.fill('#key', cloud.key)
  await page.keyboard.press('Enter')
  await title(page).toBe('Allow access?')
  await page.click('button[value=deny]')
  await expect.poll(() => program.got.map((url) => url.searchParams.get('error'))).toEqual(['access_denied'])
})

test('the name of a program is text, and an address that it has not registered leads nowhere', async () => {
  const name = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`
  const { body } = await register(cloud.url, { client_name: name, redirect_uris: [program.url] })
  const page = await person.newPage()
  await page.goto(addressFor(body.client_id as string))
  await page.fill('#key', cloud.key)
  await page.keyboard.press('Enter')
  await title(page).toBe('Allow access?')
  expect(await page.textContent('#client')).toBe(name)
  expect(await page.title()).toBe('Allow access to Cob')
  await page.goto(addressFor('kernel-cli', { redirect_uri: 'https://evil.test/callback' }))
  await title(page).toBe('This request cannot be answered')
  expect(await page.isVisible('#consent')).toBe(false)
  expect(program.got).toEqual([])
})

test('no other page can frame it', async () => {
  const page = await person.newPage()
  await page.goto(program.url.replace('/callback', '/'))
  await page.setContent(`<iframe src="${addressFor('kernel-cli')}"></iframe>`)
  const frame = await (await page.$('iframe'))!.contentFrame()
  await expect.poll(() => frame!.evaluate('document.body.textContent').catch(() => '')).not.toContain('Sign in')
  expect(frame!.url()).not.toContain('/authorize')
})
