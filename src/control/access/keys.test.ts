// API keys: which ones are valid, and that none is stored in clear text.
import { createHash } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../test/support/contract.ts'
import { fastCloud, startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { scratchDir } from '../../../test/support/scratch.ts'
import { ConfigError } from '../../base/setting.ts'
import { newId } from '../../base/ids.ts'
import { until } from '../../base/wait.ts'
import { allowKey, forbidKeys, newKey, ownKey } from './keys.ts'
import { DEFAULT_PROJECT } from './projects/resolve.ts'

/** A checked key is cached for 2 s; a deleted one must be refused soon after. */
const FORGET_MS = 10_000

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const withKey = (authorization: string | undefined, path = '/browsers', method = 'GET') =>
  fetch(cloud.url + path, { method, headers: { ...(authorization !== undefined && { authorization }) } })

describe('without a valid key', () => {
  test.each([
    ['GET', '/browsers'],
    ['POST', '/browsers'],
    ['GET', '/browsers/abc'],
    ['PATCH', '/browsers/abc'],
    ['DELETE', '/browsers/abc'],
    ['POST', '/browsers/abc/computer/screenshot'],
    ['POST', '/browsers/abc/computer/drag_mouse'],
    ['GET', '/deployments/abc'],
    ['GET', '/metrics'],
  ])('%s %s answers 401 and says how to authenticate', async (method, path) => {
    for (const authorization of [
      undefined,
      '',
      'Bearer',
      `Bearer ${newKey()}`,
      `Bearer ${cloud.key}x`,
      `Bearer ${cloud.key.slice(0, -1)}`,
      `Basic ${Buffer.from(`:${cloud.key}`).toString('base64')}`,
      `Bearer ${cloud.key.toUpperCase()}`,
    ]) {
      const response = await withKey(authorization, path, method)
      const body = await response.json()
      conforms('ErrorModel', body)
      expect([response.status, response.headers.get('www-authenticate'), (body as { code: string }).code]).toEqual([401, 'Bearer', 'unauthorized'])
    }
  })

  test('an unknown path answers 404, as it does with a key', async () => {
    expect([(await withKey(undefined, '/nothing')).status, (await cloud.fetch('/nothing')).status]).toEqual([404, 404])
  })
})

test('a key in a URL is not accepted, because URLs are logged in many places', async () => {
  for (const name of ['key', 'api_key', 'token', 'jwt', 'access_token']) expect((await withKey(undefined, `/browsers?${name}=${cloud.key}`)).status).toBe(401)
})

test('the first key is in a file that only its owner can read, and in the database only as a hash', async () => {
  expect(readFileSync(cloud.paths.apiKey, 'utf8').trim()).toBe(cloud.key)
  expect(statSync(cloud.paths.apiKey).mode & 0o777).toBe(0o600)
  const rows = await cloud.query('select *, encode(hash, $1) as hex from api_keys', ['hex'])
  expect(rows).toHaveLength(1)
  expect(JSON.stringify(rows)).not.toContain(cloud.key)
  expect(rows[0]).toMatchObject({ masked: `${cloud.key.slice(0, 8)}…${cloud.key.slice(-4)}` })
})

test('COB_API_KEY is the key if it is set', async () => {
  const key = 'a-key-of-my-own_1'
  await using own = await startFastCloud({ COB_API_KEY: key, COB_WARM_BROWSERS: '0' })
  expect(own.key).toBe(key)
  expect((await own.fetch('/browsers')).status).toBe(200)
})

describe('a key of settings that belongs to a project or an app', () => {
  const DATABASE_URL = () => `postgres://cob@/postgres?host=${cloud.paths.postgresSocket}`
  const states = () => cloud.query('select id, setting, project_id, deleted_at from api_keys order by id')
  /** A key of the default project with these columns in its row. */
  async function taken(key: string, columns: { deployment?: string; deleted?: boolean }): Promise<void> {
    await cloud.query(
      'insert into api_keys (id, name, hash, masked, project_id, deployment_id, deleted_at) values ($1, $2, $3, $2, $4, $5, case when $6 then now() end)',
      [newId(), 'of the team', createHash('sha256').update(key).digest(), DEFAULT_PROJECT, columns.deployment ?? null, columns.deleted === true],
    )
  }
  const deployed = async () => {
    const id = newId()
    await cloud.query(`insert into deployments (id, scope, state, region, env_keys, project_id) values ($1, 'elsewhere', 'stopped', 'r', '[]', $2)`, [
      id,
      DEFAULT_PROJECT,
    ])
    return id
  }

  test.each(['project', 'deleted', 'app'])('ends the start, and no key is changed: %s', async (kind) => {
    const key = `key-of-others_${kind}_${newId()}`
    await taken(key, { deleted: kind === 'deleted', ...(kind === 'app' && { deployment: await deployed() }) })
    const before = await states()
    const whose = kind === 'app' ? /is the key of an app \(deployment \w{24}\)/ : /is the API key "of the team" of the project "Default"/
    const refused = startFastCloud({ DATABASE_URL: DATABASE_URL(), COB_API_KEY: key, COB_WARM_BROWSERS: '0' })
    const problem = await refused.then(
      (started) => started[Symbol.asyncDispose](),
      (error: Error) => error,
    )
    expect(problem).toBeInstanceOf(ConfigError)
    expect((problem as Error).message).toMatch(whose)
    expect((problem as Error).message).toMatch(/^COB_API_KEY: .*, and would become a key for all projects: set it to another value$/)
    expect((problem as Error).message).not.toContain(key)
    expect(await states()).toEqual(before)
  })

  test('is refused in the file of the first key, too, by the name of the file', async () => {
    const key = newKey()
    await taken(key, {})
    const file = join(scratchDir('cob-own-key-'), 'api-key')
    writeFileSync(file, key, { mode: 0o600 })
    using scope = new DisposableStack()
    scope.defer(() => rmSync(dirname(file), { recursive: true }))
    await expect(ownKey(cloud.db, 'elsewhere', undefined, file)).rejects.toThrow(`${file}: is the API key "of the team"`)
  })

  test('may be a key for all projects that a caller has made', async () => {
    const { key } = (await (await cloud.send('POST', '/org/api_keys', { name: 'for all' })).json()) as { key: string }
    await using service = await startFastCloud({ DATABASE_URL: DATABASE_URL(), COB_API_KEY: key, COB_WARM_BROWSERS: '0' })
    expect((await service.fetch('/browsers')).status).toBe(200)
  })
})

describe('two services on one database', () => {
  /** Whether a service accepts a key, after its cache has expired. */
  const opens = async (service: FastCloud, key: string) =>
    (await fetch(`${service.url}/browsers`, { headers: { authorization: `Bearer ${key}` } })).status === 200
  const beside = (env: Record<string, string> = {}) =>
    startFastCloud({ DATABASE_URL: `postgres://cob@/postgres?host=${cloud.paths.postgresSocket}`, COB_WARM_BROWSERS: '0', ...env })

  test.each<Record<string, string>>([{}, { COB_API_KEY: 'a-key-of-the-second_1' }])('keep both their keys, with the settings %o of the second', async (env) => {
    await using second = await beside(env)
    await second.create()
    for (const key of [cloud.key, second.key]) expect([await opens(cloud, key), await opens(second, key)]).toEqual([true, true])
  })

  test('with the same key keep it when one of them changes it; a changed key ends for its own service', async () => {
    const shared = 'a-key-of-both-services_1'
    await using first = await beside({ COB_API_KEY: shared })
    const { db } = cloud
    await allowKey(db, 'second', 'COB_API_KEY', shared)
    await allowKey(db, 'second', 'COB_API_KEY', 'another-key-of-the-second_1')
    await until('the change to be seen', FORGET_MS, () => opens(first, 'another-key-of-the-second_1'))
    expect(await opens(first, shared)).toBe(true)
    await forbidKeys(db, 'second', 'COB_API_KEY')
    await until('the key to be out', FORGET_MS, async () => !(await opens(first, 'another-key-of-the-second_1')))
    expect(await opens(first, shared)).toBe(true)
    await forbidKeys(db, readFileSync(first.paths.hostId, 'utf8').trim(), 'COB_API_KEY')
    await until('the key to be out', FORGET_MS, async () => !(await opens(first, shared)))
    expect(await opens(cloud, cloud.key)).toBe(true)
  })
})
