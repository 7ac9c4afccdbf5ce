// The entry of a request at the moment of its answer, in the buffer and in the table.
import { expect, test } from 'vitest'
import { around, asked, buffered, keyOf, lockTable, searchLog, tableText, written } from '../../../../test/support/audit-log.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { say } from '../../../../test/support/raw-http.ts'
import { newId } from '../../../base/ids.ts'
import { PENDING } from '../../../http/audit.ts'
import { rowOf, storeRows } from './rows.ts'

const cloud = fastCloud()

test('a change is written when its answer arrives, also one that is refused', async () => {
  const { id, key } = await keyOf(cloud, null)
  for (let i = 0; i < 20; i++) {
    const name = `p-${newId()}`
    const body = JSON.stringify(i % 2 ? { name } : { nonsense: name })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'user-agent': name }
    const { status } = await fetch(`${cloud.url}/org/projects`, { method: 'POST', headers, body })
    expect(status).toBe(i % 2 ? 201 : 400)
    expect(await written(cloud)).toContain(name)
    expect(await searchLog(cloud, { search_user_id: id, limit: '1' })).toMatchObject([{ status, method: 'POST', user_agent: name }])
  }
})

test('a read is written when its answer arrives, and in the table within a second', async () => {
  const path = `/org/projects/${newId()}`
  await cloud.fetch(path)
  expect(await written(cloud)).toContain(path)
  await expect
    .poll(() => cloud.query('select method, status from audit_log where path = $1', [path]), { timeout: 2_000 })
    .toEqual([{ status: 404, method: 'GET' }])
})

test('what is stored twice is one entry with its last result', async () => {
  const { db } = cloud
  const at = new Date()
  const request = {
    at,
    by: { kind: 'session', id: 's' },
    project: undefined,
    method: 'POST',
    route: '/twice',
    durationMs: 1,
    domain: '',
    clientIp: '',
    userAgent: '',
  } as const
  const rows = [rowOf({ ...request, path: '/twice/1', status: 201 }), rowOf({ ...request, path: '/twice/2', status: PENDING })]
  const store = storeRows(db)
  for (let i = 0; i < 2; i++) {
    await store(rows)
    await store([rows[0]!, { ...rows[1]!, status: 204, duration_ms: 7 }])
  }
  expect(await cloud.query("select path, status, duration_ms from audit_log where route = '/twice' order by path")).toEqual([
    { path: '/twice/1', status: 201, duration_ms: 1 },
    { path: '/twice/2', status: 204, duration_ms: 7 },
  ])
})

test('no secret that a caller shows is stored, wherever it is written', async () => {
  const canary = () => `canary-${newId()}`
  const { key } = await keyOf(cloud, null)
  const { session_id, browser_live_view_url, base_url, cdp_ws_url } = (await cloud.create()) as unknown as Record<string, string>
  const jwt = new URL(cdp_ws_url!).searchParams.get('jwt')!
  const live = new URL(browser_live_view_url!)
  const inBody = canary()
  const inQuery = canary()
  const inHeader = canary()
  const as = (path: string, init: RequestInit = {}) =>
    fetch(cloud.url + path, { ...init, headers: { authorization: `Bearer ${key}`, 'x-secret': inHeader, ...(init.headers as Record<string, string>) } })
  let inBuffer: string
  {
    // With the table locked, everything stays in the buffer.
    await using _locked = await lockTable(cloud)
    await as(`/browsers/${key}`)
    await as(`/browsers/${jwt}`)
    await as(`/browsers/${session_id}?q=${inQuery}`, { headers: { 'user-agent': `agent ${key} ${jwt}` } })
    await as('/browsers', { method: 'POST', body: JSON.stringify({ name: inBody, wrong: inBody }), headers: { 'content-type': 'application/json' } })
    await as(`/org/api_keys`, { method: 'POST', body: JSON.stringify({ name: 'n', wrong: inBody }), headers: { 'content-type': 'application/json' } })
    await fetch(`${base_url}/computer/get_mouse_position?jwt=${jwt}`, { method: 'POST' })
    await fetch(live)
    await as(`/browsers/${key.replace('c', '%63')}`)
    await as(`/browsers/${jwt.replaceAll('.', '%2e')}`)
    await as(`/browsers/${live.pathname.split('/').at(-1)}`, { headers: { 'user-agent': live.pathname } })
    const raw = `GET /browsers HTTP/1.1\r\nhost: ${key}\r\nauthorization: Bearer ${key}\r\nx-request-id: ${key}\r\nconnection: close\r\n\r\n`
    expect((await say(cloud.url, Buffer.from(raw), 5_000)).toString()).toMatch(/^HTTP\/1.1 200/)
    await fetch(`${live.origin}//browser/%6Cive/${live.pathname.split('/').at(-1)}`)
    inBuffer = buffered(cloud)
  }
  await searchLog(cloud, {})
  const exported = await (await cloud.fetch(asked({ ...around(), format: 'jsonl' }, '/export/chunk'))).text()
  for (const text of [inBuffer, await tableText(cloud), exported]) {
    // To check the search itself: a text that is no secret is found.
    expect(text).toContain(session_id)
    expect(text).toContain('/browser/live/{token}')
    for (const secret of [key, cloud.key, jwt, inBody, inQuery, inHeader, live.pathname.split('/').at(-1)!]) expect(text).not.toContain(secret)
  }
})
