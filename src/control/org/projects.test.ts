// The project that a caller names in a header.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../test/support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from '../../../test/support/fast-cloud.ts'

let cloud: FastCloud
let session: Session
beforeAll(async () => {
  cloud = await startFastCloud()
  session = await cloud.create()
})
afterAll(() => cloud[Symbol.asyncDispose]())

const HEADERS = ['X-Kernel-Project', 'X-Kernel-Project-Id']
const ask = (method: string, path: string, headers: Record<string, string>) => cloud.fetch(path.replace('{id}', session.session_id), { method, headers })

describe.each(HEADERS)('%s', (header) => {
  test.each([
    ['GET', '/browsers'],
    ['POST', '/browsers'],
    ['GET', '/browsers/{id}'],
    ['POST', '/browsers/{id}/computer/screenshot'],
    ['GET', '/browsers/{id}/replays'],
    ['GET', '/deployments'],
    ['GET', '/apps'],
    ['POST', '/invocations'],
    ['GET', '/metrics'],
  ])('with an unknown project answers 404 to %s %s, and nothing happens', async (method, path) => {
    const count = async () => (await cloud.query('select id from browsers where created_at is not null')).length
    const before = await count()
    const response = await ask(method, path, { [header]: 'nonesuch' })
    const body = await response.json()
    conforms('ErrorModel', body)
    expect([response.status, body]).toEqual([404, expect.objectContaining({ code: 'project_not_found', message: expect.stringContaining('"nonesuch"') })])
    expect(await count()).toBe(before)
  })

  test.each(['default', 'Default', 'DEFAULT', ''])('with the default project equals no header: %j', async (name) => {
    expect((await ask('GET', '/browsers/{id}', { [header]: name })).status).toBe(200)
  })

  test('is checked after the key, also if a token is used, and not by public routes', async () => {
    expect((await fetch(`${cloud.url}/browsers`, { headers: { [header]: 'nonesuch' } })).status).toBe(401)
    const jwt = new URL(session.cdp_ws_url).searchParams.get('jwt')
    expect((await fetch(`${session.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST', headers: { [header]: 'nonesuch' } })).status).toBe(404)
    expect((await fetch(`${cloud.url}/health`, { headers: { [header]: 'nonesuch' } })).status).toBe(200)
  })
})

test('one unknown project of the two headers is enough for a refusal', async () => {
  expect((await ask('GET', '/browsers', { 'X-Kernel-Project': 'default', 'X-Kernel-Project-Id': 'proj_1' })).status).toBe(404)
})
