// Signing in with an identity provider (oidc-provider from npm): who is admitted with which role, and attacks.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { freePort } from '../../../../test/support/free-port.ts'
import { startIdentityProvider, type IdentityProvider } from '../../../../test/support/identity-provider.ts'
import { asPage } from '../../../../test/support/people.ts'
import { actionOf, form, makeVisitor, type Visitor } from '../../../../test/support/visitor.ts'
import type { Member } from '../members/contract.ts'
import type { Me } from './contract.ts'
import { ownPath } from './oidc-sign-in.ts'

const START = '/sign-in/oidc/default?return_to=/dashboard/sessions'

/** Goes through the forms of the provider; returns the last page. */
async function signIn(at: FastCloud, name: string, visitor: Visitor = makeVisitor(), start = START) {
  const isBack = ({ pathname }: URL) => pathname.startsWith('/dashboard')
  let step = await visitor.go(at.url + start, {}, isBack)
  for (let forms = 0; forms < 3 && /name="prompt"/.test(step.text); forms++) {
    const prompt = /name="prompt" value="(\w+)"/.exec(step.text)![1]!
    step = await visitor.go(actionOf(step.text, step.url), form({ prompt, login: name, password: 'x' }), isBack)
  }
  const cookie = visitor.cookies.get('cob_session')
  const calls = asPage(at.url, `cob_session=${cookie ?? ''}`)
  return { ...step, visitor, ...calls, me: async () => (await (await calls.fetch('/me')).json()) as Me }
}

let idp: IdentityProvider
let cloud: FastCloud
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  const port = await freePort()
  idp = scope.use(await startIdentityProvider(port))
  cloud = scope.use(
    await startFastCloud({
      COB_WARM_BROWSERS: '0',
      ...idp.settings,
      COB_OIDC_ROLES: 'admins=owner,devs=member',
      COB_OIDC_FIRST_OWNER: 'First@Team.test',
      COB_OIDC_EMAIL_DOMAINS: 'team.test, other.test',
    }),
  )
})
afterAll(() => scope.disposeAsync())

const person = (name: string, claims: object = {}) =>
  (idp.people[name] = { email: `${name}@team.test`, email_verified: true, name: name.toUpperCase(), ...claims })
const invite = async (body: object) => (await (await cloud.send('POST', '/org/members', body)).json()) as Member

test('the provider is among the ways to sign in', async () => {
  expect(await (await fetch(`${cloud.url}/sign-in/options`)).json()).toEqual({ key: true, providers: [{ id: 'default', name: 'Team login' }] })
})

describe('who gets in', () => {
  test('somebody with a role by a claim: back where they came from, with a cookie for our own pages only', async () => {
    person('dev', { groups: ['devs', 'others'] })
    const { url, visitor, me } = await signIn(cloud, 'dev')
    expect(url.href).toBe(`${cloud.url}/dashboard/sessions`)
    expect([...visitor.cookies.keys()].filter((name) => name.startsWith('cob_'))).toEqual(['cob_session'])
    expect(await me()).toMatchObject({ principal: { type: 'user', name: 'DEV', email: 'dev@team.test' }, role: 'member' })
  })

  test('the first owner, who is one while there is no other', async () => {
    person('first')
    expect(await (await signIn(cloud, 'first')).me()).toMatchObject({ role: 'owner' })
    const { id } = ((await (await cloud.fetch('/org/members?query=first@')).json()) as Member[])[0]!
    await cloud.send('PATCH', `/org/members/${id}`, { role: 'viewer' })
    person('boss', { groups: ['admins'] })
    expect(await (await signIn(cloud, 'boss')).me()).toMatchObject({ role: 'owner' })
    // A role that was set by hand stays, and there is an owner already.
    expect(await (await signIn(cloud, 'first')).me()).toMatchObject({ role: 'viewer' })
  })

  test('somebody who was invited by address or subject, with what they were invited to', async () => {
    const project = ((await (await cloud.send('POST', '/org/projects', { name: 'oidc' })).json()) as { id: string }).id
    await invite({ email: 'Guest@team.test', role: 'viewer', project_id: project })
    const bySubject = await invite({ subject: 'sub-guest', role: 'member' })
    person('guest')
    const guest = await signIn(cloud, 'guest')
    expect(await guest.me()).toMatchObject({ role: null, projects: [{ id: project, role: 'viewer' }] })
    // A later invitation of the same person is added at their next sign-in.
    await invite({ email: 'guest@team.test', role: 'member', project_id: project })
    expect(await (await signIn(cloud, 'guest')).me()).toMatchObject({ projects: [{ id: project, role: 'member' }] })
    person('sub-guest')
    const { me } = await signIn(cloud, 'sub-guest')
    expect(await me()).toMatchObject({ role: 'member', principal: { id: bySubject.id } })
  })

  test('a role by a claim follows the claim at the next sign-in; without one the person is out', async () => {
    person('moves', { groups: ['admins'] })
    expect(await (await signIn(cloud, 'moves')).me()).toMatchObject({ role: 'owner' })
    person('moves', { groups: ['devs'] })
    expect(await (await signIn(cloud, 'moves')).me()).toMatchObject({ role: 'member' })
    person('moves', { groups: [] })
    const out = await signIn(cloud, 'moves')
    expect([out.response!.status, out.text]).toEqual([403, expect.stringContaining('Ask an owner to invite moves@team.test')])
  })

  test('nobody without a role, of another domain, or whose address is not verified; nothing is stored of them', async () => {
    person('nobody')
    person('far', { email: 'far@elsewhere.test', groups: ['admins'] })
    person('fake', { email: 'first@team.test', email_verified: false, groups: ['admins'] })
    person('none', { email: undefined, groups: ['admins'] })
    for (const name of ['nobody', 'far', 'fake', 'none']) {
      const { response, visitor } = await signIn(cloud, name)
      expect([name, response?.status]).toEqual([name, 403])
      expect([...visitor.cookies.keys()].filter((cookie) => cookie.startsWith('cob_'))).toEqual([])
    }
    expect(await cloud.query(`select from people where subject in ('nobody', 'far', 'fake', 'none')`)).toEqual([])
  })

  test('an invitation is not taken by somebody whose address is not verified', async () => {
    await invite({ email: 'wanted@team.test', role: 'owner' })
    person('thief', { email: 'wanted@team.test', email_verified: false })
    expect((await signIn(cloud, 'thief')).response?.status).toBe(403)
  })

  test('signs out, and is in the audit log by name', async () => {
    person('logged', { groups: ['devs'] })
    const { send, fetch: ask, me } = await signIn(cloud, 'logged')
    const { principal } = await me()
    expect((await send('POST', '/sign-out')).status).toBe(204)
    expect((await ask('/me')).status).toBe(401)
    await expect
      .poll(() => cloud.query('select path, email, auth_strategy from audit_log where user_id = $1 order by at', [principal.id]), { timeout: 5_000 })
      .toEqual(['/sign-in/oidc/default/callback', '/me', '/sign-out'].map((path) => ({ path, email: 'logged@team.test', auth_strategy: 'dashboard' })))
  })
})

describe('an attacker', () => {
  const callback = (query: string) => `${cloud.url}/sign-in/oidc/default/callback?${query}`
  const refused = async (visitor: Visitor, url: string, status: number) => {
    const { response, text } = await visitor.go(url)
    expect(response!.status).toBe(status)
    expect(visitor.cookies.has('cob_session')).toBe(false)
    return text
  }
  /** A sign-in up to the return from the provider, which is not followed. */
  async function untilBack(name: string) {
    const visitor = makeVisitor()
    const isBack = ({ pathname }: URL) => pathname.endsWith('/callback')
    let step = await visitor.go(cloud.url + START, {}, isBack)
    while (/name="prompt"/.test(step.text))
      step = await visitor.go(
        actionOf(step.text, step.url),
        form({ prompt: /name="prompt" value="(\w+)"/.exec(step.text)![1]!, login: name, password: 'x' }),
        isBack,
      )
    return { visitor, url: step.url.href }
  }

  test('cannot bring their own sign-in into the browser of another', async () => {
    person('evil', { groups: ['devs'] })
    const { url } = await untilBack('evil')
    await refused(makeVisitor(), url, 400)
    // The attack fails also while the victim signs in.
    const victim = makeVisitor()
    await victim.go(cloud.url + START, {}, ({ port }) => port === new URL(idp.issuer).port)
    await refused(victim, url, 502)
  })

  test('cannot change or repeat the way back', async () => {
    person('dave', { groups: ['devs'] })
    const one = await untilBack('dave')
    await refused(one.visitor, one.url.replace(/state=[^&]+/, 'state=other'), 502)
    // The attempt ends with it.
    await refused(one.visitor, one.url, 400)
    const two = await untilBack('dave')
    const kept = new Map(two.visitor.cookies)
    expect((await two.visitor.go(two.url, {}, ({ pathname }) => pathname === '/dashboard/sessions')).url.pathname).toBe('/dashboard/sessions')
    const again = makeVisitor()
    for (const [name, value] of kept) again.cookies.set(name, value)
    await refused(again, two.url, 502)
  })

  test('cannot have text of theirs become a part of the page', async () => {
    const visitor = makeVisitor()
    await visitor.go(cloud.url + START, {}, ({ port }) => port === new URL(idp.issuer).port)
    const state = new URL((await fetch(cloud.url + START, { redirect: 'manual' })).headers.get('location')!).searchParams.get('state')!
    expect(state).toMatch(/^[\w-]{40,}$/)
    const text = await refused(visitor, callback(`error=${encodeURIComponent('<script>alert(1)</script>')}&state=x&iss=${encodeURIComponent(idp.issuer)}`), 502)
    expect(text).not.toContain('<script')
  })

  test.each(['https://evil.test/', '//evil.test', '/\\evil.test', '/dashboard/../../evil', 'dashboard', '/browsers', '/dashboardevil', `/dashboard\n`])(
    'cannot have a person sent to %j afterwards',
    async (returnTo) => {
      const response = await fetch(`${cloud.url}/sign-in/oidc/default?${new URLSearchParams({ return_to: returnTo }).toString()}`, { redirect: 'manual' })
      if (response.status === 303) expect(ownPath(returnTo, cloud.url)).toMatch(/^\/dashboard/)
      else expect([response.status, ((await response.json()) as { message: string }).message]).toEqual([400, expect.stringContaining('return_to')])
    },
  )
})

describe('a provider', () => {
  test('that is refused by the person is told of without a stack', async () => {
    person('shy')
    const visitor = makeVisitor()
    const { url, text } = await visitor.go(cloud.url + START)
    const abort = /href="([^"]+\/abort)"/.exec(text)![1]!
    const back = await visitor.go(new URL(abort, url).href)
    expect([back.response!.status, back.text]).toEqual([403, expect.stringContaining('The identity provider refused: access_denied.')])
  })

  test('that does not answer, answers wrongly, or signs with another key lets nobody in, and the next sign-in works', async () => {
    const port = await freePort()
    await using other = await startIdentityProvider(port)
    await using service = await startFastCloud({ COB_WARM_BROWSERS: '0', ...other.settings, COB_OIDC_DEFAULT_ROLE: 'viewer' })
    other.people.ann = { email: 'ann@x.test', name: 'Ann' }
    const answers = (status: number, body: string) => (path: string) =>
      path.startsWith('/.well-known') || path === '/jwks'
        ? (_: unknown, response: import('node:http').ServerResponse) => void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
        : undefined
    for (const [status, body] of [
      [500, '{}'],
      [200, 'no json'],
      [200, JSON.stringify({ issuer: 'http://127.0.0.1:1' })],
    ] as const) {
      other.meddle = answers(status, body)
      const { response, text } = await makeVisitor().go(service.url + START)
      expect([response!.status, text]).toEqual([502, expect.stringContaining('does not answer')])
    }
    other.meddle = (path) => (path === '/jwks' ? answers(200, '{"keys":[]}')(path) : undefined)
    expect((await signIn(service, 'ann')).response?.status).toBe(502)
    other.meddle = undefined
    expect(await (await signIn(service, 'ann')).me()).toMatchObject({ role: 'viewer' })
  })
})

test('a provider that never says that addresses are verified may be trusted with them, but not one that says they are not', async () => {
  const port = await freePort()
  await using other = await startIdentityProvider(port)
  await using service = await startFastCloud({
    COB_WARM_BROWSERS: '0',
    ...other.settings,
    COB_OIDC_TRUST_EMAIL: '1',
    COB_OIDC_EMAIL_DOMAINS: 'team.test',
    COB_OIDC_DEFAULT_ROLE: 'viewer',
  })
  other.people.silent = { email: 'silent@team.test' }
  expect(await (await signIn(service, 'silent')).me()).toMatchObject({ role: 'viewer' })
  other.people.denied = { email: 'denied@team.test', email_verified: false }
  expect((await signIn(service, 'denied')).response?.status).toBe(403)
})

test('another provider than the one of the settings is not found', async () => {
  expect((await fetch(`${cloud.url}/sign-in/oidc/other`)).status).toBe(404)
  await using plain = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  for (const path of ['', '/callback']) expect((await fetch(`${plain.url}/sign-in/oidc/default${path}`)).status).toBe(404)
})
