// Handing a login to a person: the code works once, and its token opens only this login. The page that it opens, over HTTP.
import { describe, expect, test } from 'vitest'
import { searchLog } from '../../../../test/support/audit-log.ts'
import { newId } from '../../../base/ids.ts'
import { makeSigner } from '../../../base/signed.ts'
import { readFileSync } from 'node:fs'
import { loggedPath } from '../../../http/request-path.ts'
import type { LoginBegun } from './contract.ts'
import { INPUT_MS } from './engine/person.ts'
import { HOSTED_PATH, hostedPath } from './hosted-page.ts'
import { json, pauseOf, serviceWithWorker } from './worker.suite.ts'

const { cloud, worker, create, login, succeed } = await serviceWithWorker()

async function begin(): Promise<{ id: string; code: string; exchange: (code?: string) => Promise<Response> }> {
  const { id } = await create()
  const begun = await json<LoginBegun>(await login(id))
  const exchange = (code = begun.handoff_code) =>
    fetch(`${cloud.url}/auth/connections/${id}/exchange`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: 'https://anywhere.test' },
      body: JSON.stringify({ code }),
    })
  return { id, code: begun.handoff_code, exchange }
}
const jwtOf = async (response: Response) => (await json<{ jwt: string }>(response)).jwt
const as = (jwt: string, path: string, init: RequestInit = {}) =>
  fetch(cloud.url + path, { ...init, headers: { authorization: `Bearer ${jwt}`, 'content-type': 'application/json' } })
const claims = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>

describe('a code', () => {
  test('is exchanged once, without a key, for a token that clients know', async () => {
    const { id, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    const flow = await worker.claim(id)
    expect(claims(jwt)).toMatchObject({ iss: 'kernel-api', managed_auth_session_id: flow.id, exp: expect.any(Number) as number })
    expect(Number(claims(jwt).exp) * 1000).toBeGreaterThan(flow.expires_at.getTime())
    expect((await exchange()).status).toBe(401)
  })

  test('is refused when it is wrong, of another connection, or too old; of many at the same time one is taken', async () => {
    const [one, other] = [await begin(), await begin()]
    expect((await one.exchange(other.code)).status).toBe(401)
    expect((await one.exchange(`${one.code.slice(0, -1)}${one.code.endsWith('A') ? 'B' : 'A'}`)).status).toBe(401)
    expect((await one.exchange('x')).status).toBe(401)
    const all = await Promise.all(Array.from({ length: 5 }, () => one.exchange()))
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 401, 401, 401, 401])
    await cloud.query(`update auth_flows set expires_at = now() - interval '10 minutes' where connection_id = $1`, [other.id])
    expect((await other.exchange()).status).toBe(401)
  })

  test('cannot be guessed at any rate', async () => {
    const { exchange } = await begin()
    const all = await Promise.all(Array.from({ length: 30 }, () => exchange('guess')))
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([401, 429]))
  })

  test('is in no table and in no line of the audit log, nor is its token', async () => {
    const { id, code, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    await as(jwt, `/auth/connections/${id}/submit`, { method: 'POST', body: '{"selected_choice_id":"c1"}' })
    const now = Date.now()
    const window = new URLSearchParams({ start: new Date(now - 600_000).toISOString(), end: new Date(now + 60_000).toISOString(), limit: '100' })
    const entries = await (await cloud.fetch(`/audit-logs?${window.toString()}`)).text()
    expect(entries).toContain(`/auth/connections/${id}/submit`)
    expect(entries).toContain('"auth_strategy":"login"')
    const rows = JSON.stringify(await cloud.query('select f::text as text from auth_flows f'))
    for (const secret of [code, jwt]) for (const text of [entries, rows]) expect(text).not.toContain(secret)
  })

  test('polls of its hosted page are not in the audit log; what the page submits, and a poll that is refused, are', async () => {
    const { id, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    for (let poll = 0; poll < 3; poll++) expect((await as(jwt, `/auth/connections/${id}`)).status).toBe(200)
    await as(jwt, `/auth/connections/${id}/submit`, { method: 'POST', body: '{}' })
    expect((await as(jwt, `/auth/connections/${id}?nonsense=x`)).status).toBe(400)
    const entries = (await searchLog(cloud, { search: id, auth_strategy: 'login' })).toReversed()
    expect(entries.map(({ method, status }) => `${method} ${status}`)).toEqual(['POST 400', 'GET 400'])
  })
})

describe('a token', () => {
  test('opens the connection, its answers and its events, also after the login has ended', async () => {
    const { id, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    const flow = await worker.claim(id)
    await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', new Date(Date.now() + INPUT_MS))
    expect(await (await as(jwt, `/auth/connections/${id}`)).json()).toMatchObject({ flow_step: 'AWAITING_INPUT', domain: 'site.test' })
    // In the form of the React component.
    const sent = await as(jwt, `/auth/connections/${id}/submit`, { method: 'POST', body: JSON.stringify({ fields: {}, mfa_option_id: 'sms' }) })
    expect([sent.status, await sent.json()]).toEqual([202, { accepted: true }])
    await succeed(flow.id)
    expect(await (await as(jwt, `/auth/connections/${id}/events`)).text()).toContain('SUCCESS')
    expect((await as(jwt, `/auth/connections/${id}`)).status).toBe(200)
  })

  test('opens nothing else', async () => {
    const [one, other] = [await begin(), await begin()]
    const jwt = await jwtOf(await one.exchange())
    const calls: [string, string][] = [
      ['GET', `/auth/connections/${other.id}`],
      ['POST', `/auth/connections/${other.id}/submit`],
      ['GET', `/auth/connections/${other.id}/events`],
      ['GET', `/auth/connections/${newId()}`],
      ['GET', `/auth/connections/${one.id}/timeline`],
      ['PATCH', `/auth/connections/${one.id}`],
      ['DELETE', `/auth/connections/${one.id}`],
      ['POST', `/auth/connections/${one.id}/login`],
      ['GET', '/auth/connections'],
      ['POST', '/auth/connections'],
      ['GET', '/browsers'],
      ['GET', '/profiles'],
      ['GET', '/auth/context'],
      ['GET', '/org/api_keys'],
    ]
    for (const [method, path] of calls)
      expect([method, path, (await as(jwt, path, { method, ...(['POST', 'PATCH'].includes(method) && { body: '{}' }) })).status]).toEqual([method, path, 401])
  })

  test('that is forged, expired or made for another purpose is refused with 401', async () => {
    const { id, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    const secretKey = Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex')
    const { managed_auth_session_id, exp } = claims(jwt)
    const sign = (purpose: string, more: object = {}) =>
      makeSigner(secretKey, purpose).sign(id, { iss: 'kernel-api', managed_auth_session_id, exp: exp as number, ...more })
    expect((await as(await sign('login-tokens'), `/auth/connections/${id}`)).status).toBe(200)
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${jwt.split('.')[1]}.`
    const wrong = [
      await sign('login-tokens', { exp: Math.floor(Date.now() / 1000) - 1 }),
      await sign('session-tokens'),
      await sign('login-tokens', { iss: 'x' }),
      none,
    ]
    for (const token of wrong) expect((await as(token, `/auth/connections/${id}`)).status).toBe(401)
  })

  test('is answered 410 when its connection is gone or another login has begun', async () => {
    const { id, exchange } = await begin()
    const jwt = await jwtOf(await exchange())
    const flow = await worker.claim(id)
    await worker.flows.finish(flow.id, { state: 'FAILED', errorCode: 'internal', errorMessage: 'x' })
    expect((await as(jwt, `/auth/connections/${id}`)).status).toBe(200)
    await login(id)
    expect((await as(jwt, `/auth/connections/${id}`)).status).toBe(410)
    await cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })
    const gone = await as(jwt, `/auth/connections/${id}/submit`, { method: 'POST', body: '{"selected_choice_id":"c1"}' })
    expect([gone.status, ((await gone.json()) as { code: string }).code]).toEqual([410, 'gone'])
  })
})

describe('pages of other origins', () => {
  const preflight = (path: string) =>
    fetch(cloud.url + path, { method: 'OPTIONS', headers: { origin: 'https://anywhere.test', 'access-control-request-method': 'GET' } })
  test('may call the four routes, also where they are refused', async () => {
    const { id, exchange } = await begin()
    for (const path of ['', '/submit', '/events', '/exchange']) {
      const { status, headers } = await preflight(`/auth/connections/${id}${path}`)
      expect([path, status, headers.get('access-control-allow-origin')]).toEqual([path, 204, '*'])
      expect(headers.get('access-control-allow-headers')).toBe('Authorization, Content-Type, Accept')
      expect(headers.get('access-control-allow-methods')).toBe('GET, POST, OPTIONS')
      expect(headers.get('access-control-allow-credentials')).toBeNull()
    }
    const answers = [await exchange(), await exchange(), await as('x.y.z', `/auth/connections/${id}`), await as('x.y.z', `/auth/connections/${id}/events`)]
    expect(answers.map(({ status, headers }) => [status, headers.get('access-control-allow-origin')])).toEqual([
      [200, '*'],
      [401, '*'],
      [401, '*'],
      [401, '*'],
    ])
  })
  test('may call no other route', async () => {
    const { id } = await begin()
    for (const path of ['/auth/connections', `/auth/connections/${id}/login`, `/auth/connections/${id}/timeline`, '/browsers', '/profiles'])
      expect([path, (await preflight(path)).headers.get('access-control-allow-origin')]).toEqual([path, null])
    const changed = await cloud.send('PATCH', `/auth/connections/${id}`, {})
    expect([changed.status, changed.headers.get('access-control-allow-origin')]).toEqual([200, null])
  })
})

// The same in a browser: test/e2e/hosted-login.test.ts.
describe('the hosted page', () => {
  /** Requests like a person's browser: without a key. */
  const open = (path: string) => fetch(`${cloud.url}${path}`, { redirect: 'manual' })

  test('is the same for every address, so that it tells nothing about connections', async () => {
    const pages = await Promise.all(['/auth/login/a?code=x', '/auth/login/b', '/auth/login/%3Cb%3E?code=%3Cb%3E&success_url=javascript:1'].map(open))
    expect(pages.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(new Set(await Promise.all(pages.map((page) => page.text()))).size).toBe(1)
  })

  test('loads from this service only, is in no frame, sends no referrer, and is never stored', async () => {
    const { headers } = await open(hostedPath('a', 'x'))
    const policy = headers.get('content-security-policy')!
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"])
      expect(policy).toContain(part)
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    const names = ['content-type', 'referrer-policy', 'cache-control', 'x-frame-options', 'x-content-type-options']
    expect(names.map((name) => headers.get(name))).toEqual(['text/html; charset=utf-8', 'no-referrer', 'no-store', 'DENY', 'nosniff'])
  })

  test('has an address whose code no log contains', () => {
    const path = hostedPath('a/b', 'x&y')
    expect(path).toBe('/auth/login/a%2Fb?code=x%26y')
    for (const url of [path, path.replace('?', '&')]) expect(loggedPath({ url, headers: {} }, [HOSTED_PATH])).toBe('/auth/login/…')
  })
})
