// Rotating the encryption key while the service runs: everything stays readable, wherever the rotation is interrupted, and whatever callers do meanwhile.
import { createCipheriv, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KyselyPlugin } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { derivedKey } from '../../base/derived-key.ts'
import { newId } from '../../base/ids.ts'
import { openKeys, readKeyFile, sealingKey, writeKeyFile, type Keys } from '../../base/keys.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { keyIdOf, makeSealer } from '../../base/sealed.ts'
import type { Db } from '../../store/db.ts'
import { purposeOf } from '../logins/credentials/credentials.ts'
import { DEFAULT_PROJECT } from '../access/projects/resolve.ts'
import { alone, beginRotation, completeRotation, countByKey, FORGET_AFTER_MS, forgetUnused, reencrypt } from './rotation.ts'
import { sealedColumns } from '../modules.ts'
import { serviceKeys } from './service-keys.ts'

const SECRET = 'JBSWY3DPEHPK3PXP'
const never = new AbortController().signal

let cloud: FastCloud
let db: Db
let keys: Keys
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  cloud = scope.use(await startFastCloud())
  db = cloud.db
  keys = serviceKeys({ secretKey: undefined, sealingKeys: [] }, cloud.paths)
})
afterAll(() => scope.disposeAsync())

/** The form of versions without key ids. */
function sealedBefore(purpose: string, text: string, owner: string): Buffer {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', derivedKey(keys.root.secret, `cob-sealed-${purpose}`), nonce).setAAD(Buffer.from(owner))
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}

/** One row of each kind in the current form, and one in that of an earlier version. */
let ids: Record<string, string>
beforeEach(async () => {
  for (const table of ['credentials', 'deployments', 'proxies', 'telemetry_destinations']) await cloud.query(`delete from ${table}`)
  await cloud.query('delete from browsers')
  const send = async (path: string, body: object) => ((await (await cloud.send('POST', path, body)).json()) as { id: string }).id
  ids = {
    credential: await send('/credentials', { name: 'mine', domain: 'site.test', values: { password: 'hush' }, totp_secret: SECRET }),
    proxy: await send('/proxies', { type: 'custom', name: 'p', config: { host: 'proxy.test', port: 1, username: 'kim', password: 'hushhush' } }),
    destination: await send('/telemetry/destinations', { name: 'd', endpoint: 'http://192.0.2.1:4318', headers: { 'x-key': 'hush' } }),
    deployment: newId(),
    browser: newId(),
    old: newId(),
  }
  await cloud.query(
    `insert into deployments (id, project_id, scope, state, region, env_keys, secrets) values ($1, $2, 'elsewhere', 'running', 'aws.us-east-1a', '[]', $3)`,
    [ids.deployment, DEFAULT_PROJECT, makeSealer(keys, 'deployments').seal('hush', ids.deployment!)],
  )
  const endpoint = { host: '192.0.2.1', port: 1, sealed: makeSealer(keys, 'endpoints').seal('hush', ids.browser!).toString('base64') }
  await cloud.query(
    `insert into browsers (id, state, scope, project_id, tags, options, endpoint, timeout_seconds, deleted_at) values ($1, 'deleted', 'elsewhere', $2, '{}', '{}', $3, 60, now())`,
    [ids.browser, DEFAULT_PROJECT, JSON.stringify(endpoint)],
  )
  await cloud.query(`insert into proxies (id, project_id, type, protocol, config, bypass_hosts, secrets) values ($1, $2, 'custom', 'http', $3, '{}', $4)`, [
    ids.old,
    DEFAULT_PROJECT,
    JSON.stringify({ host: 'old.test', port: 1, has_password: true }),
    sealedBefore('proxies', JSON.stringify({ username: 'old', password: 'hushhush' }), ids.old!),
  ])
})

/** Checks that the running service can read everything. */
async function assertReadable(): Promise<void> {
  const read = async (path: string) => (await (await cloud.fetch(path)).json()) as { code?: string; config?: { username?: string } }
  expect((await read(`/credentials/${ids.credential}/totp-code`)).code).toMatch(/^\d{6}$/)
  for (const [id, username] of [
    [ids.proxy, 'kim'],
    [ids.old, 'old'],
  ])
    expect((await read(`/proxies/${id}`)).config).toMatchObject({ username })
  // Adding a header decrypts the present ones.
  expect((await cloud.send('PATCH', `/telemetry/destinations/${ids.destination}`, { headers: { 'x-more': 'hush' } })).status).toBe(200)
  const [{ secrets }] = (await cloud.query<{ secrets: Buffer }>('select secrets from deployments where id = $1', [ids.deployment])) as [{ secrets: Buffer }]
  expect(makeSealer(keys, 'deployments').open(secrets, ids.deployment!)).toBe('hush')
  const [{ endpoint }] = (await cloud.query<{ endpoint: { host: string; sealed: string } }>('select endpoint from browsers where id = $1', [ids.browser])) as [
    { endpoint: { host: string; sealed: string } },
  ]
  expect([endpoint.host, makeSealer(keys, 'endpoints').open(Buffer.from(endpoint.sealed, 'base64'), ids.browser!)]).toEqual(['192.0.2.1', 'hush'])
}

const keysUsed = async () => [...(await countByKey(db, keys)).keys()]
const rotate = (on = db) => alone(on, () => (beginRotation(cloud.paths.sealingKeys), reencrypt({ db: on, keys, signal: never, settleMs: 0 })))

test('a rotation encrypts everything with a new key, which the running service takes at once, and all stays readable', async () => {
  const before = await countByKey(db, keys)
  expect([before.get(undefined), [...before.values()].reduce((sum, count) => sum + count)]).toEqual([1, 6])
  expect(await rotate()).toEqual({ changed: 6, unreadable: [] })
  completeRotation(cloud.paths.sealingKeys)
  const [{ id }] = keys.sealing()
  expect([id === keys.root.id, await keysUsed()]).toEqual([false, [id]])
  await assertReadable()
  const made = (await (await cloud.send('POST', '/credentials', { name: 'next', domain: 'site.test', values: {} })).json()) as { id: string }
  const [row] = await cloud.query<{ sealed: Buffer }>('select sealed from credentials where id = $1', [made.id])
  expect(keyIdOf(row!.sealed)).toBe(id)
  expect(await keysUsed()).toEqual([id])
})

test('tokens and links of sessions and replays hold', async () => {
  const session = await cloud.create()
  await rotate()
  completeRotation(cloud.paths.sealingKeys)
  const statusWith = async (token: string) => (await fetch(`${session.base_url}/computer/get_mouse_position?jwt=${token}`, { method: 'POST' })).status
  expect([await statusWith(new URL(session.cdp_ws_url).searchParams.get('jwt')!), await statusWith('other')]).toEqual([200, 401])
  expect((await fetch(session.browser_live_view_url as string)).status).toBe(200)
  const { cdp_ws_url: url } = (await (await cloud.fetch(`/browsers/${session.session_id}`)).json()) as { cdp_ws_url: string }
  expect(url).toBe(session.cdp_ws_url)
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
})

/** A database that fails at its nth statement, as after a kill. */
function dying(after: number): Db {
  let left = after
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (left-- <= 0) throw new Error('killed')
      return node
    },
    transformResult: async ({ result }) => result,
  }
  return db.withPlugin(plugin)
}

test('a rotation that is killed at any statement leaves everything readable, and the next one completes it with the same key', async () => {
  const made = readKeyFile(cloud.paths.sealingKeys).length
  let kills = 0
  for (let statements = 0; ; statements++) {
    const end = await rotate(dying(statements)).then(
      () => 'complete',
      (error: Error) => error.message,
    )
    await assertReadable()
    if (end === 'complete') break
    expect(end).toBe('killed')
    kills++
    // Completed changes stay, so each attempt gets further. A kill before the first change makes no progress.
  }
  expect(kills).toBeGreaterThan(5)
  expect(readKeyFile(cloud.paths.sealingKeys).length).toBe(made + 1)
  completeRotation(cloud.paths.sealingKeys)
  expect(await keysUsed()).toEqual([keys.sealing()[0].id])
  await assertReadable()
})

test('what callers change meanwhile is kept', async () => {
  await Promise.all([
    rotate(),
    ...Array.from({ length: 30 }, (_, at) => cloud.send('PATCH', `/credentials/${ids.credential}`, { values: { [`k${at}`]: 'v' } })),
    ...Array.from({ length: 10 }, (_, at) => cloud.send('POST', '/credentials', { name: `m${at}`, domain: 'site.test', values: { a: 'b' } })),
  ])
  completeRotation(cloud.paths.sealingKeys)
  const { value_keys } = (await (await cloud.fetch(`/credentials/${ids.credential}`)).json()) as { value_keys: string[] }
  expect(value_keys).toHaveLength(31)
  const [row] = await cloud.query<{ sealed: Buffer }>('select sealed from credentials where id = $1', [ids.credential])
  const { values } = JSON.parse(makeSealer(keys, purposeOf(DEFAULT_PROJECT)).open(row!.sealed, ids.credential!)) as { values: Record<string, string> }
  expect(Object.keys(values)).toHaveLength(31)
  expect(await keysUsed()).toEqual([keys.sealing()[0].id])
  await assertReadable()
})

test('a change that comes between reading a value and writing it again is the one that stays', async () => {
  let isDue = true
  const columns = sealedColumns.map((column) => ({
    ...column,
    others: async (...given: Parameters<typeof column.others>) => {
      const values = await column.others(...given)
      if (column.table === 'credentials' && isDue) {
        isDue = false
        expect((await cloud.send('PATCH', '/credentials/mine', { values: { between: 'v' } })).status).toBe(200)
      }
      return values
    },
  }))
  beginRotation(cloud.paths.sealingKeys)
  await reencrypt({ db, keys, signal: never, settleMs: 0, columns })
  completeRotation(cloud.paths.sealingKeys)
  const [row] = await cloud.query<{ sealed: Buffer }>('select sealed from credentials where id = $1', [ids.credential])
  expect(JSON.parse(makeSealer(keys, purposeOf(DEFAULT_PROJECT)).open(row!.sealed, ids.credential!))).toMatchObject({
    values: { password: 'hush', between: 'v' },
  })
})

test('what no key opens is named, and stays as it is; the rest is encrypted', async () => {
  const foreign = makeSealer(openKeys({ root: randomBytes(32), set: [], file: '/nowhere' }), 'proxies').seal('{}', ids.proxy!)
  await cloud.query('update proxies set secrets = $1 where id = $2', [foreign, ids.proxy])
  expect(await rotate()).toEqual({ changed: 5, unreadable: [`proxies ${ids.proxy}`] })
  completeRotation(cloud.paths.sealingKeys)
  const [row] = await cloud.query<{ secrets: Buffer }>('select secrets from proxies where id = $1', [ids.proxy])
  expect(row!.secrets).toEqual(foreign)
})

test('many values are read in pieces', async () => {
  const sealer = makeSealer(keys, 'proxies')
  for (let at = 0; at < 250; at++) {
    const id = newId()
    await cloud.query(`insert into proxies (id, project_id, type, protocol, config, bypass_hosts, secrets) values ($1, $2, 'custom', 'http', '{}', '{}', $3)`, [
      id,
      DEFAULT_PROJECT,
      sealer.seal('{}', id),
    ])
  }
  expect((await rotate()).changed).toBe(256)
  completeRotation(cloud.paths.sealingKeys)
  expect(await keysUsed()).toEqual([keys.sealing()[0].id])
})

test('a service that still encrypts with an older key is an error that says so', async () => {
  const [older] = keys.sealing()
  const sealer = makeSealer({ root: keys.root, sealing: () => [older] }, 'proxies')
  const columns = sealedColumns.map((column) => ({
    ...column,
    others: async (...given: Parameters<typeof column.others>) => {
      await cloud.query('update proxies set secrets = $1 where id = $2', [sealer.seal('{}', ids.proxy!), ids.proxy])
      return column.others(...given)
    },
  }))
  beginRotation(cloud.paths.sealingKeys)
  await expect(reencrypt({ db, keys, signal: never, settleMs: 0, columns })).rejects.toThrow(/still being encrypted with an older key/)
  await rotate()
  completeRotation(cloud.paths.sealingKeys)
})

test('two at the same time are refused', async () => {
  const free = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const first = alone(db, async () => (held.resolve(), free.promise))
  await held.promise
  await expect(alone(db, async () => {})).rejects.toThrow(/changes the keys of this database already/)
  free.resolve()
  await first
  await alone(db, async () => {})
})

test('an older key is forgotten when nothing needs it, and no request can still be using it', async () => {
  const { sealingKeys: file } = cloud.paths
  await rotate()
  await expect(forgetUnused(db, keys, file)).rejects.toThrow(/rotation was ended before it was complete/)
  completeRotation(file)
  const [first, ...others] = readKeyFile(file)
  expect(others.length).toBeGreaterThan(0)
  const soon = await forgetUnused(db, keys, file)
  expect([soon.forgotten, soon.kept[0]!.why]).toEqual([[], expect.stringContaining('less than 60 minutes ago')])
  const later = new Date(Date.now() + FORGET_AFTER_MS)
  const needed = others[0]!
  const sealed = makeSealer({ root: keys.root, sealing: () => [needed] }, 'proxies').seal('{"username":"kim"}', ids.proxy!)
  await cloud.query('update proxies set secrets = $1 where id = $2', [sealed, ids.proxy])
  const { forgotten, kept } = await forgetUnused(db, keys, file, later)
  expect(kept).toEqual([{ key: needed, why: expect.stringContaining('1 values are encrypted with it') }])
  expect(forgotten).toEqual(others.slice(1))
  expect(readKeyFile(file)).toEqual([first, needed])
  await assertReadable()
  await rotate()
  completeRotation(file)
  await assertReadable()
})

test('a key that is missing is missed by name, and the service says which', async () => {
  const { sealingKeys: file } = cloud.paths
  const before = readKeyFile(file)
  writeKeyFile(file, [{ ...sealingKey(randomBytes(32)), madeAt: new Date(), isTakingOver: false }])
  const lost = await cloud.fetch(`/credentials/${ids.credential}/totp-code`)
  expect([lost.status, await lost.text()]).toEqual([503, expect.stringContaining('cannot be read with the keys of the service')])
  writeKeyFile(file, before)
  await assertReadable()
})

/** Cookies of sign-ins in progress: they are valid for ten minutes, and in no column. */
const NOT_STORED = ["'sign-in'"]

test('every sealer of the service is one of a column that is rotated', () => {
  const control = join(PACKAGE_DIR, 'src/control')
  const text = readdirSync(control, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.(test|suite)\.ts$/.test(file) && file !== 'service/rotation.ts')
    .map((file) => readFileSync(join(control, file), 'utf8'))
    .join('\n')
  const made = [...text.matchAll(/makeSealer\(([^()]*(?:\([^()]*\))?)\)/g)]
    .map(([, given]) => given!.split(', ')[1]!)
    .filter((purpose) => !NOT_STORED.includes(purpose))
  // One purpose may be used for several columns.
  const purposes = new Set([...text.matchAll(/purpose: (\{ column[^}]*\}|'[^']*')/g)].map(([, purpose]) => purpose!))
  expect(made.length).toBe(purposes.size)
  for (const purpose of made) expect([...purposes].some((known) => known.includes(purpose.replace(/\(.*/, '')))).toBe(true)
})
