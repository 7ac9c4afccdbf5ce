// Clients that register: valid registrations, their number, and addresses to which codes may be sent. Odd requests for tokens.
import { describe, expect, test } from 'vitest'
import { fastCloud, startFastCloud } from '../../../../test/support/fast-cloud.ts'
import { form } from '../../../../test/support/visitor.ts'
import { mayRedirect, redirectProblem } from './redirects.ts'
import { register } from './register.suite.ts'

const BACK = 'http://localhost:54321/callback'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

describe('registration', () => {
  test('gives an id, and no secret', async () => {
    const { status, body } = await register(cloud.url, {
      redirect_uris: ['https://host.test/cb', 'cursor://host/cb'],
      client_name: 'H\u0000o\u202est',
      token_endpoint_auth_method: 'client_secret_basic',
    })
    expect([status, body]).toEqual([
      201,
      {
        client_id: expect.stringMatching(/^[a-z0-9]{24}$/),
        client_id_issued_at: expect.any(Number),
        client_name: 'H o st',
        redirect_uris: ['https://host.test/cb', 'cursor://host/cb'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
    ])
  })

  test.each([
    [{}, 'invalid_client_metadata'],
    [{ redirect_uris: [] }, 'invalid_client_metadata'],
    [{ redirect_uris: Array.from({ length: 11 }, () => BACK) }, 'invalid_client_metadata'],
    [{ redirect_uris: ['http://host.test/cb'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: ['javascript://x'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: [BACK, 'search-ms://query=x&crumb=location:%5C%5Chost'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: [`https://host.test/${'x'.repeat(1000)}`] }, 'invalid_redirect_uri'],
    [{ redirect_uris: [BACK], grant_types: ['client_credentials'] }, 'invalid_client_metadata'],
  ])('of %j is refused', async (body, error) => {
    expect(await register(cloud.url, body)).toMatchObject({ status: 400, body: { error, error_description: expect.any(String) } })
  })

  test('is limited by address; when the table is full, the oldest client that nobody uses makes room', async () => {
    await using other = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_TRUSTED_PROXIES: '127.0.0.1' })
    const from = (address: string) => register(other.url, { redirect_uris: [BACK] }, { 'x-forwarded-for': address })
    const statuses = []
    for (let tries = 0; tries < 22; tries++) statuses.push((await from('10.0.0.1')).status)
    expect(statuses).toEqual([...Array<number>(20).fill(201), 429, 429])
    await other.query(
      `insert into oauth_clients (id, name, redirect_uris, created_at) select 'c' || n, 'c', '{}', now() - n * interval '1 minute' from generate_series(1, 9980) n`,
    )
    await other.query(
      `insert into oauth_grants (id, client_id, key_id, scope, expires_at) select 'g', 'c9980', id, '{}', now() + interval '1 hour' from api_keys limit 1`,
    )
    expect((await from('10.0.0.2')).status).toBe(201)
    const left = (await other.query<{ id: string }>('select id from oauth_clients')).map(({ id }) => id)
    expect([left.length, left.includes('c9980'), left.includes('c9979')]).toEqual([10_000, true, false])
  })
})

test.each([
  ['http://localhost/cb', 'http://localhost:1234/cb', true],
  ['http://127.0.0.1:5/cb', 'http://127.0.0.1:6/cb', true],
  ['http://[::1]/cb', 'http://[::1]:6/cb', true],
  ['http://localhost/cb', 'http://127.0.0.1/cb', false],
  ['http://localhost/cb', 'http://localhost/cb/', false],
  ['http://localhost/cb', 'http://localhost/cb?x=1', false],
  ['https://host.test/cb', 'https://host.test:444/cb', false],
  ['https://host.test/cb', 'https://host.test/cb', true],
  ['cursor://x/cb', 'cursor://x/cb', true],
  ['com.example.app:/cb', 'com.example.app:/cb', true],
  ['com.example.app:/cb', 'com.example.app:/cb2', false],
  // An earlier version has registered it.
  ['search-ms://x', 'search-ms://x', false],
])('a client that has registered %s may be answered at %s: %s', (registered, uri, expected) => {
  expect(mayRedirect([registered], uri)).toBe(expected)
})

test.each([
  'data:text/html,x',
  'file:///etc/passwd',
  'http://10.0.0.1/cb',
  'https://u:p@host.test/',
  'https://host.test/#x',
  'no address',
  'blob:https://x/y',
  'myapp:cb',
  '//host',
  // Schemes of operating systems and other programs, and schemes that nobody has documented.
  'search-ms://query=x',
  'ms-msdt://id',
  'ms-office://x',
  'ms-settings://x',
  'shell://x',
  'smb://host/share',
  'ldap://host/x',
  'ssh://host',
  'vnc://host',
  'itms-services://?action=download-manifest&url=https://x',
  'x-apple.systempreferences:/x',
  'x-apple.systempreferences://x',
  'android-app://com.example/x',
  'myapp://cb',
  'com.example.app:cb',
  '.com://x',
  'com.://x',
  'javascript.x',
  'cursorx://x',
  'cursor:x',
])('nobody may register %s', (uri) => {
  expect(redirectProblem(uri)).toEqual(expect.any(String))
})

// Addresses that programs register, from their documentation or source code.
test.each([
  'https://claude.ai/api/mcp/auth_callback',
  'https://claude.com/api/mcp/auth_callback',
  'https://chatgpt.com/connector_platform_oauth_redirect',
  'https://www.cursor.com/agents/mcp/oauth/callback',
  'https://vscode.dev/redirect',
  'http://127.0.0.1:33418',
  'http://127.0.0.1:33418/',
  'http://localhost:6274/oauth/callback',
  'cursor://anysphere.cursor-mcp/oauth/callback',
  'cursor://anysphere.cursor-retrieval/oauth/user-demo/callback',
  'vscode://vscode.microsoft-authentication/callback',
  'windsurf://codeium.windsurf/oauth/callback',
  'com.raycast:/oauth?package_name=Extension',
  'com.example.app:/oauth2redirect',
  'com.example.app://oauth2redirect',
])('a program may register %s', (uri) => {
  expect(redirectProblem(uri)).toBeUndefined()
})

const tokenCall = async (fields: object) => {
  const response = await fetch(`${cloud.url}/token`, form(fields as Record<string, string>))
  return { status: response.status, body: (await response.json()) as object }
}

test('odd token requests get an answer in the form of OAuth', async () => {
  for (const fields of [
    {},
    { grant_type: 'password' },
    { grant_type: 'authorization_code' },
    { grant_type: 'refresh_token', client_id: 'kernel-cli' },
    { client_id: 'x', grant_type: 'authorization_code' },
  ]) {
    const { status, body } = await tokenCall(fields)
    expect([400, 401]).toContain(status)
    expect(body).toMatchObject({ error: expect.any(String), error_description: expect.any(String) })
  }
  const twice = await fetch(`${cloud.url}/token`, { ...form({}), body: 'grant_type=a&grant_type=b' })
  expect([twice.status, await twice.json()]).toEqual([400, { error: 'invalid_request', error_description: 'grant_type: is given twice' }])
  const asJson = await fetch(`${cloud.url}/token`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
  expect([asJson.status, ((await asJson.json()) as { error: string }).error]).toEqual([400, 'invalid_request'])
  expect((await fetch(`${cloud.url}/token`)).status).toBe(405)
})
