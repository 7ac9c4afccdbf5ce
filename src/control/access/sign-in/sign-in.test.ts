// Signing in with a key: the rights of the cookie, the requests on which it is valid, and its end.
import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { freePort } from '../../../../test/support/free-port.ts'
import { fastCloud, startFastCloud } from '../../../../test/support/fast-cloud.ts'
import { readFrames } from '../../../../test/support/apps.ts'
import { within } from '../../../base/wait.ts'
import { withoutOwnCookies } from '../../../http/cookies.ts'
import { deploy } from '../../apps/invocations/deployed.suite.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import { setSession } from './cookie.ts'

/** A session is cached for 2 s. */
const ENDS_MS = 6_000

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const signIn = (key: string, headers: Record<string, string> = {}, url = cloud.url) =>
  fetch(`${url}/sign-in/key`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ api_key: key }) })

async function cookieOf(key: string): Promise<string> {
  const response = await signIn(key)
  expect(response.status).toBe(204)
  return response.headers.getSetCookie()[0]!.split(';')[0]!
}

const OURS = { 'x-cob-dashboard': '1' }
/** A request in the form of the dashboard's. */
const asPage = (cookie: string, path: string, init: RequestInit = {}) =>
  fetch(cloud.url + path, { ...init, headers: { cookie, ...OURS, ...(init.headers as Record<string, string>) } })

const makeKey = async (body: object = {}) =>
  (await (await cloud.send('POST', '/org/api_keys', { name: 'sign-in', ...body })).json()) as { id: string; key: string }
const makeProject = async (name: string) => ((await (await cloud.send('POST', '/org/projects', { name })).json()) as { id: string }).id

test('anybody may ask how to sign in', async () => {
  const response = await fetch(`${cloud.url}/sign-in/options`)
  expect([response.status, await response.json()]).toEqual([200, { key: true, providers: [] }])
})

describe('a sign-in with a key', () => {
  test('sets a cookie that scripts cannot read, other sites cannot send, and that holds no key', async () => {
    const response = await signIn(cloud.key)
    const [cookie] = response.headers.getSetCookie()
    expect(cookie).toMatch(/^cob_session=[0-9a-f]{64}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/)
    const [row] = await cloud.query<{ hash: Buffer }>('select hash from web_sessions order by created_at desc limit 1')
    expect(cookie).not.toContain(row!.hash.toString('hex'))
    expect(JSON.stringify(await cloud.query('select * from web_sessions'))).not.toContain(cookie!.slice(12, 40))
  })

  test('acts with exactly the rights of the key: its own project, and no other', async () => {
    const project = await makeProject('sign-in one')
    const { key } = await makeKey({ project_id: project })
    const cookie = await cookieOf(key)
    expect((await asPage(cookie, '/browsers')).status).toBe(200)
    expect((await asPage(cookie, '/browsers', { headers: { 'x-kernel-project-id': DEFAULT_PROJECT } })).status).toBe(403)
    expect((await asPage(cookie, '/org/projects', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"x"}' })).status).toBe(403)
    expect(await (await asPage(cookie, '/me')).json()).toMatchObject({ role: null, projects: [{ id: project, role: 'owner' }], principal: { type: 'api_key' } })
    expect(await (await asPage(cookie, '/auth/context')).json()).toMatchObject({
      authentication: { method: 'jwt', source: 'dashboard', credential_id: null },
      authorization: { credential_scope: { project_id: project } },
    })
  })

  test('is in the audit log, and so is what it does, as the key by way of the dashboard', async () => {
    const { id, key } = await makeKey()
    const cookie = await cookieOf(key)
    await asPage(cookie, '/browsers')
    await expect
      .poll(() => cloud.query('select auth_strategy, path from audit_log where user_id = $1 order by at', [id]), { timeout: 5_000 })
      .toEqual([
        { auth_strategy: 'api_key', path: '/sign-in/key' },
        { auth_strategy: 'dashboard', path: '/browsers' },
      ])
  })

  test('is refused for a wrong key, for the key of an app, and for a page elsewhere', async () => {
    expect((await signIn('cob_wrong')).status).toBe(401)
    await deploy(cloud)
    const [{ id }] = (await cloud.query<{ id: string }>('select id from deployments limit 1')) as [{ id: string }]
    const key = 'cob_0123456789012345678901234567890123456789'
    await cloud.query(`insert into api_keys (id, name, hash, masked, deployment_id, project_id) values ('appkey', 'app', sha256($1::bytea), 'm', $2, $3)`, [
      key,
      id,
      DEFAULT_PROJECT,
    ])
    expect((await signIn(key)).status).toBe(403)
    expect((await signIn(cloud.key, { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    // A form of another site cannot send JSON.
    for (const type of ['text/plain', 'application/x-www-form-urlencoded']) expect((await signIn(cloud.key, { 'content-type': type })).status).toBe(400)
  })

  test('names the field that is wrong', async () => {
    const response = await fetch(`${cloud.url}/sign-in/key`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"key":"x"}' })
    expect([response.status, ((await response.json()) as { message: string }).message]).toEqual([400, expect.stringContaining('api_key')])
  })
})

describe('the cookie counts', () => {
  test('only with the header that a page of another origin cannot send', async () => {
    const cookie = await cookieOf(cloud.key)
    expect((await asPage(cookie, '/browsers')).status).toBe(200)
    const refused: Record<string, string>[] = [
      { cookie },
      { cookie, 'x-cob-dashboard': '0' },
      { cookie, ...OURS, 'sec-fetch-site': 'cross-site' },
      { cookie, ...OURS, 'sec-fetch-site': 'same-site' },
      { cookie, ...OURS, 'sec-fetch-site': 'none' },
    ]
    for (const headers of refused) {
      expect((await fetch(`${cloud.url}/browsers`, { headers })).status).toBe(401)
      expect((await fetch(`${cloud.url}/browsers`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: '{}' })).status).toBe(
        401,
      )
    }
  })

  test('only for pages of the service, by what web browsers say of them: each alone is enough to refuse', async () => {
    const cookie = await cookieOf(cloud.key)
    const { host } = new URL(cloud.url)
    const ask = (headers: Record<string, string>, method: string, path: string, body = '') =>
      new Promise<number>((resolve, reject) => {
        request(cloud.url + path, { method, headers: { cookie, ...OURS, ...headers } }, (response) => resolve(response.resume().statusCode!))
          .on('error', reject)
          .end(body)
      })
    const ours: Record<string, string>[] = [
      {},
      { 'sec-fetch-site': 'same-origin', origin: cloud.url },
      { origin: cloud.url },
      { referer: `${cloud.url}/dashboard/sessions?x=1` },
      { origin: cloud.url, referer: 'https://elsewhere.test/' },
      // A proxy that keeps the name terminates TLS.
      { host: 'cob.test', origin: 'https://cob.test' },
      { host: 'cob.test:2627', origin: 'http://cob.test:2627' },
    ]
    for (const headers of ours) expect([headers, await ask(headers, 'GET', '/browsers')]).toEqual([headers, 200])
    const foreign: Record<string, string>[] = [
      { origin: 'https://elsewhere.test' },
      { origin: 'null' },
      { origin: '' },
      { origin: `http://${host}.elsewhere.test` },
      { origin: `http://elsewhere.test/${host}` },
      { origin: `${cloud.url}, https://elsewhere.test` },
      { origin: `http://127.0.0.1:1` },
      { 'sec-fetch-site': 'same-origin', origin: 'https://elsewhere.test' },
      { 'sec-fetch-site': 'cross-site', origin: cloud.url },
      { referer: 'https://elsewhere.test/page' },
      { referer: 'about:blank' },
      { host: 'elsewhere.test', origin: cloud.url, 'x-forwarded-host': host },
    ]
    for (const headers of foreign)
      for (const [method, path, status] of [
        ['GET', '/browsers', 401],
        ['POST', '/browsers', 401],
        ['DELETE', '/browsers/x', 401],
        ['GET', '/me', 401],
        ['POST', '/authorize', 401],
        ['POST', '/sign-out', 403],
      ] as const)
        expect([headers, method, path, await ask(headers, method, path)]).toEqual([headers, method, path, status])
    // The cookie is still valid.
    expect(await ask({}, 'GET', '/me')).toBe(200)
    const signsIn = (headers: Record<string, string>) =>
      ask({ 'content-type': 'application/json', ...headers }, 'POST', '/sign-in/key', JSON.stringify({ api_key: cloud.key }))
    for (const headers of foreign) expect([headers, await signsIn(headers)]).toEqual([headers, 403])
    for (const headers of ours) expect([headers, await signsIn(headers)]).toEqual([headers, 204])
  })

  test('for pages at COB_PUBLIC_URL, when a proxy before the service has changed the name', async () => {
    const port = String(await freePort())
    await using other = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_PUBLIC_URL: 'https://cob.example', COB_PORT: port })
    const at = `http://127.0.0.1:${port}`
    const cookie = (await signIn(other.key, { origin: 'https://cob.example' }, at)).headers.getSetCookie()[0]!.split(';')[0]!
    const me = async (origin: string) => (await fetch(`${at}/me`, { headers: { cookie, ...OURS, origin } })).status
    expect([await me('https://cob.example'), await me(at), await me('https://elsewhere.test')]).toEqual([200, 200, 401])
  })

  test('never for WebSockets, whatever page opens them', async () => {
    const cookie = await cookieOf(cloud.key)
    const { session_id: id } = await cloud.create()
    for (const path of ['cdp', 'bidi'])
      for (const origin of [cloud.url, 'https://elsewhere.test']) {
        const socket = new WebSocket(`${cloud.url.replace('http', 'ws')}/browsers/${id}/${path}`, { headers: { cookie, origin, ...OURS } })
        const status = await new Promise((resolve) =>
          socket.on('unexpected-response', (_request, response) => resolve(response.statusCode)).on('open', () => resolve('open')),
        )
        expect([path, origin, status]).toEqual([path, origin, expect.toBeOneOf([401, 404])])
        socket.on('error', () => {}).terminate()
      }
  })

  test('never for a page elsewhere: no preflight allows the header', async () => {
    for (const path of ['/browsers', '/me', '/sign-out', '/sign-in/key', '/auth/connections/x/exchange', '/auth/connections/x']) {
      const response = await fetch(cloud.url + path, {
        method: 'OPTIONS',
        headers: { origin: 'https://elsewhere.test', 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-cob-dashboard' },
      })
      expect((response.headers.get('access-control-allow-headers') ?? '').toLowerCase()).not.toContain('x-cob-dashboard')
      expect(response.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('less than a key that is shown', async () => {
    const cookie = await cookieOf(cloud.key)
    expect((await asPage(cookie, '/browsers', { headers: { authorization: 'Bearer cob_wrong' } })).status).toBe(401)
  })

  test('is never passed on to an agent, which would send it to other sites', () => {
    const passed = (cookie: string) => withoutOwnCookies({ cookie, accept: '*/*' })
    expect(passed('cob_session=x')).toEqual({ accept: '*/*' })
    expect(passed('a=1; cob_session=x;cob_oidc=y; b=cob_2')).toEqual({ accept: '*/*', cookie: 'a=1; b=cob_2' })
    expect(passed('a=1')).toEqual({ accept: '*/*', cookie: 'a=1' })
  })

  test('is marked Secure when the service is reached over TLS', async () => {
    expect(setSession('t', 60, 'https://cob.test')).toBe('cob_session=t; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure')
  })
})

describe('a sign-in ends', () => {
  test('by signing out, at once, and the cookie is cleared', async () => {
    const cookie = await cookieOf(cloud.key)
    expect((await asPage(cookie, '/me')).status).toBe(200)
    // A page of another origin cannot sign a person out.
    expect((await fetch(`${cloud.url}/sign-out`, { method: 'POST', headers: { cookie } })).status).toBe(403)
    const out = await asPage(cookie, '/sign-out', { method: 'POST' })
    expect([out.status, out.headers.getSetCookie()[0]]).toEqual([204, 'cob_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict'])
    expect((await asPage(cookie, '/me')).status).toBe(401)
    expect((await asPage(cookie, '/sign-out', { method: 'POST' })).status).toBe(204)
  })

  test.each([
    ['its key is deleted', (id: string) => cloud.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })],
    ['its key expires', (id: string) => cloud.query('update api_keys set expires_at = now() where id = $1', [id])],
    ['it expires itself', (id: string) => cloud.query('update web_sessions set expires_at = now() where key_id = $1', [id])],
  ])('when %s, with the streams that it has open', async (_when, end) => {
    const deployment = await deploy(cloud)
    const { id, key } = await makeKey()
    const cookie = await cookieOf(key)
    const stream = await asPage(cookie, `/deployments/${deployment}/events`)
    const frames = readFrames(stream)
    await end(id)
    expect((await within('the stream to end', ENDS_MS, frames)).at(-1)?.data).toMatchObject({ event: 'error', error: { code: 'unauthorized' } })
    await expect.poll(async () => (await asPage(cookie, '/me')).status, { timeout: ENDS_MS }).toBe(401)
  })
})

test('one address may try only so many sign-ins within a minute', async () => {
  await using other = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  for (let tries = 0; tries < 60; tries++) expect((await signIn('cob_wrong', {}, other.url)).status).toBe(401)
  const refused = await signIn(other.key, {}, other.url)
  expect([refused.status, Number(refused.headers.get('retry-after'))]).toEqual([429, expect.any(Number)])
  // Callers with a key are not affected.
  expect((await other.fetch('/browsers')).status).toBe(200)
})

test('odd cookies are no credential, and no error', async () => {
  for (const cookie of ['cob_session', 'cob_session=', 'cob_session=%00', 'x; cob_session=é', ';;;=', `cob_session=${'a'.repeat(5000)}`]) {
    const status = await new Promise<number>((resolve, reject) => {
      request(`${cloud.url}/me`, { headers: { cookie, ...OURS }, insecureHTTPParser: true }, (response) => resolve(response.resume().statusCode!))
        .on('error', reject)
        .end()
    })
    expect(status).toBe(401)
  }
})
