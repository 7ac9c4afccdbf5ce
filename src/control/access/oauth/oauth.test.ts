// The authorization server, tested by the MCP SDK's own client and by the requests of the official command line; and the requests that it refuses.
import { auth, type OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { beforeAll, describe, expect, test } from 'vitest'
import { readFrames } from '../../../../test/support/apps.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { asPage, signedIn, type SignedIn } from '../../../../test/support/people.ts'
import { within } from '../../../base/wait.ts'
import { deploy } from '../../apps/invocations/deployed.suite.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import type { AllowedProgram } from './contract.ts'
import { BACK, CLI, oauthFlow, type Tokens } from './flow.suite.ts'
import { register as registerAt } from './register.suite.ts'

/** A token is cached for 2 s. */
const ENDS_MS = 6_000

let person: SignedIn
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  person = await signedIn(cloud, { '': 'member' })
})

const { pkce, requestFor, answer, tokenCall, exchange, refresh, codeFor, tokensFor, withToken } = oauthFlow(() => cloud)
const withKey = async (key: string) => {
  const response = await fetch(`${cloud.url}/sign-in/key`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: key }),
  })
  return asPage(cloud.url, response.headers.getSetCookie()[0]!.split(';')[0]!)
}
const makeKey = async (body: object = {}) =>
  (await (await cloud.send('POST', '/org/api_keys', { name: 'oauth', ...body })).json()) as { id: string; key: string }

describe('the official command line', () => {
  test('logs in with what it sends, and gets what it reads', async () => {
    const state = Buffer.from(JSON.stringify({ csrf: 'abc' })).toString('base64')
    const { verifier, challenge } = pkce()
    // In the form of golang.org/x/oauth2.
    const page = `${cloud.url}/authorize?${new URLSearchParams({
      client_id: CLI,
      code_challenge: challenge,
      code_challenge_method: 'S256',
      redirect_uri: BACK,
      response_type: 'code',
      scope: 'openid email',
      state,
    }).toString()}`
    const shown = await fetch(page)
    expect([shown.status, shown.headers.get('content-security-policy')]).toEqual([200, expect.stringContaining("frame-ancestors 'none'")])
    expect(await (await fetch(page.replace('/authorize?', '/authorize/request?'))).json()).toEqual({
      client: { name: 'Kernel CLI' },
      goes_to: 'a program on this computer',
      looks_only: false,
    })
    const { to } = await answer(person, requestFor(challenge, { state }))
    expect([to!.origin + to!.pathname, to!.searchParams.get('state')]).toEqual([BACK, state])
    const got = await tokenCall({
      grant_type: 'authorization_code',
      client_id: CLI,
      code: to!.searchParams.get('code')!,
      code_verifier: verifier,
      redirect_uri: BACK,
    })
    expect([got.status, got.headers.get('cache-control'), got.body]).toEqual([
      200,
      'no-store',
      {
        access_token: expect.stringMatching(/^cob_at_[0-9a-f]{64}$/),
        refresh_token: expect.stringMatching(/^cob_rt_[0-9a-f]{64}$/),
        token_type: 'Bearer',
        expires_in: expect.any(Number),
        scope: 'openid email',
        org_id: 'defaultorganization00000',
        access_scope: 'organization',
      },
    ])
    expect(got.body.expires_in).toBeGreaterThan(3590)
    // The command line refreshes with its scope and the organization.
    const again = await refresh(got.body.refresh_token, { scope: 'openid email', org_id: 'defaultorganization00000' })
    expect([again.status, again.body]).toEqual([200, expect.objectContaining({ org_id: 'defaultorganization00000', token_type: 'Bearer' })])
    expect(again.body.refresh_token).not.toBe(got.body.refresh_token)
    expect((await withToken(again.body.access_token, '/browsers')).status).toBe(200)
    expect(await (await withToken(again.body.access_token, '/auth/context')).json()).toEqual({
      authentication: { method: 'jwt', source: 'oauth', credential_id: expect.any(String) },
      authorization: { credential_scope: { project_id: null }, effective_scope: { project_id: null } },
      organization: { id: 'defaultorganization00000' },
      principal: { type: 'user', id: person.id },
    })
  })
})

describe("the MCP SDK's client", () => {
  test('discovers, registers, sends the person to the page and gets a token, which it refreshes', async () => {
    const store: Record<string, unknown> = {}
    let sentTo: URL | undefined
    const provider: OAuthClientProvider = {
      redirectUrl: 'http://127.0.0.1:7777/oauth/callback',
      clientMetadata: {
        client_name: 'A host',
        redirect_uris: ['http://127.0.0.1:7777/oauth/callback'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
      state: () => 'of the host',
      clientInformation: () => store.client as never,
      saveClientInformation: (client) => void (store.client = client),
      tokens: () => store.tokens as never,
      saveTokens: (tokens) => void (store.tokens = tokens),
      redirectToAuthorization: (url) => void (sentTo = url),
      saveCodeVerifier: (verifier) => void (store.verifier = verifier),
      codeVerifier: () => store.verifier as string,
    }
    const serverUrl = `${cloud.url}/mcp`
    expect(await auth(provider, { serverUrl })).toBe('REDIRECT')
    expect(sentTo!.origin + sentTo!.pathname).toBe(`${cloud.url}/authorize`)
    expect(sentTo!.searchParams.get('resource')).toBe(serverUrl)
    expect(store.client).toMatchObject({ client_name: 'A host', token_endpoint_auth_method: 'none' })
    const asked = await fetch(`${cloud.url}/authorize/request${sentTo!.search}`)
    expect([asked.status, await asked.json()]).toEqual([200, { client: { name: 'A host' }, goes_to: 'a program on this computer', looks_only: false }])
    const { to } = await answer(person, Object.fromEntries(sentTo!.searchParams))
    expect(to!.searchParams.get('state')).toBe('of the host')
    expect(await auth(provider, { serverUrl, authorizationCode: to!.searchParams.get('code')! })).toBe('AUTHORIZED')
    const first = store.tokens as Tokens
    expect((await withToken(first.access_token, '/me')).status).toBe(200)
    expect(await auth(provider, { serverUrl })).toBe('AUTHORIZED')
    const second = store.tokens as Tokens
    expect(second.access_token).not.toBe(first.access_token)
    expect((await withToken(second.access_token, '/me')).status).toBe(200)
  })

  test('finds the metadata at all addresses that it looks at, from pages of any origin', async () => {
    for (const [path, expected] of [
      ['/.well-known/oauth-protected-resource', { resource: cloud.url, authorization_servers: [cloud.url] }],
      ['/.well-known/oauth-protected-resource/mcp', { resource: `${cloud.url}/mcp`, authorization_servers: [cloud.url] }],
      [
        '/.well-known/oauth-authorization-server',
        { issuer: cloud.url, code_challenge_methods_supported: ['S256'], registration_endpoint: `${cloud.url}/register` },
      ],
      ['/.well-known/oauth-authorization-server/mcp', { issuer: cloud.url }],
    ] as const) {
      const response = await fetch(cloud.url + path)
      expect([response.status, response.headers.get('access-control-allow-origin'), await response.json()]).toEqual([
        200,
        '*',
        expect.objectContaining(expected),
      ])
    }
  })
})

describe('what a token may do', () => {
  test('is what the person may, in all projects or the one that was chosen', async () => {
    const other = ((await (await cloud.send('POST', '/org/projects', { name: 'oauth other' })).json()) as { id: string }).id
    const all = await tokensFor(person)
    expect((await withToken(all.access_token, '/browsers', { headers: { 'x-kernel-project-id': other } })).status).toBe(200)
    expect((await withToken(all.access_token, '/org/api_keys')).status).toBe(403)
    const one = await tokensFor(person, { project_id: other })
    expect(one).toMatchObject({ access_scope: 'project', project_id: other })
    expect((await withToken(one.access_token, '/browsers')).status).toBe(200)
    expect((await withToken(one.access_token, '/browsers', { headers: { 'x-kernel-project-id': DEFAULT_PROJECT } })).status).toBe(403)
    expect(await (await withToken(one.access_token, '/me')).json()).toMatchObject({ role: null, projects: [{ id: other, role: 'member' }] })
    expect(await (await withToken(one.access_token, '/auth/context')).json()).toMatchObject({ authorization: { credential_scope: { project_id: other } } })
    expect((await answer(person, requestFor('x'.repeat(43)), { project_id: 'unknown' })).status).toBe(404)
  })

  test('can be limited to looking, by the person or the scope that is asked for', async () => {
    const { key } = await makeKey()
    const byKey = await withKey(key)
    for (const by of [person, byKey])
      for (const [more, request] of [
        [{ looks_only: true }, {}],
        [{}, { scope: 'cob:view' }],
      ]) {
        const { access_token: token } = await tokensFor(by, more, request)
        expect(await (await withToken(token, '/me')).json()).toMatchObject({ role: 'viewer' })
        expect((await withToken(token, '/profiles')).status).toBe(200)
        expect((await withToken(token, '/profiles', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).status).toBe(403)
      }
  })

  test('is that of the key which signed in, and of its project', async () => {
    const project = ((await (await cloud.send('POST', '/org/projects', { name: 'oauth key' })).json()) as { id: string }).id
    const { id, key } = await makeKey({ project_id: project })
    const tokens = await tokensFor(await withKey(key))
    expect(tokens).toMatchObject({ access_scope: 'project', project_id: project })
    expect(await (await withToken(tokens.access_token, '/auth/context')).json()).toMatchObject({
      principal: { type: 'api_key', id },
      authentication: { source: 'oauth' },
    })
    expect((await withToken(tokens.access_token, '/browsers', { headers: { 'x-kernel-project-id': DEFAULT_PROJECT } })).status).toBe(403)
    await cloud.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })
    await expect.poll(async () => (await withToken(tokens.access_token, '/browsers')).status, { timeout: ENDS_MS }).toBe(401)
    expect(await refresh(tokens.refresh_token)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  })

  test('is in the audit log by the name of the person', async () => {
    const { access_token: token } = await tokensFor(person)
    await withToken(token, '/proxies')
    await expect
      .poll(() => cloud.query(`select email, auth_strategy from audit_log where path = '/proxies' and user_id = $1`, [person.id]), { timeout: 5_000 })
      .toEqual([{ email: person.email, auth_strategy: 'oauth' }])
  })

  test('never is to allow another program access', async () => {
    const { access_token: token } = await tokensFor(person)
    const send = (bearer: string) =>
      withToken(bearer, '/authorize', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ request: requestFor(pkce().challenge), allow: true }),
      })
    expect((await send(token)).status).toBe(403)
    expect((await send(cloud.key)).status).toBe(403)
  })
})

describe('a grant ends', () => {
  test('when the person is removed, with the streams that are open', async () => {
    const gone = await signedIn(cloud, { '': 'member' })
    const { access_token: token } = await tokensFor(gone)
    const deployment = await deploy(cloud)
    const frames = readFrames(await withToken(token, `/deployments/${deployment}/events`))
    await cloud.fetch(`/org/members/${gone.id}`, { method: 'DELETE' })
    expect((await within('the stream to end', ENDS_MS, frames)).at(-1)?.data).toMatchObject({ event: 'error', error: { code: 'unauthorized' } })
    await expect.poll(async () => (await withToken(token, '/me')).status, { timeout: ENDS_MS }).toBe(401)
  })

  test.each(['access_token', 'refresh_token'] as const)('when its %s is revoked, and only for its own client', async (kind) => {
    const tokens = await tokensFor(person)
    expect((await tokenCall({ token: tokens[kind], client_id: 'another' }, '/revoke')).status).toBe(200)
    expect((await withToken(tokens.access_token, '/me')).status).toBe(200)
    expect((await tokenCall({ token: tokens[kind], client_id: CLI }, '/revoke')).status).toBe(200)
    expect((await withToken(tokens.access_token, '/me')).status).toBe(401)
    expect((await refresh(tokens.refresh_token)).body.error).toBe('invalid_grant')
    expect((await tokenCall({ token: 'unknown', client_id: CLI }, '/revoke')).status).toBe(200)
  })

  test('when a code is used again', async () => {
    const { code, verifier } = await codeFor(person)
    const { body } = await exchange(code, verifier)
    expect((await exchange(code, verifier)).body.error).toBe('invalid_grant')
    expect((await withToken(body.access_token, '/me')).status).toBe(401)
  })

  test('when a refresh token is used long after it was replaced; at once it is only refused', async () => {
    const first = await tokensFor(person)
    const { body: second } = await refresh(first.refresh_token)
    expect((await refresh(first.refresh_token)).body.error).toBe('invalid_grant')
    const { body: third, status } = await refresh(second.refresh_token)
    expect(status).toBe(200)
    await cloud.query(`update oauth_tokens set used_at = used_at - interval '1 minute' where used_at is not null and kind = 'refresh'`)
    expect((await refresh(first.refresh_token)).body.error).toBe('invalid_grant')
    expect((await withToken(third.access_token, '/me')).status).toBe(401)
    expect((await refresh(third.refresh_token)).body.error).toBe('invalid_grant')
  })

  test('never by two refreshes at once, of which one gets tokens', async () => {
    const { refresh_token: token } = await tokensFor(person)
    const answers = await Promise.all([refresh(token), refresh(token), refresh(token)])
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400, 400])
    const { body } = answers.find(({ status }) => status === 200)!
    expect((await withToken(body.access_token, '/me')).status).toBe(200)
  })

  test('never by one code that is exchanged several times at once, of which one gets tokens', async () => {
    const { code, verifier } = await codeFor(person)
    const answers = await Promise.all([exchange(code, verifier), exchange(code, verifier), exchange(code, verifier)])
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400, 400])
  })

  test('never because the service failed between a token and its successors: the client asks again', async () => {
    const { code, verifier } = await codeFor(person)
    const { refresh_token: token } = await tokensFor(person)
    await cloud.query(`create function no_tokens() returns trigger language plpgsql as 'begin raise exception ''the database is away''; end'`)
    await cloud.query('create trigger no_tokens before insert on oauth_tokens for each row execute function no_tokens()')
    try {
      expect([(await exchange(code, verifier)).status, (await refresh(token)).status]).toEqual([500, 500])
    } finally {
      await cloud.query('drop trigger no_tokens on oauth_tokens')
      await cloud.query('drop function no_tokens')
    }
    for (const { status, body } of [await exchange(code, verifier), await refresh(token)]) {
      expect(status).toBe(200)
      expect((await withToken(body.access_token, '/me')).status).toBe(200)
    }
  })

  test('and what has expired is refused', async () => {
    const { code, verifier } = await codeFor(person)
    await cloud.query(`update oauth_tokens set expires_at = now() where kind = 'code' and used_at is null`)
    expect((await exchange(code, verifier)).body.error).toBe('invalid_grant')
    const tokens = await tokensFor(person)
    await cloud.query(`update oauth_tokens set expires_at = now() where used_at is null`)
    expect((await withToken(tokens.access_token, '/me')).status).toBe(401)
    expect((await refresh(tokens.refresh_token)).body.error).toBe('invalid_grant')
  })
})

describe('an attacker', () => {
  test('gets nothing for a code without its verifier, and the code is used up', async () => {
    for (const verifier of [pkce().verifier, '', 'short']) {
      const { code, verifier: right } = await codeFor(person)
      expect((await exchange(code, verifier)).status).toBe(400)
      expect((await exchange(code, right)).status).toBe(400)
    }
  })

  test('cannot use the code or token of another client, or send the code elsewhere', async () => {
    const other = await registerAt(cloud.url, { redirect_uris: [BACK], client_name: 'Other' })
    const { code, verifier } = await codeFor(person)
    expect((await exchange(code, verifier, { client_id: other.body.client_id as string })).body.error).toBe('invalid_grant')
    const tokens = await tokensFor(person)
    expect((await refresh(tokens.refresh_token, { client_id: other.body.client_id as string })).body.error).toBe('invalid_grant')
    const one = await codeFor(person)
    expect((await exchange(one.code, one.verifier, { redirect_uri: 'http://localhost:1/callback' })).status).toBe(400)
    for (const uri of [
      'https://evil.test/callback',
      'http://localhost:54321/other',
      'http://localhost.evil.test/callback',
      'http://localhost@evil.test/callback',
      'javascript:alert(1)',
    ]) {
      expect(await answer(person, requestFor(pkce().challenge, { redirect_uri: uri }))).toMatchObject({
        status: 400,
        to: undefined,
        message: expect.stringContaining('redirect_uri'),
      })
      expect((await fetch(`${cloud.url}/authorize/request?${new URLSearchParams({ client_id: CLI, redirect_uri: uri }).toString()}`)).status).toBe(400)
    }
  })

  test('cannot do without PKCE, or with a weaker form', async () => {
    for (const more of [{ code_challenge: undefined }, { code_challenge_method: 'plain' }, { response_type: 'token' }, { response_type: '' }]) {
      const { status, to } = await answer(person, requestFor(pkce().challenge, more))
      expect([status, to!.origin + to!.pathname, to!.searchParams.get('code'), to!.searchParams.get('state')]).toEqual([200, BACK, null, 'st'])
      expect(to!.searchParams.get('error')).toMatch(/^(invalid_request|unsupported_response_type)$/)
    }
  })

  test('cannot ask for a token of another service', async () => {
    expect((await answer(person, requestFor(pkce().challenge, { resource: 'https://elsewhere.test/mcp' }))).status).toBe(400)
    const { code, verifier } = await codeFor(person)
    expect(await exchange(code, verifier, { resource: 'https://elsewhere.test' })).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  test('cannot have a person answer from another page', async () => {
    const body = JSON.stringify({ request: requestFor(pkce().challenge), allow: true })
    const headers = { cookie: person.cookie, 'content-type': 'application/json' }
    expect((await fetch(`${cloud.url}/authorize`, { method: 'POST', headers, body })).status).toBe(401)
    expect(
      (await fetch(`${cloud.url}/authorize`, { method: 'POST', headers: { ...headers, 'x-cob-dashboard': '1', 'sec-fetch-site': 'cross-site' }, body })).status,
    ).toBe(401)
  })

  test('finds no token in the database', async () => {
    const { access_token: access, refresh_token: token } = await tokensFor(person)
    const stored = JSON.stringify(await cloud.query(`select t.*, encode(t.hash, 'escape') as shown, encode(t.hash, 'hex') as hex from oauth_tokens t`))
    for (const secret of [access, token]) expect(stored).not.toContain(secret.slice(7, 40))
  })
})

test('a person who refuses sends the client away with an error, and there is no grant', async () => {
  const before = await cloud.query('select from oauth_grants')
  const { to } = await answer(person, requestFor(pkce().challenge), { allow: false })
  expect([to!.searchParams.get('error'), to!.searchParams.get('state'), to!.searchParams.get('code')]).toEqual(['access_denied', 'st', null])
  expect(await cloud.query('select from oauth_grants')).toHaveLength(before.length)
})

describe('the programs that a person has allowed', () => {
  let person: SignedIn
  let other: SignedIn
  beforeAll(async () => {
    person = await signedIn(cloud, { '': 'member' })
    other = await signedIn(cloud, { '': 'owner' })
  })
  const listed = async (by: Pick<SignedIn, 'fetch'>, query = ''): Promise<AllowedProgram[]> =>
    (await (await by.fetch(`/oauth/grants${query}`)).json()) as AllowedProgram[]

  test('who has allowed them sees them, newest first, and nobody else does', async () => {
    await tokensFor(person, { project_id: DEFAULT_PROJECT })
    await tokensFor(person, { looks_only: true })
    // This client has not fetched its token.
    await codeFor(person)
    const before = { id: expect.any(String) as string, name: 'Kernel CLI', created_at: expect.any(String) as string, expires_at: expect.any(String) as string }
    expect(await listed(person)).toEqual([
      { ...before, project_id: null, looks_only: true },
      { ...before, project_id: DEFAULT_PROJECT, looks_only: false },
    ])
    const first = await person.fetch('/oauth/grants?limit=1')
    expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset'), ((await first.json()) as object[]).length]).toEqual(['true', '1', 1])
    expect(await listed(other)).toEqual([])
    expect(await listed(cloud)).toEqual([])
  })

  test('who has allowed one ends it at once, with its tokens and the streams that are open', async () => {
    const tokens = await tokensFor(person)
    const deployment = await deploy(cloud)
    const frames = readFrames(await withToken(tokens.access_token, `/deployments/${deployment}/events`))
    const [{ id }] = (await listed(person)) as [AllowedProgram]
    for (const stranger of [other, cloud]) expect((await stranger.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(404)
    expect((await withToken(tokens.access_token, '/me')).status).toBe(200)
    expect((await person.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(204)
    expect((await withToken(tokens.access_token, '/me')).status).toBe(401)
    expect((await refresh(tokens.refresh_token)).body.error).toBe('invalid_grant')
    expect((await within('the stream to end', ENDS_MS, frames)).at(-1)?.data).toMatchObject({ event: 'error', error: { code: 'unauthorized' } })
    expect((await person.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(404)
  })

  test('a program that was allowed access neither sees nor ends what was allowed', async () => {
    const { access_token: token } = await tokensFor(person)
    const [{ id }] = (await listed(person)) as [AllowedProgram]
    expect((await withToken(token, '/oauth/grants')).status).toBe(403)
    expect((await withToken(token, `/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(403)
  })
})
