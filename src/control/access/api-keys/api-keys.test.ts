// Managing API keys over HTTP: the answers and refusals of each operation, and which keys a caller sees.
import { beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { until } from '../../../base/wait.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import { allowKey, forbidKeys, keyChecker, mintDeploymentKey } from '../keys.ts'
import { Rights } from '../rights.ts'
import type { ApiKey, CreatedApiKey } from './contract.ts'

const DAY_MS = 86_400_000
const OTHER = { id: newId(), name: 'Team of two' }
const ARCHIVED = { id: newId(), name: 'Past' }

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  await cloud.query('insert into projects (id, name) values ($1, $2)', [OTHER.id, OTHER.name])
  await cloud.query(`insert into projects (id, name, status) values ($1, $2, 'archived')`, [ARCHIVED.id, ARCHIVED.name])
})

interface Answer<T> {
  status: number
  body: T
  headers: Headers
}
type Refusal = { code: string; message: string }

/** A call with `key`, by default the service's own. */
async function call<T = Refusal>(
  method: string,
  path: string,
  body?: unknown,
  { key = cloud.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
): Promise<Answer<T>> {
  const response = await fetch(cloud.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: (text === '' ? undefined : JSON.parse(text)) as T }
}
const create = async (body: object = {}, key = cloud.key): Promise<CreatedApiKey> => {
  const answer = await call<CreatedApiKey>('POST', '/org/api_keys', { name: 'made', ...body }, { key })
  expect([answer.status, answer.body]).toEqual([201, answer.body])
  conforms('CreatedAPIKey', answer.body)
  return answer.body
}
const get = async (id: string, key = cloud.key) => (await call<ApiKey>('GET', `/org/api_keys/${id}`, undefined, { key })).body
const list = async (query = '', key = cloud.key): Promise<ApiKey[]> => {
  const { status, body } = await call<ApiKey[]>('GET', `/org/api_keys?limit=100${query}`, undefined, { key })
  expect([status, body]).toEqual([200, body])
  conforms('APIKey', body, true)
  return body
}
const opens = async (key: string) => (await call('GET', '/browsers', undefined, { key })).status
const daysLeft = (key: ApiKey) => Math.round((Date.parse(key.expires_at!) - Date.now()) / DAY_MS)
const expire = (id: string, seconds = -1) => cloud.query(`update api_keys set expires_at = now() + make_interval(secs => $2) where id = $1`, [id, seconds])
/** Every call about one key: method, the path after the key, body. */
const ONE_KEY = [
  ['GET', '', undefined],
  ['PATCH', '', { name: 'x' }],
  ['DELETE', '', undefined],
  ['POST', '/rotate', {}],
] as const
const ownKey = async () => (await list('&name=first key'))[0]!

describe('creating a key', () => {
  test('shows it once, and it works at once', async () => {
    const made = await create({ name: 'staging' })
    expect(made).toMatchObject({ name: 'staging', expires_at: null, deleted_at: null, project_id: null, project_name: null })
    expect(made.key).toMatch(/^cob_[0-9a-f]{40}$/)
    expect(made.masked_key).toBe(`${made.key.slice(0, 8)}…${made.key.slice(-4)}`)
    expect(await opens(made.key)).toBe(200)
    const { key, ...shown } = made
    expect(await get(made.id)).toEqual(shown)
    expect(JSON.stringify([await list(), await cloud.query('select *, encode(hash, $1) as hex from api_keys', ['hex'])])).not.toContain(key)
  })

  test('says by which key it was made; a key of the settings by itself', async () => {
    const first = await ownKey()
    expect(first.created_by).toEqual({ id: first.id, email: `${first.id}@key.cob.internal`, name: 'first key' })
    const made = await create({ name: 'maker' })
    expect(made.created_by).toEqual(first.created_by)
    expect((await create({}, made.key)).created_by).toMatchObject({ id: made.id, name: 'maker' })
  })

  test.each([
    [{ days_to_expire: 1 }, 1],
    [{ days_to_expire: 3650 }, 3650],
    [{ expires_at: new Date(Date.now() + 30 * DAY_MS).toISOString() }, 30],
    [{ expires_at: `${new Date(Date.now() + 30 * DAY_MS).toISOString().slice(0, -1)}+00:00` }, 30],
  ])('that expires: %o', async (body, days) => expect(daysLeft(await create(body))).toBe(days))

  test.each([{ days_to_expire: null }, { expires_at: null, project_id: null }, { days_to_expire: null, expires_at: null }])(
    'that never expires: %o',
    async (body) => expect(await create(body)).toMatchObject({ expires_at: null, project_id: null }),
  )

  test.each<[object, string]>([
    [{ name: '' }, 'name: '],
    [{ name: 'x'.repeat(256) }, 'name: '],
    [{ name: undefined }, 'name: '],
    [{ days_to_expire: 0 }, 'days_to_expire: '],
    [{ days_to_expire: 3651 }, 'days_to_expire: '],
    [{ days_to_expire: 1.5 }, 'days_to_expire: '],
    [{ expires_at: new Date(Date.now() - 1000).toISOString() }, 'expires_at: must be in the future'],
    [{ expires_at: new Date(Date.now() + 3651 * DAY_MS).toISOString() }, 'expires_at: must be within 3650 days'],
    [{ expires_at: 'tomorrow' }, 'expires_at: '],
    [{ expires_at: new Date(Date.now() + DAY_MS).toISOString(), days_to_expire: 1 }, 'expires_at: cannot be given together with days_to_expire'],
    [{ project_id: '' }, 'project_id: '],
    [{ policy: { statements: [] } }, 'policy: there is no such property'],
  ])('with %o is refused by the name of the field', async (body, message) => {
    const answer = await call('POST', '/org/api_keys', { name: 'made', ...body })
    expect([answer.status, answer.body.code]).toEqual([400, 'bad_request'])
    expect(answer.body.message).toContain(message)
  })

  test('counts the characters of its name as people do: 255, also outside of the first plane', async () => {
    expect((await create({ name: '😀'.repeat(255) })).name).toBe('😀'.repeat(255))
    expect((await call('POST', '/org/api_keys', { name: '😀'.repeat(256) })).status).toBe(400)
  })

  test.each([newId(), ARCHIVED.id, OTHER.name])('for a project that there is not (%s) answers 404', async (project_id) => {
    const answer = await call('POST', '/org/api_keys', { name: 'x', project_id })
    expect([answer.status, answer.body]).toEqual([404, { code: 'project_not_found', message: `there is no active project with the id "${project_id}"` }])
  })
})

describe('lists', () => {
  const named = async (...names: [string, number | undefined][]) => {
    const mark = newId()
    const made: CreatedApiKey[] = []
    for (const [name, days] of names) made.push(await create({ name: `${mark} ${name}`, ...(days && { days_to_expire: days }) }))
    return { mark, made, of: async (query = '') => (await list(`&query=${mark}${query}`)).map(({ name }) => name.slice(mark.length + 1)) }
  }

  test('have the newest first, and can be sorted by name and expiry', async () => {
    const { of } = await named(['b', 20], ['C', undefined], ['a', 10])
    expect(await of()).toEqual(['a', 'C', 'b'])
    expect(await of('&sort_direction=asc')).toEqual(['b', 'C', 'a'])
    expect(await of('&sort_by=name')).toEqual(['a', 'b', 'C'])
    expect(await of('&sort_by=name&sort_direction=desc')).toEqual(['C', 'b', 'a'])
    expect(await of('&sort_by=expires_at')).toEqual(['a', 'b', 'C'])
    expect(await of('&sort_by=expires_at&sort_direction=desc')).toEqual(['C', 'b', 'a'])
  })

  test('have expired keys, and deleted ones only when asked', async () => {
    const { made, of } = await named(['kept', undefined], ['gone', undefined], ['expired', undefined])
    await call('DELETE', `/org/api_keys/${made[1]!.id}`)
    await expire(made[2]!.id)
    expect(await of()).toEqual(['expired', 'kept'])
    expect(await of('&status=active')).toEqual(['expired', 'kept'])
    expect(await of('&status=deleted')).toEqual(['gone'])
    for (const all of ['&status=all', '&include_deleted=true']) expect(await of(all)).toEqual(['expired', 'gone', 'kept'])
    expect(await of('&status=active&include_deleted=true')).toEqual(['expired', 'kept'])
  })

  test('find by a whole name without its case and accents; by part of a name, creator or project; by the beginning of an id or masked key', async () => {
    const name = `Clé ${newId()}`
    const made = await create({ name, project_id: OTHER.id })
    const found = async (query: string) => (await list(query)).filter(({ id }) => id === made.id).length
    for (const query of [name, name.replace('é', 'E').toLowerCase()]) expect(await found(`&name=${encodeURIComponent(query)}`)).toBe(1)
    expect(await found(`&name=${encodeURIComponent(name.slice(1))}`)).toBe(0)
    for (const query of [name.slice(5, 20), 'IRST KE', 'team OF', made.id, made.id.slice(0, 9), made.masked_key, made.masked_key.slice(0, 8)])
      expect([query, await found(`&query=${encodeURIComponent(query)}`)]).toEqual([query, 1])
    for (const query of [made.id.slice(1), made.key, '%']) expect([query, await found(`&query=${encodeURIComponent(query)}`)]).toEqual([query, 0])
  })

  test('come in pages', async () => {
    const { mark } = await named(['1', undefined], ['2', undefined], ['3', undefined])
    const names: string[] = []
    for (let offset = 0, more = true; more;) {
      const { body, headers } = await call<ApiKey[]>('GET', `/org/api_keys?query=${mark}&limit=2&offset=${offset}`)
      names.push(...body.map(({ name }) => name.at(-1)!))
      more = headers.get('x-has-more') === 'true'
      offset = Number(headers.get('x-next-offset'))
      expect(offset).toBe(more ? 2 : 0)
    }
    expect(names).toEqual(['3', '2', '1'])
  })

  test('of service keys: those of its settings are in it, those of deployments are not', async () => {
    const { db } = cloud
    const deployment = newId()
    await cloud.query(`insert into deployments (id, state, scope, region, env_keys, project_id) values ($1, 'stopped', 'x', 'aws.us-east-1a', '[]', $2)`, [
      deployment,
      DEFAULT_PROJECT,
    ])
    const key = await mintDeploymentKey(db, deployment, DEFAULT_PROJECT)
    const [{ id } = { id: '' }] = await cloud.query<{ id: string }>('select id from api_keys where deployment_id = $1', [deployment])
    expect((await list('&status=all')).map((one) => one.id)).not.toContain(id)
    for (const [method, path, body] of ONE_KEY)
      expect((await call(method, `/org/api_keys/${id}${path}${method === 'GET' ? '?include_deleted=true' : ''}`, body)).status).toBe(404)
    // The code of an app manages no keys, not even those of its project.
    const { id: made } = await create({ project_id: DEFAULT_PROJECT })
    const all = [
      ['POST', '', { name: 'x', project_id: DEFAULT_PROJECT }],
      ['GET', '', undefined],
      ...ONE_KEY.map(([method, path, body]) => [method, `/${made}${path}`, body] as const),
    ] as const
    for (const [method, path, body] of all) {
      const answer = await call(method, `/org/api_keys${path}`, body, { key })
      expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 403, 'forbidden'])
    }
  })
})

describe('one key', () => {
  test('is renamed', async () => {
    const { id } = await create()
    const { status, body } = await call<ApiKey>('PATCH', `/org/api_keys/${id}`, { name: 'new name' })
    conforms('APIKey', body)
    expect([status, body.name, (await get(id)).name]).toEqual([200, 'new name', 'new name'])
    expect((await call('PATCH', `/org/api_keys/${id}`, { name: '' })).status).toBe(400)
  })

  test('is deleted once; then it is found only when deleted ones are asked for', async () => {
    const { id, key } = await create()
    expect((await call('DELETE', `/org/api_keys/${id}`)).status).toBe(204)
    expect(await opens(key)).toBe(401)
    for (const [method, path, body] of ONE_KEY) expect([method, (await call(method, `/org/api_keys/${id}${path}`, body)).status]).toEqual([method, 404])
    const { body } = await call<ApiKey>('GET', `/org/api_keys/${id}?include_deleted=true`)
    conforms('APIKey', body)
    expect(Date.parse(body.deleted_at!)).toBeGreaterThan(Date.now() - 60_000)
  })

  test('cannot delete itself, but another one', async () => {
    const [one, two] = [await create(), await create()]
    const refused = await call('DELETE', `/org/api_keys/${one.id}`, undefined, { key: one.key })
    expect([refused.status, refused.body.code]).toEqual([400, 'cannot_delete_current_key'])
    expect((await call('DELETE', `/org/api_keys/${two.id}`, undefined, { key: one.key })).status).toBe(204)
    expect(await opens(one.key)).toBe(200)
  })

  test('that there is not answers 404', async () => expect((await call('GET', `/org/api_keys/${newId()}`)).body.code).toBe('not_found'))
})

describe('rotating a key', () => {
  const rotate = async (id: string, body?: object, key = cloud.key) => {
    const answer = await call<CreatedApiKey>('POST', `/org/api_keys/${id}/rotate`, body, { key })
    expect([answer.status, answer.body]).toEqual([201, answer.body])
    conforms('CreatedAPIKey', answer.body)
    return answer.body
  }

  test('gives a new one with its name and project, and lets it work for a week', async () => {
    const old = await create({ name: 'job', project_id: OTHER.id })
    const made = await rotate(old.id)
    expect(made).toMatchObject({ name: 'job', project_id: OTHER.id, project_name: OTHER.name, expires_at: null })
    expect([made.id === old.id, made.key === old.key, daysLeft(await get(old.id))]).toEqual([false, false, 7])
    expect([await opens(old.key), await opens(made.key)]).toEqual([200, 200])
  })

  test('keeps the lifetime that the old one was made with, however often it is rotated', async () => {
    const old = await create({ days_to_expire: 30 })
    expect(daysLeft(await rotate(old.id, { expire_in_days: 3 }))).toBe(30)
    expect(daysLeft(await get(old.id))).toBe(3)
    const again = await rotate(old.id, { days_to_expire: null, expire_in_days: null })
    expect(daysLeft(again)).toBe(30)
    expect(daysLeft(await rotate(again.id, { days_to_expire: 90, expire_in_days: 10 }))).toBe(90)
    expect(daysLeft(await get(again.id))).toBe(10)
  })

  test('never makes the old one live longer', async () => {
    const old = await create({ days_to_expire: 2 })
    await rotate(old.id, { days_to_expire: 30 })
    expect(daysLeft(await get(old.id))).toBe(2)
  })

  test('ends the old one now when asked, also the key of the caller', async () => {
    const old = await create()
    const made = await rotate(old.id, { expire_in_days: 0 }, old.key)
    await expect.poll(() => opens(old.key), { timeout: 10_000 }).toBe(401)
    expect(await opens(made.key)).toBe(200)
  })

  test.each([{ days_to_expire: 5, expire_in_days: 6 }, { days_to_expire: 3650, expire_in_days: 3651 }, { expire_in_days: -1 }, { days_to_expire: 0 }])(
    'is refused when the new one would end before the old one, or a number is out of range: %o',
    async (body) => {
      const { id, key } = await create()
      const before = (await list('&status=all')).length
      const answer = await call('POST', `/org/api_keys/${id}/rotate`, body)
      expect([answer.status, answer.body.code]).toEqual([400, 'bad_request'])
      expect(answer.body.message).toMatch(/^(expire_in_days|days_to_expire): /)
      expect([(await list('&status=all')).length, await opens(key), (await get(id)).expires_at]).toEqual([before, 200, null])
    },
  )

  test('and deleting its project do not wait for each other', async () => {
    for (let round = 0; round < 15; round++) {
      const project = newId()
      await cloud.query('insert into projects (id, name) values ($1, $1)', [project])
      const { id } = await create({ project_id: project })
      const answers = await Promise.all([call('POST', `/org/api_keys/${id}/rotate`, {}), call('DELETE', `/org/projects/${project}`)])
      expect([201, 404]).toContain(answers[0].status)
      expect(answers[1].status).toBe(204)
    }
  })
})

describe('a key of a project', () => {
  test('makes, sees and changes only keys of its project; others are as unknown', async () => {
    const [own, foreign, everywhere] = [await create({ project_id: OTHER.id }), await create({ project_id: DEFAULT_PROJECT }), await create()]
    const beside = await create({ project_id: OTHER.id, name: 'beside' }, own.key)
    expect((await list('&status=all', own.key)).every(({ project_id }) => project_id === OTHER.id)).toBe(true)
    expect((await list('', own.key)).map(({ id }) => id)).toEqual(expect.arrayContaining([own.id, beside.id]))
    for (const { id } of [foreign, everywhere, { id: newId() }])
      for (const [method, path, body] of ONE_KEY) {
        const answer = await call(method, `/org/api_keys/${id}${path}`, body, { key: own.key })
        expect([method, answer.status, answer.body]).toEqual([method, 404, { code: 'not_found', message: `there is no API key "${id}"` }])
      }
    for (const { id } of [foreign, everywhere]) expect(await get(id)).toMatchObject({ name: 'made', expires_at: null, deleted_at: null })
    expect((await call('DELETE', `/org/api_keys/${beside.id}`, undefined, { key: own.key })).status).toBe(204)
  })

  test.each([{}, { project_id: null }, { project_id: DEFAULT_PROJECT }, { project_id: newId() }])('cannot make one for %o', async (body) => {
    const own = await create({ project_id: OTHER.id })
    const answer = await call('POST', '/org/api_keys', { name: 'x', ...body }, { key: own.key })
    expect([answer.status, answer.body.code]).toEqual([403, 'forbidden'])
  })
})

describe('expiry', () => {
  test('refuses a key at its time, also one that was just used', async () => {
    const { id, key } = await create()
    expect(await opens(key)).toBe(200)
    const { db } = cloud
    await expire(id, 1.5) // shorter than the time for which a checked key is cached
    const check = keyChecker(db, new Rights(db, silentLog))
    await check(key)
    await until('the key to expire', 10_000, async () => (await cloud.query('select from api_keys where id = $1 and expires_at <= now()', [id])).length > 0)
    await expect(check(key)).rejects.toThrow('has expired')
  })
})

describe("keys of a service's settings", () => {
  test("are made valid again by its next start, and found by it under any name; a caller's key that is called like one is left alone", async () => {
    const { db } = cloud
    const [secret, next] = ['the-key-of-another-service_1', 'the-key-of-another-service_2']
    const namesake = await create({ name: 'COB_API_KEY' })
    await allowKey(db, 'elsewhere', 'COB_API_KEY', secret)
    const row = (await list('&sort_direction=desc')).find(({ masked_key }) => masked_key === 'th…_1')!
    expect(row.name).toBe('COB_API_KEY')
    await call('PATCH', `/org/api_keys/${row.id}`, { name: 'renamed' })
    await call('DELETE', `/org/api_keys/${row.id}`)
    expect(await opens(secret)).toBe(401)
    await allowKey(db, 'elsewhere', 'COB_API_KEY', secret)
    expect(await get(row.id)).toMatchObject({ name: 'renamed', deleted_at: null })
    await expire(row.id)
    await allowKey(db, 'elsewhere', 'COB_API_KEY', secret)
    expect(await opens(secret)).toBe(200)
    await allowKey(db, 'elsewhere', 'COB_API_KEY', next)
    await expect.poll(() => opens(secret), { timeout: 10_000 }).toBe(401)
    await forbidKeys(db, 'elsewhere', 'COB_API_KEY')
    await expect.poll(() => opens(next), { timeout: 10_000 }).toBe(401)
    expect(await opens(namesake.key)).toBe(200)
  })
})

describe('a key of a project makes no key that outlives it, by whatever call:', () => {
  /** Lifetime of the key that makes other keys. */
  const OWN_DAYS = 10
  const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString()
  const post = (path: string, body: object, key?: string) => call<CreatedApiKey & { message?: string }>('POST', path, body, key === undefined ? {} : { key })
  const createIn = (body: object = {}, key?: string) => create({ project_id: DEFAULT_PROJECT, ...body }, key)
  /** A key of a project that was made for 30 days and has {@link OWN_DAYS} left. */
  async function aged(): Promise<CreatedApiKey> {
    const key = await createIn({ days_to_expire: 30 })
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
        const made = await createIn(body, own.key)
        expect(Date.parse(made.expires_at!)).toBeLessThanOrEqual(Date.parse(own.expires_at!))
        // The new key cannot make one that lives longer either.
        expect((await post('/org/api_keys', { name: 'x', project_id: DEFAULT_PROJECT, days_to_expire: 30 }, made.key)).status).toBe(400)
      }
    })

    test('a key without an end, and one for all projects, may make any', async () => {
      expect((await createIn({}, (await createIn()).key)).expires_at).toBe(null)
      expect((await createIn({}, (await createIn({ project_id: null, days_to_expire: 1 })).key)).expires_at).toBe(null)
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
        const old = await createIn(made)
        expect((await post(`/org/api_keys/${old.id}/rotate`, body)).status).toBe(201)
        const [row] = await cloud.query<{ expires_at: Date }>('select expires_at from api_keys where id = $1', [old.id])
        expect([made, body, Math.round((row!.expires_at.getTime() - Date.now()) / DAY_MS)]).toEqual([made, body, days])
      }
      const short = await createIn({ days_to_expire: 1 })
      expect((await post(`/org/api_keys/${short.id}/rotate`, { expire_in_days: 7 })).body.message).toMatch(
        /^expire_in_days: 7 is more than the lifetime of the new key/,
      )
    })

    test('another key of the project, it takes over a lifetime up to its own end', async () => {
      const own = await aged()
      const [endless, long, short] = [await createIn(), await createIn({ days_to_expire: 20 }), await createIn({ days_to_expire: 8 })]
      for (const { id } of [endless, long]) expect((await post(`/org/api_keys/${id}/rotate`, {}, own.key)).body.expires_at).toBe(own.expires_at)
      const { body } = await post(`/org/api_keys/${short.id}/rotate`, {}, own.key)
      expect(Date.parse(body.expires_at!)).toBeLessThan(Date.parse(own.expires_at!))
    })

    test('by a key for all projects, a key gets a successor with its whole lifetime', async () => {
      const own = await aged()
      const everywhere = await createIn({ project_id: null, days_to_expire: 1 })
      const { status, body } = await post(`/org/api_keys/${own.id}/rotate`, {}, everywhere.key)
      expect([status, Math.round((Date.parse(body.expires_at!) - Date.now()) / DAY_MS)]).toEqual([201, 30])
    })

    test('during its grace period, a rotated key makes none that lives on', async () => {
      const old = await createIn()
      expect((await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3 })).status).toBe(201)
      expect((await post('/org/api_keys', { name: 'x', project_id: DEFAULT_PROJECT }, old.key)).status).toBe(400)
      expect((await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3, days_to_expire: 4 }, old.key)).status).toBe(400)
      const { body } = await post(`/org/api_keys/${old.id}/rotate`, { expire_in_days: 3 }, old.key)
      expect(Date.parse(body.expires_at!)).toBeLessThan(Date.now() + 3 * DAY_MS)
    })
  })
})
