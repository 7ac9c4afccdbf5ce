// The audit log of a service with fake browsers: what it contains and omits, which caller sees what, pages and chunks.
import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { sleep } from '../../../base/wait.ts'
import { newId } from '../../../base/ids.ts'
import { around, asked, keyOf, lockTable, searchLog } from '../../../../test/support/audit-log.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import type { AuditLogEntry } from './contract.ts'
import { oldEntries } from './purge.ts'

const cloud = fastCloud({ COB_TRUSTED_PROXIES: '127.0.0.1' })

const search = (query: Record<string, string>, headers: Record<string, string> = {}) => searchLog(cloud, query, headers)
const keyFor = (project: string | null) => keyOf(cloud, project)
const stored = (like: string) => cloud.query<{ path: string; status: number }>('select * from audit_log where path like $1 order by at desc', [like])

async function newProject(): Promise<string> {
  return ((await (await cloud.send('POST', '/org/projects', { name: `p-${newId()}` })).json()) as { id: string }).id
}

test('an entry says who, what, from where, with which result', async () => {
  const before = Date.now()
  const { id, key } = await keyFor(null)
  const response = await fetch(`${cloud.url}/browsers/${newId()}?include_deleted=true`, {
    method: 'GET',
    headers: { authorization: `Bearer ${key}`, 'user-agent': 'Kernel/JS 0.84.0', 'x-forwarded-for': '203.0.113.7' },
  })
  expect(response.status).toBe(404)
  const [entry] = await search({ search_user_id: id })
  expect(entry).toEqual({
    event_id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/),
    timestamp: expect.any(String),
    method: 'GET',
    path: new URL(response.url).pathname,
    route: '/browsers/{id_or_name}',
    status: 404,
    duration_ms: expect.any(Number),
    domain: new URL(cloud.url).host,
    client_ip: '203.0.113.7',
    user_agent: 'Kernel/JS 0.84.0',
    auth_strategy: 'api_key',
    user_id: id,
    email: `${id}@key.cob.internal`,
    project_id: 'defaultproject0000000000',
  })
  expect(Date.parse(entry!.timestamp)).toBeGreaterThanOrEqual(before)
  expect(Date.parse(entry!.timestamp)).toBeLessThanOrEqual(Date.now())
  expect(entry!.duration_ms).toBeLessThan(10_000)
})

test("who only shows what is no credential is not in the log; a key's request for a project that it may not use is", async () => {
  const count = async () => (await cloud.query<{ n: number }>('select count(*)::int as n from audit_log'))[0]!.n
  await search({})
  const before = await count()
  await fetch(`${cloud.url}/health`)
  await fetch(`${cloud.url}/browsers`, { headers: { authorization: 'Bearer cob_nobodys' } })
  await fetch(`${cloud.url}/browsers/x/computer/get_mouse_position?jwt=nonsense`, { method: 'POST' })
  await cloud.fetch('/no/such/route')
  await search({})
  expect((await count()) - before).toBe(1)
  const { id, key } = await keyFor(await newProject())
  const headers = { authorization: `Bearer ${key}`, 'x-kernel-project-id': 'defaultproject0000000000' }
  expect((await fetch(`${cloud.url}/browsers`, { headers })).status).toBe(403)
  expect(await search({ search_user_id: id })).toMatchObject([{ status: 403, path: '/browsers' }])
})

test('a path that the database cannot hold as it was sent is in the log without that', async () => {
  const { id, key } = await keyFor(null)
  const response = await fetch(`${cloud.url}/browsers/%00${key}`, { headers: { authorization: `Bearer ${key}` } })
  expect(response.status).toBe(400)
  expect(await search({ search_user_id: id })).toMatchObject([{ path: '/browsers/\ufffd…', status: 400 }])
})

test('the token and the link of an ended session make no entry', async () => {
  const { session_id, base_url, browser_live_view_url, cdp_ws_url } = (await cloud.create()) as unknown as Record<string, string>
  const jwt = new URL(cdp_ws_url!).searchParams.get('jwt')!
  await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
  expect((await fetch(`${base_url}/computer/get_mouse_position?jwt=${jwt}`, { method: 'POST' })).status).toBe(404)
  await fetch(browser_live_view_url!)
  for (const url of [cdp_ws_url!, `${browser_live_view_url!.replace('http', 'ws')}/socket`]) {
    const refused = await new Promise<number>((resolve) =>
      new WebSocket(url).once('unexpected-response', (_, { statusCode }) => resolve(statusCode!)).on('error', () => {}),
    )
    expect(refused).toBe(404)
  }
  expect((await search({ search: session_id! })).map(({ auth_strategy }) => auth_strategy)).toEqual(['api_key'])
})

test('two searches of a key are under way at a time, and four of all keys; more are told to come later', async () => {
  const [first, second, third] = await Promise.all([keyFor(null), keyFor(null), keyFor(null)])
  const ask = async ({ key }: { key: string }) => {
    const { status, headers } = await fetch(cloud.url + asked(around()), { headers: { authorization: `Bearer ${key}` } })
    return [status, headers.get('retry-after')]
  }
  const begun: Promise<unknown>[] = []
  {
    await using _locked = await lockTable(cloud)
    for (const key of [first, second]) {
      begun.push(ask(key), ask(key))
      await sleep(200)
      expect(await ask(key)).toEqual([429, '2'])
    }
    expect(await ask(third)).toEqual([429, '2'])
  }
  expect(await Promise.all(begun)).toEqual(begun.map(() => [200, null]))
  for (const key of [first, second, third]) expect(await ask(key)).toEqual([200, null])
})

test('a session is in the log by its own token', async () => {
  const { session_id, base_url } = await cloud.create()
  const url = new URL(base_url as string)
  const answer = await fetch(`${base_url as string}/computer/click_mouse?jwt=${new URL((await cloud.create()).cdp_ws_url).searchParams.get('jwt')}`, {
    method: 'POST',
  })
  expect(answer.status).toBe(401)
  const { cdp_ws_url } = (await (await cloud.fetch(`/browsers/${session_id}`)).json()) as { cdp_ws_url: string }
  const jwt = new URL(cdp_ws_url).searchParams.get('jwt')!
  const clicked = await fetch(`${base_url as string}/computer/click_mouse?jwt=${jwt}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"x": 1, "y": 1}',
  })
  expect(clicked.status).toBe(200)
  expect(await search({ search_user_id: session_id })).toMatchObject([
    { auth_strategy: 'session', path: `${url.pathname}/computer/click_mouse`, status: 200, email: '', project_id: 'defaultproject0000000000' },
  ])
})

describe('searching', () => {
  const day = '2026-03-01T'
  beforeAll(async () => {
    const row = (second: number, method: string, path: string, route: string, status: number, user: string, strategy: string) =>
      cloud.query(
        `insert into audit_log (at, event_id, project_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id)
         values ($1, $2, null, $3, $4, $5, $6, 1, 'd', '198.51.100.4', 'a', $7, $8)`,
        [`${day}00:00:${String(second).padStart(2, '0')}.000Z`, newId(), method, path, route, status, strategy, user],
      )
    await row(1, 'GET', '/browsers/one', '/browsers/{id}', 200, 'kim', 'api_key')
    await row(2, 'POST', '/browsers', '/browsers', 201, 'kim', 'api_key')
    await row(3, 'DELETE', '/org/api_keys/x', '/org/api_keys/{id}', 404, 'lee', 'app')
    await row(4, 'POST', '/browser/session/Two/curl', '/browser/session/{id}/curl', 502, 'two', 'session')
  })
  const paths = async (query: Record<string, string>) => (await search({ start: `${day}00:00:00Z`, end: `${day}01:00:00Z`, ...query })).map(({ path }) => path)
  const [one, two, three, four] = ['/browsers/one', '/browsers', '/org/api_keys/x', '/browser/session/Two/curl']

  test.each([
    [{}, [four, three, two, one]],
    [{ start: `${day}00:00:02Z` }, [four, three, two]],
    [{ end: `${day}00:00:02Z` }, [one]],
    [{ start: `${day}02:00:02+02:00`, end: `${day}00:00:03.000Z` }, [two]],
    [{ method: 'post' }, [four, two]],
    [{ exclude_method: 'GET,delete' }, [four, two]],
    [{ auth_strategy: 'app' }, [three]],
    [{ service: 'browsers' }, [two, one]],
    [{ search: '/BROWSERS' }, [two, one]],
    [{ search: '50' }, [four]],
    [{ search: 'lee' }, [three]],
    [{ search: 'kim@key' }, [two, one]],
    [{ search: '198.51.100' }, [four, three, two, one]],
    [{ search: "'; drop" }, []],
    [{ search: '%' }, []],
    [{ search_user_id: 'lee,two' }, [four, three]],
    [{ search: 'one', search_user_id: 'lee' }, [three, one]],
    [{ search_user_id: '' }, [four, three, two, one]],
    [{ method: 'POST', service: 'browsers' }, [two]],
  ] as [Record<string, string>, string[]][])('%j', async (query, expected) => {
    expect(await paths(query)).toEqual(expected)
  })

  test('a list may also come as several parameters', async () => {
    const query = new URLSearchParams({ start: `${day}00:00:00Z`, end: `${day}01:00:00Z` })
    query.append('exclude_method', 'GET')
    query.append('exclude_method', 'POST')
    expect(((await (await cloud.fetch(asked(query))).json()) as AuditLogEntry[]).map(({ path }) => path)).toEqual([three])
  })

  test.each([
    [{ start: 'yesterday' }, 'start'],
    [{ start: '2026-03-02' }, 'start'],
    [{ end: '2026-01-01T00:00:00Z' }, 'end'],
    [{ end: '2026-04-01T00:00:01Z' }, 'end'],
    [{ page_token: 'x' }, 'page_token'],
    [{ page_token: `253402300800000.${'a'.repeat(24)}` }, 'page_token'],
    [{ limit: '0' }, 'limit'],
    [{ nonsense: 'x' }, 'nonsense'],
  ])('%j is refused by name', async (wrong, field) => {
    const response = await cloud.fetch(asked({ start: '2026-03-01T00:00:00Z', end: '2026-03-31T00:00:00Z', ...wrong }))
    expect(response.status).toBe(400)
    expect(((await response.json()) as { message: string }).message).toContain(`${field}:`)
  })
})

describe('pages and chunks', () => {
  const window = { start: '2025-11-01T00:00:00Z', end: '2025-11-02T00:00:00Z' }
  let ids: string[]
  beforeAll(async () => {
    // Ten entries in each millisecond, so that pages end within one.
    await cloud.query(
      `insert into audit_log (at, event_id, project_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id)
       select timestamptz '2025-11-01T12:00:00Z' + (i / 10) * interval '1 millisecond', 'a' || lpad(i::text, 23, '0'), null, 'GET', '/p/' || i, '/p/{id}', 200, 1, '', '', '', 'api_key', 'u'
       from generate_series(1, 1234) as i`,
    )
    ids = (
      await cloud.query<{ event_id: string }>(`select event_id from audit_log where at between $1 and $2 order by at desc, event_id desc`, [
        window.start,
        window.end,
      ])
    ).map(({ event_id }) => event_id)
    expect(ids).toHaveLength(1234)
  })

  test('pages by token hold each entry once, also when new ones are added meanwhile', async () => {
    const found: string[] = []
    let token: string | null = ''
    for (let page = 0; token !== null && page < 50; page++) {
      const query = new URLSearchParams({ ...window, limit: '97', ...(token && { page_token: token }) })
      const response = await cloud.fetch(asked(query))
      const items = (await response.json()) as AuditLogEntry[]
      found.push(...items.map(({ event_id }) => event_id))
      token = response.headers.get('x-next-page-token')
      expect(response.headers.get('x-has-more')).toBe(String(token !== null))
      await cloud.query(
        `insert into audit_log (at, event_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id)
         values ('2025-11-01T13:00:00Z', $1, 'GET', '/late', '/late', 200, 1, '', '', '', 'api_key', 'u')`,
        [newId()],
      )
    }
    expect(found).toEqual(ids)
    await cloud.query(`delete from audit_log where path = '/late'`)
  })

  test('a limit above 100 counts as 100', async () => {
    expect(await search({ ...window, limit: '1000' })).toHaveLength(100)
  })

  async function chunk(query: Record<string, string>) {
    const response = await cloud.fetch(asked({ ...window, ...query }, '/export/chunk'))
    const body = Buffer.from(await response.arrayBuffer())
    return { status: response.status, headers: response.headers, body }
  }

  test.each(['jsonl', 'jsonl.gz', undefined])('chunks in the format %s hold each entry once, with their hash', async (format) => {
    const found: string[] = []
    let cursor: string | null = ''
    for (let i = 0; cursor !== null && i < 10; i++) {
      const { status, headers, body } = await chunk({ limit: '600', ...(format && { format }), ...(cursor && { cursor }) })
      expect(status).toBe(200)
      expect(headers.get('content-encoding')).toBeNull()
      expect(headers.get('content-type')).toBe('application/octet-stream')
      expect(headers.get('x-content-sha256')).toBe(createHash('sha256').update(body).digest('hex'))
      const lines = (format === 'jsonl' ? body : gunzipSync(body)).toString().split('\n').slice(0, -1)
      expect(headers.get('x-row-count')).toBe(String(lines.length))
      expect(headers.get('x-has-more')).toBe(String(i < 2))
      found.push(...lines.map((line) => (JSON.parse(line) as AuditLogEntry).event_id))
      cursor = headers.get('x-next-cursor')
    }
    expect(found).toEqual(ids)
  })

  test('an empty chunk is a valid file', async () => {
    const { headers, body } = await chunk({ search: 'nothing has this' })
    expect(gunzipSync(body)).toHaveLength(0)
    expect([headers.get('x-row-count'), headers.get('x-has-more'), headers.get('x-next-cursor')]).toEqual(['0', 'false', null])
  })

  test('old entries are removed in batches, and only those', async () => {
    const { db } = cloud
    await cloud.query(
      `insert into audit_log (at, event_id, method, path, route, status, duration_ms, domain, client_ip, user_agent, auth_strategy, user_id)
       select now() - interval '400 days' + i * interval '1 second', 'o' || i, 'GET', '/old', '/old', 200, 1, '', '', '', 'api_key', 'u' from generate_series(1, 12000) as i`,
    )
    expect(await oldEntries(db, 399).run(new AbortController().signal)).toBe(12_000)
    expect(await stored('/old')).toEqual([])
    expect((await search({ ...window, limit: '5' })).length).toBe(5)
  })
})

describe('who sees what', () => {
  test('a key of a project sees the entries of its project, a header narrows those of other keys, and apps see none', async () => {
    const [mine, other] = [await newProject(), await newProject()]
    const [key, others] = [await keyFor(mine), await keyFor(other)]
    const use = (which: { key: string }) => fetch(`${cloud.url}/browsers`, { headers: { authorization: `Bearer ${which.key}` } })
    await use(key)
    await use(others)
    const seen = async (headers: Record<string, string>) => new Set((await search({}, headers)).map(({ user_id, project_id }) => `${project_id} ${user_id}`))
    const own = { authorization: `Bearer ${key.key}` }
    expect(await seen(own)).toEqual(new Set([`${mine} ${key.id}`]))
    expect(await seen({ 'x-kernel-project-id': other })).toEqual(new Set([`${other} ${others.id}`]))
    const all = await seen({})
    expect([...all]).toEqual(expect.arrayContaining([`${mine} ${key.id}`, `${other} ${others.id}`]))
    // Calls of other callers about the organization belong to no project, because they may name any.
    const inDefault = await keyFor('defaultproject0000000000')
    const texts = (await search({}, { authorization: `Bearer ${inDefault.key}` })).map(({ path }) => path)
    expect(texts.length).toBeGreaterThan(1)
    expect(texts.filter((path) => path.startsWith('/org'))).toEqual([])
    // The export shows the same entries and no more.
    const response = await cloud.fetch(asked({ ...around(), format: 'jsonl' }, '/export/chunk'), { headers: own })
    const projects = (await response.text())
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as AuditLogEntry).project_id)
    expect(new Set(projects)).toEqual(new Set([mine]))
  })
})
