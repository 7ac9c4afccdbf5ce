// The configuration of a pool: every field, refused values, what an update changes and clears, and how pools are found.
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { extensionForm, extensionZip } from '../../../../test/support/extensions.ts'
import { newId } from '../../../base/ids.ts'
import { acquire, change, cloud, create, get, json, list, refusal, remove, send, update, usePools } from './pools.suite.ts'

usePools({ COB_MAX_BROWSERS: '20' })

const DEFAULTS = { fill_rate_per_minute: 25, timeout_seconds: 600, headless: false, stealth: false, kiosk_mode: false }

const made = async (path: string, body: object): Promise<string> => (await json<{ id: string }>(await cloud.send('POST', path, body), 201)).id
const profile = (name: string) => made('/profiles', { name })
const proxy = (name: string) => made('/proxies', { type: 'custom', name, protocol: 'http', config: { host: 'proxy.example', port: 3128 } })
const extension = async (name: string) =>
  (await json<{ id: string }>(await cloud.fetch('/extensions', { method: 'POST', body: extensionForm(extensionZip({ 'a.js': name }), name) }), 201)).id
const once = (name: string) => `${name}-${newId().slice(0, 8)}`

describe('a new pool', () => {
  test('has the defaults of the contract', async () => {
    const pool = await create({ size: 1 })
    conforms('BrowserPool', pool)
    expect(pool).toEqual({
      id: expect.any(String) as string,
      created_at: expect.any(String) as string,
      region: 'us-east',
      acquired_count: 0,
      available_count: expect.any(Number) as number,
      browser_pool_config: { size: 1, ...DEFAULTS },
      extension_ids: [],
    })
  })

  test('echoes every field as it was sent; what is named is resolved beside that, and its browsers have it', async () => {
    const [profileName, proxyName, extensionName] = [once('profile'), once('proxy'), once('extension')]
    const [profileId, , extensionId] = [await profile(profileName), await proxy(proxyName), await extension(extensionName)]
    const config = {
      size: 1,
      name: once('Every Field'),
      fill_rate_per_minute: 0,
      timeout_seconds: 10,
      headless: true,
      stealth: false,
      kiosk_mode: true,
      viewport: { width: 800, height: 600 },
      memory: '1GiB',
      start_url: 'https://example.com/',
      profile: { name: profileName },
      refresh_on_profile_update: false,
      extensions: [{ name: extensionName }],
      proxy: { name: proxyName },
      network: { allowed_hosts: ['example.com'], private_hosts: ['preview.internal'] },
      chrome_policy: { PasswordManagerEnabled: false, URLBlocklist: [] },
    }
    const pool = await create(config)
    conforms('BrowserPool', pool)
    expect(pool.browser_pool_config).toEqual(config)
    expect(pool).toMatchObject({ name: config.name, extension_ids: [extensionId], profile_id: profileId })
    expect(await get(pool.id)).toMatchObject({ browser_pool_config: config })
  })

  test.each([
    ['policies that switch something off', { chrome_policy: { PasswordManagerEnabled: false } }],
    ['an empty list of hosts that are reached directly', { network: { private_hosts: [] } }],
    ['what is there to hide it', { stealth: true }],
    ['a rate of 0', { fill_rate_per_minute: 0 }],
    ['the direct way', { proxy: { mode: 'direct' } }],
  ])('keeps %s', async (_what, fields) => {
    expect((await create({ size: 1, ...fields })).browser_pool_config).toMatchObject(fields)
  })

  test('gives its browsers what it was made with', async () => {
    const fields = {
      headless: true,
      kiosk_mode: true,
      viewport: { width: 640, height: 480, refresh_rate: 30 },
      chrome_policy: { PasswordManagerEnabled: false },
    }
    const { id } = await create({ size: 1, timeout_seconds: 33, memory: '1GiB', ...fields })
    const session = await acquire(id)
    conforms('BrowserPoolAcquireResponse', session)
    expect(session).toMatchObject({ ...fields, timeout_seconds: 33, memory: '1GiB', region: 'us-east', pool: { id }, tags: {} })
  })

  test('with a profile is refreshed unless it is said, and save_changes says nothing', async () => {
    const name = once('profile')
    const id = await profile(name)
    const pool = await create({ size: 1, profile: { id, save_changes: true } })
    expect(pool).toMatchObject({ profile_id: id, browser_pool_config: { profile: { id }, refresh_on_profile_update: true } })
    const session = await acquire(pool.id)
    expect(session).toMatchObject({ profile: { id, name }, profile_save_changes: false })
  })

  test('with an empty name has none, also two of them', async () => {
    for (const name of ['', '']) expect(await create({ size: 1, name })).not.toHaveProperty('name')
  })

  test('has policies of more than 64 KiB, which its answers leave out; more than 5 MiB are refused', async () => {
    const policyOf = (bytes: number) => ({ URLBlocklist: ['x'.repeat(bytes)] })
    const pool = await create({ size: 1, chrome_policy: policyOf(70_000) })
    expect(pool.browser_pool_config).not.toHaveProperty('chrome_policy')
    // The policies stay, also when another field is changed.
    await update(pool.id, { timeout_seconds: 11 })
    const [row] = await cloud.query<{ bytes: number }>('select length(chrome_policy::text) as bytes from browser_pools where id = $1', [pool.id])
    expect(Number(row!.bytes)).toBeGreaterThan(70_000)
    expect(await acquire(pool.id)).not.toHaveProperty('chrome_policy')
    expect(await refusal(await send({ size: 1, chrome_policy: policyOf(5 * 1024 * 1024) }))).toEqual([400, expect.stringContaining('chrome_policy')])
    expect((await send({ size: 1, chrome_policy: policyOf(7 * 1024 * 1024) })).status).toBe(413)
  })
})

const BAD: [field: string, fields: object][] = [
  ['size', { size: 0 }],
  ['size', { size: 1.5 }],
  ['size', { size: 21 }],
  ['size', { size: '1' }],
  ['fill_rate_per_minute', { fill_rate_per_minute: -1 }],
  ['fill_rate_per_minute', { fill_rate_per_minute: 6001 }],
  ['timeout_seconds', { timeout_seconds: 9 }],
  ['timeout_seconds', { timeout_seconds: 259_201 }],
  ['name', { name: 'x'.repeat(256) }],
  ['name', { name: 'a'.repeat(24) }],
  ['name', { name: 'A'.repeat(24) }],
  ['headless', { headless: 'yes' }],
  ['stealth', { stealth: 1 }],
  ['kiosk_mode', { kiosk_mode: 'no' }],
  ['viewport.width', { viewport: { width: 99, height: 600 } }],
  ['viewport.height', { viewport: { width: 800 } }],
  ['memory', { memory: '3GiB' }],
  ['memory', { memory: '16GiB' }],
  ['region', { region: 'mars' }],
  ['region', { region: 'eu-west' }],
  ['start_url', { start_url: 'no url' }],
  ['start_url', { start_url: 'https://other.example/', network: { allowed_hosts: ['example.com'] } }],
  ['profile.name', { profile: { name: 'nonesuch' } }],
  ['profile.id', { profile: { id: newId() } }],
  ['profile.name', { profile: { id: newId(), name: 'both' } }],
  ['refresh_on_profile_update', { refresh_on_profile_update: true }],
  ['extensions.0.name', { extensions: [{ name: 'nonesuch' }] }],
  ['extensions.0', { extensions: [{}] }],
  ['proxy.name', { proxy: { name: 'nonesuch' } }],
  ['proxy_id', { proxy_id: newId() }],
  ['proxy_id', { proxy: { mode: 'direct' }, proxy_id: newId() }],
  ['network.allowed_hosts.0', { network: { allowed_hosts: ['http://example.com'] } }],
  ['network.proxy_routes.0.proxy.name', { network: { proxy_routes: [{ hosts: ['example.com'], proxy: { name: 'nonesuch' } }] } }],
  ['chrome_policy.ProxyMode', { chrome_policy: { ProxyMode: 'direct' } }],
  ['gpu', { gpu: true }],
  ['video_memory', { video_memory: '4GiB' }],
  ['telemetry.enabled', { telemetry: { enabled: false, browser: { console: {} } } }],
  ['location', { location: { timezone: 'Europe/Berlin' } }],
  ['vaults', { vaults: [{ name: 'a' }] }],
  ['other', { other: 1 }],
]

describe('what cannot be', () => {
  test.each(BAD)('%s: is refused by name in a create: %j', async (field, fields) => {
    const [status, message] = await refusal(await send({ size: 1, ...fields }))
    expect([status, message]).toEqual([400, expect.stringMatching(new RegExp(`(^|[ "'])${field.replaceAll('.', '\\.')}\\b`)) as string])
    expect(await list()).toEqual([])
  })

  test('the same is refused by name in an update, which changes nothing', async () => {
    const pool = await create({ size: 1, name: once('unchanged'), start_url: 'https://example.com/' })
    const before = (await get(pool.id)).browser_pool_config
    for (const [field, fields] of BAD) expect([field, await refusal(await change(pool.id, fields))]).toEqual([field, [400, expect.stringContaining(field)]])
    // An update is checked together with the existing configuration.
    expect(await refusal(await change(pool.id, { network: { allowed_hosts: ['other.example'] } }))).toEqual([400, expect.stringContaining('start_url')])
    expect(await get(pool.id)).toMatchObject({ name: pool.name, browser_pool_config: before })
  })

  test('a create needs a size; a name that another pool has is a conflict, in any case', async () => {
    expect(await refusal(await send({}))).toEqual([400, expect.stringContaining('size')])
    const name = once('Taken')
    const [one, two] = [await create({ size: 1, name }), await create({ size: 1 })]
    for (const taken of [name, name.toUpperCase()]) {
      expect(await refusal(await send({ size: 1, name: taken }))).toEqual([409, expect.stringContaining(taken)])
      expect((await change(two.id, { name: taken, timeout_seconds: 12 })).status).toBe(409)
    }
    expect(await get(two.id)).toMatchObject({ browser_pool_config: { timeout_seconds: 600 } })
    expect(await list()).toHaveLength(2)
    // A pool may take its own name in another case.
    expect((await update(one.id, { name: name.toLowerCase() })).name).toBe(name.toLowerCase())
    await remove(one.id)
    expect((await update(two.id, { name })).name).toBe(name)
  })
})

describe('an update', () => {
  test('keeps what it leaves out, and null is left out; an empty one and an empty name change nothing', async () => {
    const config = { size: 2, name: once('kept'), start_url: 'https://example.com/', chrome_policy: { A: 1 }, viewport: { width: 800, height: 600 } }
    const { id } = await create(config)
    const expected = { ...DEFAULTS, ...config }
    for (const nothing of [{}, { name: '' }, { start_url: null, size: null, network: null, profile: null }]) {
      const pool = await update(id, nothing)
      conforms('BrowserPool', pool)
      expect(pool.browser_pool_config).toEqual(expected)
    }
    expect((await json<typeof config & { name: string }>(await cloud.fetch(`/browser_pools/${id}`, { method: 'PATCH' }))).name).toBe(config.name)
    expect((await update(id, { headless: true, stealth: true, kiosk_mode: true, timeout_seconds: 20, fill_rate_per_minute: 0 })).browser_pool_config).toEqual({
      ...expected,
      headless: true,
      stealth: true,
      kiosk_mode: true,
      timeout_seconds: 20,
      fill_rate_per_minute: 0,
    })
  })

  test('clears by empty values', async () => {
    const [profileId, proxyId, extensionId] = [await profile(once('p')), await proxy(once('p')), await extension(once('e'))]
    const pool = await create({
      size: 1,
      profile: { id: profileId },
      proxy_id: proxyId,
      extensions: [{ id: extensionId }],
      start_url: 'https://example.com/',
      network: { allowed_hosts: ['example.com'] },
      chrome_policy: { A: false },
    })
    expect(pool).toMatchObject({ extension_ids: [extensionId], profile_id: profileId, browser_pool_config: { proxy_id: proxyId } })
    const steps: [object, string[]][] = [
      [{ proxy_id: '' }, ['proxy_id']],
      [{ start_url: '' }, ['start_url']],
      [{ extensions: [] }, ['extensions']],
      [{ chrome_policy: {} }, ['chrome_policy']],
      [{ network: {} }, ['network']],
      [{ profile: { id: '' } }, ['profile', 'refresh_on_profile_update']],
    ]
    let left: object = pool.browser_pool_config
    for (const [clears, names] of steps) {
      left = Object.fromEntries(Object.entries(left).filter(([name]) => !names.includes(name)))
      expect((await update(pool.id, clears)).browser_pool_config).toEqual(left)
    }
    const bare = await get(pool.id)
    expect(bare).toMatchObject({ extension_ids: [], browser_pool_config: { size: 1, ...DEFAULTS } })
    expect(bare).not.toHaveProperty('profile_id')
  })

  test('has one way out replace the other', async () => {
    const [name, other] = [once('proxy'), once('proxy')]
    const [, otherId] = [await proxy(name), await proxy(other)]
    const pool = await create({ size: 1, proxy: { name } })
    const byId = (await update(pool.id, { proxy_id: otherId })).browser_pool_config
    expect([byId.proxy_id, byId.proxy]).toEqual([otherId, undefined])
    const byMode = (await update(pool.id, { proxy: { mode: 'direct' } })).browser_pool_config
    expect([byMode.proxy_id, byMode.proxy]).toEqual([undefined, { mode: 'direct' }])
    await update(pool.id, { proxy: { name } })
    const none = (await update(pool.id, { proxy_id: '' })).browser_pool_config
    expect([none.proxy_id, none.proxy]).toEqual([undefined, undefined])
  })

  test('of the profile: another one is refreshed unless it is said; without one there is nothing to refresh', async () => {
    const [one, two] = [await profile(once('p')), await profile(once('p'))]
    const pool = await create({ size: 1, profile: { id: one }, refresh_on_profile_update: false })
    expect((await update(pool.id, { timeout_seconds: 12 })).browser_pool_config.refresh_on_profile_update).toBe(false)
    expect(await update(pool.id, { profile: { id: two } })).toMatchObject({ profile_id: two, browser_pool_config: { refresh_on_profile_update: true } })
    expect((await update(pool.id, { refresh_on_profile_update: false })).browser_pool_config.refresh_on_profile_update).toBe(false)
    expect((await update(pool.id, { profile: { id: one }, refresh_on_profile_update: false })).browser_pool_config.refresh_on_profile_update).toBe(false)
    const both = { profile: { id: '' }, refresh_on_profile_update: true }
    expect(await refusal(await change(pool.id, both))).toEqual([400, expect.stringContaining('refresh_on_profile_update')])
    await update(pool.id, { profile: { id: '' } })
    expect(await refusal(await change(pool.id, { refresh_on_profile_update: true }))).toEqual([400, expect.stringContaining('refresh_on_profile_update')])
  })

  test('of a network that is not the expected one is refused', async () => {
    const pool = await create({ size: 1, network: { allowed_hosts: ['a.example'] } })
    const stale = await change(pool.id, { network: { allowed_hosts: ['b.example'] }, expected_network: { allowed_hosts: ['c.example'] }, timeout_seconds: 12 })
    const body = (await stale.json()) as object
    conforms('ErrorModel', body)
    expect([stale.status, body]).toMatchObject([409, { code: 'stale_network' }])
    expect((await change(pool.id, { network: {}, expected_network: {} })).status).toBe(409)
    expect((await get(pool.id)).browser_pool_config).toMatchObject({ network: { allowed_hosts: ['a.example'] }, timeout_seconds: 600 })
    const next = { network: { allowed_hosts: ['b.example'], private_hosts: ['p.internal'] }, expected_network: { allowed_hosts: ['A.example'] } }
    expect((await update(pool.id, next)).browser_pool_config.network).toEqual(next.network)
    const last = { private_hosts: ['p.internal'], allowed_hosts: ['b.example'] }
    expect((await update(pool.id, { network: {}, expected_network: last })).browser_pool_config).not.toHaveProperty('network')
    expect((await change(pool.id, { network: { allowed_hosts: ['a.example'] }, expected_network: {} })).status).toBe(200)
  })
})

describe('pools', () => {
  test('are found by id, by name in any case, and by region; others are not there', async () => {
    const { id, name } = await create({ size: 1, name: once('Found me') })
    conforms('BrowserPool', await list(), true)
    expect([(await list('region=us-east')).length, await list('region=eu-west'), (await cloud.fetch('/browser_pools?region=mars')).status]).toEqual([
      1,
      [],
      400,
    ])
    for (const called of [id, name!, name!.toUpperCase()]) expect((await get(encodeURIComponent(called))).id).toBe(id)
    for (const unknown of [newId(), 'nonesuch'])
      expect(await refusal(await cloud.fetch(`/browser_pools/${unknown}`))).toEqual([404, expect.stringContaining(unknown)])
  })
})
