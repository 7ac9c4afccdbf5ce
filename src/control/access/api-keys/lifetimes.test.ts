// A key of a project makes no key that outlives it, by whatever call.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import type { CreatedApiKey } from './contract.ts'

const DAY_MS = 86_400_000
/** How long the key lives that makes others. */
const OWN_DAYS = 10
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString()

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

async function post(path: string, body: object, key = cloud.key): Promise<{ status: number; body: CreatedApiKey & { message?: string } }> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(cloud.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const answer = (await response.json()) as CreatedApiKey
  conforms(response.status === 201 ? 'CreatedAPIKey' : 'ErrorModel', answer)
  return { status: response.status, body: answer }
}
async function create(body: object = {}, key = cloud.key): Promise<CreatedApiKey> {
  const answer = await post('/org/api_keys', { name: 'made', project_id: DEFAULT_PROJECT, ...body }, key)
  expect([answer.status, answer.body]).toEqual([201, answer.body])
  return answer.body
}
/** A key of a project that was made for 30 days and has {@link OWN_DAYS} left. */
async function aged(): Promise<CreatedApiKey> {
  const key = await create({ days_to_expire: 30 })
  const [row] = await cloud.query<{ expires_at: Date }>(`update api_keys set expires_at = now() + interval '10 days' where id = $1 returning expires_at`, [
    key.id,
  ])
  return { ...key, expires_at: row!.expires_at.toISOString() }
}
const keys = () => cloud.query('select id, expires_at from api_keys order by id')

describe('creating', () => {
  test.each<[object, string]>([
    [{}, 'days_to_expire: must be given: a key without an end would outlive '],
    [{ days_to_expire: null }, 'days_to_expire: must be given: a key without an end would outlive '],
    [{ days_to_expire: OWN_DAYS + 1 }, 'days_to_expire: the new key would outlive '],
    [{ days_to_expire: 3650 }, 'days_to_expire: the new key would outlive '],
    [{ expires_at: inDays(OWN_DAYS + 0.1) }, 'expires_at: the new key would outlive '],
  ])('a longer life is refused by the name of the field: %o', async (body, message) => {
    const own = await aged()
    const before = await keys()
    const answer = await post('/org/api_keys', { name: 'longer', project_id: DEFAULT_PROJECT, ...body }, own.key)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toMatch(message)
    expect(answer.body.message).toContain(`which expires at ${own.expires_at}`)
    expect(await keys()).toEqual(before)
  })

  test('a shorter or equal life is given', async () => {
    const own = await aged()
    for (const body of [{ days_to_expire: OWN_DAYS - 1 }, { expires_at: own.expires_at }]) {
      const made = await create(body, own.key)
      expect(Date.parse(made.expires_at!)).toBeLessThanOrEqual(Date.parse(own.expires_at!))
      // Nor does that one make one that lives longer.
      expect((await post('/org/api_keys', { name: 'x', project_id: DEFAULT_PROJECT, days_to_expire: 30 }, made.key)).status).toBe(400)
    }
  })

  test('a key without an end, and one for all projects, may make any', async () => {
    expect((await create({}, (await create()).key)).expires_at).toBe(null)
    expect((await create({}, (await create({ project_id: null, days_to_expire: 1 })).key)).expires_at).toBe(null)
  })
})

describe('rotating', () => {
  test('itself, a key cannot ask for a lifetime that is longer than what it has left', async () => {
    const own = await aged()
    const before = await keys()
    for (const body of [{ days_to_expire: 30 }, { days_to_expire: OWN_DAYS + 1, expire_in_days: 0 }]) {
      const answer = await post(`/org/api_keys/${own.id}/rotate`, body, own.key)
      expect([answer.status, answer.body.message]).toEqual([400, expect.stringMatching(/^days_to_expire: the new key would outlive the key that makes it/)])
    }
    expect(await keys()).toEqual(before)
    const made = await post(`/org/api_keys/${own.id}/rotate`, { days_to_expire: OWN_DAYS - 1 }, own.key)
    expect(made.status).toBe(201)
    expect(Date.parse(made.body.expires_at!)).toBeLessThan(Date.parse(own.expires_at!))
  })

  test('itself without a lifetime, a key gets a successor up to its own end', async () => {
    const own = await aged()
    const { status, body } = await post(`/org/api_keys/${own.id}/rotate`, {}, own.key)
    expect([status, body.expires_at]).toEqual([201, own.expires_at])
  })

  test('a key that lives shorter than the usual grace, without asking for a grace, both go on for that lifetime; a longer grace that is asked for is refused', async () => {
    for (const [made, body, days] of [
      [{ days_to_expire: 1 }, {}, 1],
      [{ days_to_expire: 1 }, { expire_in_days: null }, 1],
      [{}, { days_to_expire: 2 }, 2],
      [{ days_to_expire: 30 }, {}, 7],
      [{}, {}, 7],
    ] as const) {
      const old = await create(made)
      expect((await post(`/org/api_keys/${old.id}/rotate`, body)).status).toBe(201)
      const [row] = await cloud.query<{ expires_at: Date }>('select expires_at from api_keys where id = $1', [old.id])
      expect([made, body, Math.round((row!.expires_at.getTime() - Date.now()) / DAY_MS)]).toEqual([made, body, days])
    }
    const short = await create({ days_to_expire: 1 })
    expect((await post(`/org/api_keys/${short.id}/rotate`, { expire_in_days: 7 })).body.message).toMatch(
      /^expire_in_days: 7 is more than the lifetime of the new key/,
    )
  })

  test('another key of the project, it takes over a lifetime up to its own end', async () => {
    const own = await aged()
    const [endless, long, short] = [await create(), await create({ days_to_expire: 20 }), await create({ days_to_expire: 8 })]
    for (const { id } of [endless, long]) expect((await post(`/org/api_keys/${id}/rotate`, {}, own.key)).body.expires_at).toBe(own.expires_at)
    const { body } = await post(`/org/api_keys/${short.id}/rotate`, {}, own.key)
    expect(Date.parse(body.expires_at!)).toBeLessThan(Date.parse(own.expires_at!))
  })

  test('by a key for all projects, a key gets a successor with its whole lifetime', async () => {
    const own = await aged()
    const everywhere = await create({ project_id: null, days_to_expire: 1 })
    const { status, body } = await post(`/org/api_keys/${own.id}/rotate`, {}, everywhere.key)
    expect([status, Math.round((Date.parse(body.expires_at!) - Date.now()) / DAY_MS)]).toEqual([201, 30])
  })

  test('during its grace period, a rotated key makes none that lives on', async () => {
    const old = await create()
    expect((await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3 })).status).toBe(201)
    expect((await post('/org/api_keys', { name: 'x', project_id: DEFAULT_PROJECT }, old.key)).status).toBe(400)
    expect((await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3, days_to_expire: 4 }, old.key)).status).toBe(400)
    const { body } = await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3 }, old.key)
    expect(Date.parse(body.expires_at!)).toBeLessThan(Date.now() + 3 * DAY_MS)
  })
})
