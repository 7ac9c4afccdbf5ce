// Credentials as callers see them, and for the login engine.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { fixedKeys } from '../../../base/keys.ts'
import { silentLog } from '../../../base/log.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { MAX_VALUE_BYTES, MAX_VALUES, MAX_VALUES_BYTES, type Credential } from './contract.ts'
import { Credentials, purposeOf } from './credentials.ts'
import { readTotp, totpCode } from './totp.ts'

const SECRET = 'JBSWY3DPEHPK3PXP'
/** The time for which the code is known. */
const NOW = new Date(59_000)

let cloud: FastCloud
let db: Db
/** The login engine's view of the same rows, with the test's clock. */
let engine: Credentials
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  cloud = scope.use(await startFastCloud())
  db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  scope.defer(() => db.destroy())
  engine = engineWith(Buffer.alloc(32, 1))
})
afterAll(() => scope.disposeAsync())

const engineWith = (key: Buffer) => new Credentials({ db, sealerOf: (project) => makeSealer(fixedKeys(key), purposeOf(project)), now: () => NOW })

const named = (name: string, others: object = {}) => ({ name, domain: 'site.test', values: { username: 'kim', password: 'hush' }, ...others })

async function create(body: object): Promise<Credential> {
  const response = await cloud.send('POST', '/credentials', body)
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Credential
}

async function refused(answer: Promise<Response>): Promise<[number, string]> {
  const response = await answer
  return [response.status, ((await response.json()) as { message: string }).message]
}

const get = async (path: string) => (await (await cloud.fetch(path)).json()) as Credential
const list = async (query = '') => (await (await cloud.fetch(`/credentials?limit=100${query}`)).json()) as Credential[]
const patch = async (idOrName: string, body: object) => {
  const response = await cloud.send('PATCH', `/credentials/${idOrName}`, body)
  return { status: response.status, answer: (await response.json()) as Credential }
}

describe('what is stored', () => {
  test('is answered without its values, with their keys on single reads only', async () => {
    const made = await create(named(' whole ', { domain: 'Site.TEST', sso_provider: ' Google ' }))
    expect(made).toEqual({
      id: made.id,
      name: 'whole',
      domain: 'site.test',
      sso_provider: 'google',
      has_values: true,
      has_totp_secret: false,
      value_keys: ['username', 'password'],
      created_at: made.created_at,
      updated_at: made.created_at,
    })
    expect(await get(`/credentials/${made.id}`)).toEqual(made)
    expect(await get('/credentials/whole')).toEqual(made)
    const { value_keys: _, ...listed } = made
    expect(await list('&query=whole')).toEqual([listed])
  })

  test('may be without values, and without a secret for codes', async () => {
    expect(await create(named('bare', { values: {}, totp_secret: '', sso_provider: '' }))).toMatchObject({
      has_values: false,
      has_totp_secret: false,
      value_keys: [],
    })
    expect(await refused(cloud.fetch('/credentials/bare/totp-code'))).toEqual([400, expect.stringMatching(/^totp_secret: this credential has none/)])
  })

  test('is found by a host as browsers write it', async () => {
    const made = await create(named('köln', { domain: 'KÖLN.test' }))
    expect(made.domain).toBe('xn--kln-sna.test')
    expect((await list('&domain=k%C3%B6ln.test')).map(({ id }) => id)).toEqual([made.id])
    expect((await list('&domain=XN--KLN-SNA.test')).map(({ id }) => id)).toEqual([made.id])
    expect(await list('&domain=oln.test')).toEqual([])
    expect(await list('&domain=%2F')).toEqual([])
  })

  test.each([
    ['an address', '192.0.2.7', '192.0.2.7'],
    ['an IPv6 address', '[2001:DB8:0::1]', '[2001:db8::1]'],
    ['a name of one label', 'Intranet', 'intranet'],
  ])('may be for %s', async (what, domain, stored) => {
    expect((await create(named(`for ${what}`, { domain }))).domain).toBe(stored)
  })
})

describe('what is refused, by name and without a change', () => {
  const many = Object.fromEntries(Array.from({ length: MAX_VALUES + 1 }, (_, i) => [`k${i}`, 'v']))
  test.each<[string, object, RegExp]>([
    ['no domain', { domain: undefined }, /^domain: /],
    ['a domain with a scheme', { domain: 'https://site.test' }, /^domain: must be a host/],
    ['a domain with a path', { domain: 'site.test/login' }, /^domain: must be a host/],
    ['a domain with a port', { domain: 'site.test:8080' }, /^domain: must be a host/],
    ['a domain with a user', { domain: 'kim@site.test' }, /^domain: must be a host/],
    ['an empty name', { name: ' ' }, /^name: /],
    ['a name like an id', { name: newId() }, /^name: must not look like an id/],
    ['a name with a line feed', { name: 'a\nb' }, /^name: must have no control/],
    ['a long name', { name: 'x'.repeat(256) }, /^name: must have at most 255/],
    ['no values', { values: undefined }, /^values: /],
    ['values that are no texts', { values: { CANARY: 5 } }, /^values\.CANARY: /],
    ['too many values', { values: many }, /^values: must have at most 100 values/],
    ['a long value', { values: { password: 'CANARY'.repeat(MAX_VALUE_BYTES) } }, /^values\.password: must have at most 16384 bytes/],
    ['a value of many bytes', { values: { password: 'ü'.repeat(MAX_VALUE_BYTES / 2 + 1) } }, /^values\.password: must have at most 16384 bytes/],
    [
      'too much in all',
      { values: Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`k${i}`, 'v'.repeat(MAX_VALUES_BYTES / 4 - 10)])) },
      /^values: must have at most 65536 bytes in all/,
    ],
    ['an empty key', { values: { '': 'x' } }, /^values: must be a key of 1 to 128 characters/],
    ['a key with a control character', { values: { 'a\tb': 'x' } }, /^values: must be a key without control/],
    ['a long key', { values: { ['k'.repeat(129)]: 'x' } }, /^values: must be a key of 1 to 128 characters/],
    ['a provider that is no name', { sso_provider: 'a b' }, /^sso_provider: /],
    ['a secret that is none', { totp_secret: 'CANARY189' }, /^totp_secret: /],
    ['digits without a secret', { totp_digits: 8 }, /^totp_digits: must be given together with totp_secret/],
    ['an algorithm without a secret', { totp_algorithm: 'SHA512', totp_secret: ' ' }, /^totp_algorithm: must be given together/],
    ['another algorithm', { totp_algorithm: 'MD5', totp_secret: SECRET }, /^totp_algorithm: /],
    ['another number of digits', { totp_digits: 5, totp_secret: SECRET }, /^totp_digits: /],
    ['another period', { totp_period: 0, totp_secret: SECRET }, /^totp_period: /],
    ['an unknown field', { password: 'x' }, /password/],
  ])('%s', async (_, wrong, message) => {
    const before = await cloud.query('select count(*) from credentials')
    const [status, said] = await refused(cloud.send('POST', '/credentials', named('refused', wrong)))
    expect([status, said]).toEqual([400, expect.stringMatching(message)])
    expect(said.replace('values.CANARY', '')).not.toContain('CANARY')
    expect(await cloud.query('select count(*) from credentials')).toEqual(before)
  })

  test('a name that is taken, at create and update; letters of the other case are another name', async () => {
    await create(named('taken'))
    const other = await create(named('TAKEN'))
    expect(await refused(cloud.send('POST', '/credentials', named('taken')))).toEqual([409, 'there is a credential named "taken" already'])
    expect(await refused(cloud.send('PATCH', `/credentials/${other.id}`, { name: 'taken' }))).toEqual([409, 'there is a credential named "taken" already'])
  })

  test('what does not exist', async () => {
    for (const path of ['nobody', newId()])
      for (const answer of [
        cloud.fetch(`/credentials/${path}`),
        cloud.send('PATCH', `/credentials/${path}`, {}),
        cloud.fetch(`/credentials/${path}/totp-code`),
      ])
        expect(await refused(answer)).toEqual([404, `there is no credential "${path}"`])
    expect((await cloud.fetch('/credentials/nobody', { method: 'DELETE' })).status).toBe(404)
  })
})

describe('a change', () => {
  test('removes keys first, then merges values; the rest stays', async () => {
    const { id } = await create(named('merged', { values: { a: '1', b: '2', c: '3' } }))
    const { answer } = await patch('merged', { remove_value_keys: ['a', 'b', 'nothing'], values: { b: 'new', d: '4' } })
    expect(answer.value_keys).toEqual(['c', 'b', 'd'])
    expect(answer.updated_at > answer.created_at).toBe(true)
    expect((await patch(id, { remove_value_keys: ['b', 'c', 'd'] })).answer).toMatchObject({ has_values: false, value_keys: [] })
  })

  test('of the name or the provider alone leaves the values', async () => {
    const { id } = await create(named('renamed', { sso_provider: 'github' }))
    expect((await patch('renamed', { name: 'other' })).answer).toMatchObject({
      id,
      name: 'other',
      sso_provider: 'github',
      value_keys: ['username', 'password'],
    })
    for (const none of ['', null]) {
      expect((await patch(id, { sso_provider: 'okta' })).answer.sso_provider).toBe('okta')
      expect((await patch(id, { sso_provider: none })).answer).not.toHaveProperty('sso_provider')
    }
  })

  test('of nothing changes nothing', async () => {
    const made = await create(named('same'))
    expect(await patch('same', {})).toEqual({ status: 200, answer: made })
  })

  test('that would make it too large is refused and changes nothing', async () => {
    const made = await create(named('large', { values: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`k${i}`, 'v'])) }))
    const more = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`m${i}`, 'v']))
    expect((await patch('large', { values: more })).status).toBe(400)
    expect(await get('/credentials/large')).toEqual(made)
  })

  test('at the same time as others is not lost', async () => {
    const { id } = await create(named('contended', { values: {} }))
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
    await Promise.all(keys.map((key) => patch(id, { values: { [key]: 'v' } })))
    expect((await get(`/credentials/${id}`)).value_keys!.toSorted()).toEqual(keys.toSorted())
  })
})

describe('a secret for codes', () => {
  test('is answered with its code when it is set, and with its settings always', async () => {
    const made = await create(named('coded', { totp_secret: `otpauth://totp/x?secret=${SECRET}&algorithm=SHA256&period=60`, totp_digits: 8 }))
    expect(made).toMatchObject({
      has_totp_secret: true,
      totp_algorithm: 'SHA256',
      totp_digits: 8,
      totp_period: 60,
      totp_code: expect.stringMatching(/^\d{8}$/),
    })
    expect(Date.parse(made.totp_code_expires_at!)).toBeGreaterThan(Date.parse(made.created_at))
    const { totp_code: _, totp_code_expires_at: __, ...rest } = made
    expect(await get('/credentials/coded')).toEqual(rest)
    expect(await (await cloud.fetch('/credentials/coded/totp-code')).json()).toEqual({ code: expect.stringMatching(/^\d{8}$/), expires_at: expect.any(String) })
  })

  test('keeps its settings when the secret changes, gives the code only when it does, and goes when it is empty', async () => {
    await create(named('changed', { totp_secret: SECRET, totp_digits: 7 }))
    expect((await patch('changed', { totp_secret: 'B'.repeat(32), totp_period: 60 })).answer).toMatchObject({
      totp_code: expect.stringMatching(/^\d{7}$/),
      totp_digits: 7,
      totp_period: 60,
    })
    expect((await patch('changed', { values: { a: 'b' } })).answer).not.toHaveProperty('totp_code')
    expect((await patch('changed', { totp_digits: 6 })).status).toBe(400)
    const { answer } = await patch('changed', { totp_secret: '' })
    expect(answer.has_totp_secret).toBe(false)
    expect(Object.keys(answer).filter((key) => key.startsWith('totp'))).toEqual([])
    expect(answer.value_keys).toContain('a')
  })

  test('gives the code of the present moment', async () => {
    const { id } = await engine.create(DEFAULT_PROJECT, { ...named('now'), totp_secret: SECRET })
    const { code, expiresAt } = totpCode(readTotp(SECRET, {}), NOW)
    expect(await engine.totpCode(DEFAULT_PROJECT, id)).toEqual({ code, expires_at: expiresAt.toISOString() })
  })
})

test('lists have pages, newest first', async () => {
  const made: string[] = []
  for (let i = 0; i < 3; i++) made.unshift((await create(named(`page ${i}`, { domain: 'paged.test' }))).id)
  const first = await cloud.fetch('/credentials?domain=paged.test&limit=2')
  expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset')]).toEqual(['true', '2'])
  const rest = (await (await cloud.fetch('/credentials?query=PAGED.t&limit=2&offset=2')).json()) as Credential[]
  expect([...((await first.json()) as Credential[]), ...rest].map(({ id }) => id)).toEqual(made)
  expect((await list(`&query=${made[0]}`)).map(({ id }) => id)).toEqual([made[0]])
})

test('a deleted one is gone with its values, and its name is free', async () => {
  const { id } = await create(named('gone'))
  expect((await cloud.fetch('/credentials/gone', { method: 'DELETE' })).status).toBe(204)
  expect((await cloud.fetch(`/credentials/${id}`)).status).toBe(404)
  expect(await cloud.query('select id from credentials where id = $1', [id])).toEqual([])
  await create(named('gone'))
})

test('a project that has credentials cannot be deleted', async () => {
  const { id } = (await (await cloud.send('POST', '/org/projects', { name: 'Holding' })).json()) as { id: string }
  const within = { headers: { 'x-kernel-project-id': id, 'content-type': 'application/json' } }
  const made = await cloud.fetch('/credentials', { method: 'POST', body: JSON.stringify(named('held')), ...within })
  expect(made.status).toBe(201)
  expect(await refused(cloud.fetch(`/org/projects/${id}`, { method: 'DELETE' }))).toEqual([409, expect.stringContaining('1 credentials')])
  expect((await cloud.fetch('/credentials/held', { method: 'DELETE', headers: { 'x-kernel-project-id': id } })).status).toBe(204)
  expect((await cloud.fetch(`/org/projects/${id}`, { method: 'DELETE' })).status).toBe(204)
})

describe('the login engine', () => {
  const at = (name: string) => engine.idOf(DEFAULT_PROJECT, name)

  test('gets the values of a credential of the project, by its id', async () => {
    const { id } = await engine.create(DEFAULT_PROJECT, { ...named('engine'), sso_provider: 'google', totp_secret: SECRET })
    expect([await at('engine'), await at(id), await at('nobody'), await engine.idOf(newId(), 'engine')]).toEqual([id, id, undefined, undefined])
    expect(await engine.open(DEFAULT_PROJECT, id)).toEqual({
      id,
      name: 'engine',
      domain: 'site.test',
      values: { username: 'kim', password: 'hush' },
      ssoProvider: 'google',
      totp: { secret: SECRET, algorithm: 'SHA1', digits: 6, period: 30 },
      version: expect.stringContaining(id) as string,
    })
    expect(await engine.open(newId(), id)).toBeUndefined()
    await engine.delete(DEFAULT_PROJECT, id)
    expect(await engine.open(DEFAULT_PROJECT, id)).toBeUndefined()
  })

  test('hears another version exactly when the values or the secret have become others', async () => {
    const { id } = await engine.create(DEFAULT_PROJECT, named('versions'))
    const now = async () => (await engine.open(DEFAULT_PROJECT, id))!.version
    const isOther = async (work: () => Promise<unknown>) => {
      const before = await now()
      await work()
      return (await now()) !== before
    }
    const update = (changes: object) => () => engine.update(DEFAULT_PROJECT, id, changes)
    const keep = (password: string) => () => engine.keep(DEFAULT_PROJECT, { into: id, id: newId(), name: 'x', domain: 'x.test', values: { password } })
    for (const work of [update({ name: 'renamed', sso_provider: 'google' }), update({ values: { password: 'hush' } }), update({}), keep('hush')])
      expect(await isOther(work)).toBe(false)
    for (const work of [update({ values: { password: 'new' } }), update({ totp_secret: SECRET }), update({ remove_value_keys: ['username'] }), keep('newer')])
      expect(await isOther(work)).toBe(true)
  })

  test('keeps what was typed in the credential that it used, and its secret for codes', async () => {
    const { id } = await engine.create(DEFAULT_PROJECT, { ...named('into'), totp_secret: SECRET })
    expect(await engine.keep(DEFAULT_PROJECT, { into: id, id: newId(), name: 'x', domain: 'x.test', values: { password: 'new', company: 'c' } })).toBe(id)
    expect(await engine.open(DEFAULT_PROJECT, id)).toMatchObject({ values: { username: 'kim', password: 'new', company: 'c' }, totp: { secret: SECRET } })
    const { updated_at } = await engine.get(DEFAULT_PROJECT, id)
    await engine.keep(DEFAULT_PROJECT, { into: id, id: newId(), name: 'x', domain: 'x.test', values: { password: 'new' } })
    expect((await engine.get(DEFAULT_PROJECT, id)).updated_at).toBe(updated_at)
  })

  test('keeps it in a new one without one, with a suffix while the name is taken', async () => {
    const keep = (into?: string) =>
      engine.keep(DEFAULT_PROJECT, { into, id: newId(), name: 'kim-kept.test', domain: 'kept.test', values: { password: 'typed' } })
    const ids = [await keep(), await keep(), await keep(newId())]
    expect([await at('kim-kept.test'), await at('kim-kept.test-2'), await at('kim-kept.test-3')]).toEqual(ids)
    expect(await engine.open(DEFAULT_PROJECT, ids[1]!)).toMatchObject({ domain: 'kept.test', values: { password: 'typed' } })
  })

  test('keeps it once under the id of a new one, and leaves another credential that has its name alone', async () => {
    const before = await engine.create(DEFAULT_PROJECT, named('kim-left.test'))
    const id = newId()
    const keep = () => engine.keep(DEFAULT_PROJECT, { into: undefined, id, name: 'kim-left.test', domain: 'left.test', values: { password: 'typed' } })
    // If a service is killed after it was created, the call is repeated.
    expect([await keep(), await keep()]).toEqual([id, id])
    expect([await at('kim-left.test'), await at('kim-left.test-2'), await at('kim-left.test-3')]).toEqual([before.id, id, undefined])
    expect(await engine.open(DEFAULT_PROJECT, before.id)).toMatchObject({ values: { username: 'kim', password: 'hush' } })
  })

  test('keeps under a long name, and at the same time', async () => {
    const name = `${'ü'.repeat(300)}`
    const ids = await Promise.all(
      Array.from({ length: 30 }, () =>
        engine.keep(DEFAULT_PROJECT, { into: undefined, id: newId(), name, domain: 'kept.test', values: { password: 'typed' } }),
      ),
    )
    expect(new Set(ids).size).toBe(30)
    for (const id of ids) expect(Array.from((await engine.get(DEFAULT_PROJECT, id)).name).length).toBeLessThanOrEqual(255)
  })

  test('cannot keep what the API would not take', async () => {
    const keep = (values: Record<string, string>) => engine.keep(DEFAULT_PROJECT, { into: undefined, id: newId(), name: 'never', domain: 'kept.test', values })
    await expect(keep({ password: 'CANARY'.repeat(MAX_VALUE_BYTES) })).rejects.toMatchObject({ status: 400, message: expect.not.stringContaining('CANARY') })
    await expect(keep(JSON.parse('{"__proto__":"CANARY"}') as Record<string, string>)).rejects.toMatchObject({ status: 400 })
    expect(await at('never')).toBeUndefined()
  })
})

describe('with another key', () => {
  test('a credential can be seen, renamed and deleted, and says that it cannot be read', async () => {
    const { id } = await engine.create(DEFAULT_PROJECT, { ...named('lost'), totp_secret: SECRET })
    const other = engineWith(Buffer.alloc(32, 2))
    const unreadable = { status: 503, message: expect.stringContaining('cannot be read with the keys of the service') }
    await expect(other.open(DEFAULT_PROJECT, id)).rejects.toMatchObject(unreadable)
    await expect(other.totpCode(DEFAULT_PROJECT, id)).rejects.toMatchObject(unreadable)
    await expect(other.update(DEFAULT_PROJECT, id, { values: { a: 'b' } })).rejects.toMatchObject(unreadable)
    expect(await other.update(DEFAULT_PROJECT, id, { name: 'lost 2' })).toMatchObject({ name: 'lost 2', has_values: true })
    await other.delete(DEFAULT_PROJECT, id)
  })

  test('what is sealed for one project or credential opens in no other', async () => {
    const made = await engine.create(DEFAULT_PROJECT, named('moved'))
    const twin = await engine.create(DEFAULT_PROJECT, named('twin'))
    const [other] = await cloud.query<{ id: string }>(`insert into projects (id, name) values ('elsewhere', 'Elsewhere') returning id`)
    await cloud.query('update credentials set project_id = $1 where id = $2', [other!.id, made.id])
    await cloud.query('update credentials set sealed = (select sealed from credentials where id = $1) where id = $2', [made.id, twin.id])
    await expect(engine.open(other!.id, made.id)).rejects.toMatchObject({ status: 503 })
    await expect(engine.open(DEFAULT_PROJECT, twin.id)).rejects.toMatchObject({ status: 503 })
  })
})
