// Proxies as callers see them: refused values, secrets, names, lists, deletion.
import { beforeAll, describe, expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { makeCertificates } from '../../../../test/support/upstreams.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { openDb } from '../../../store/db.ts'
import { purgeAll } from '../../service/system/purge.ts'
import type { Proxy } from './contract.ts'
import { deletedProxies } from './purge.ts'

const PROVIDED_PASSWORD = 'CANARY-provided'

let certificates: { ca: string; key: string; cert: string }
const cloud = fastCloud({
  COB_PROXY_ISP: `http://isp-[{country}]:${PROVIDED_PASSWORD}@192.0.2.1:8080`,
  COB_PROXY_RESIDENTIAL: `socks5://home-{country}[-city-{city}][-asn-{asn}]:${PROVIDED_PASSWORD}@192.0.2.2:1080`,
  COB_PROXY_MOBILE: `https://192.0.2.3`,
})
beforeAll(async () => {
  certificates = await makeCertificates()
})

const SERVER = { host: 'proxy.test', port: 8080 }
const custom = (config: object = {}, others: object = {}) => ({ type: 'custom', config: { ...SERVER, ...config }, ...others })

async function create(body: unknown): Promise<Proxy> {
  const response = await cloud.send('POST', '/proxies', body)
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Proxy
}

interface Refusal {
  status: number
  code: string
  message: string
  /** The fields that the error's details name. */
  named: string[]
}

async function refused(answer: Promise<Response>): Promise<Refusal> {
  const response = await answer
  const { code, message, details = [] } = (await response.json()) as { code: string; message: string; details?: { message: string }[] }
  return { status: response.status, code, message, named: details.map((detail) => detail.message.split(': ')[0]!) }
}

const get = async (path: string) => (await (await cloud.fetch(path)).json()) as Proxy
const list = async (query = '') => (await (await cloud.fetch(`/proxies?limit=100${query}`)).json()) as Proxy[]

describe('what is made', () => {
  test('shows all but its password and certificates; https when no protocol is given', async () => {
    const made = await create(
      custom({ username: 'kim', password: 'password', ca_bundle: certificates.ca }, { name: '  Berlin ', bypass_hosts: ['A.test', '*.B.test', 'a.test'] }),
    )
    expect(made).toEqual({
      id: made.id,
      type: 'custom',
      name: 'Berlin',
      protocol: 'https',
      config: { ...SERVER, username: 'kim', has_password: true, has_ca_bundle: true },
      bypass_hosts: ['a.test', '*.b.test'],
    })
    for (const called of [made.id, 'Berlin']) expect(await get(`/proxies/${called}`)).toEqual(made)
    expect((await create(custom({}, { protocol: 'http' }))).config).toEqual({ ...SERVER, has_password: false, has_ca_bundle: false })
  })

  test.each([
    ['a name', 'proxy-1.example.com'],
    ['a name without dots', 'squid'],
    ['IPv4', '192.0.2.7'],
    ['IPv6', '2001:db8::7'],
  ])('may have %s as its host', async (_, host) => {
    expect((await create(custom({ host }))).config.host).toBe(host)
  })

  test('is of another type where the operator provides one, with what may be chosen there', async () => {
    expect(await create({ type: 'isp' })).toMatchObject({ type: 'isp', protocol: 'http', config: { country: 'US' } })
    expect(await create({ type: 'isp', protocol: 'http', config: { country: 'DE' } })).toMatchObject({ config: { country: 'DE' } })
    // The published command line sends `https` by default.
    expect(await create({ type: 'isp', protocol: 'https' })).toMatchObject({ type: 'isp', protocol: 'http' })
    expect(await create({ type: 'residential', config: { country: 'US', city: 'sanfrancisco' } })).toMatchObject({
      protocol: 'socks5',
      config: { country: 'US', city: 'sanfrancisco' },
    })
    expect(await create({ type: 'mobile' })).toMatchObject({ protocol: 'https', config: {} })
  })
})

describe('refused, each by its field', () => {
  test.each([
    [['type'], {}],
    [['type'], { type: 'tor', config: SERVER }],
    [['config'], { type: 'custom' }],
    [['config.host', 'config.port'], { type: 'custom', config: {} }],
    [['extra'], custom({}, { extra: 1 })],
    [['config.country'], custom({ country: 'US' })],
    [['config.port'], custom({ port: 0 })],
    [['config.port'], custom({ port: 65_536 })],
    [['config.password'], custom({ username: 'kim', password: '1234' })],
    [['config.username'], custom({ username: 'a:b' })],
    [['config.username'], custom({ username: 'a\r\nx' })],
    [['config.password'], custom({ username: 'kim' }, { protocol: 'socks5' })],
    [['config.username'], custom({ password: 'password' }, { protocol: 'socks5' })],
    [['config.password'], custom({ username: 'kim', password: 'ü'.repeat(200) }, { protocol: 'socks5' })],
    [['protocol'], custom({}, { protocol: 'socks4' })],
    [['name'], custom({}, { name: '   ' })],
    [['name'], custom({}, { name: 'x'.repeat(256) })],
    [['name'], custom({}, { name: 'a\nb' })],
    [['name'], custom({}, { name: 'htzv5orfit78e1m2biiifpbv' })],
    [['bypass_hosts'], custom({}, { bypass_hosts: Array.from({ length: 101 }, (_, i) => `h${i}.test`) })],
    [['config.ca_bundle'], custom({ ca_bundle: 'x'.repeat(64 * 1024 + 1) })],
    [['config.ca_bundle'], custom({ ca_bundle: '' })],
    [['config.ca_bundle'], custom({ ca_bundle: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----' })],
    [['type'], { type: 'datacenter' }],
    [['protocol'], { type: 'isp', protocol: 'socks5' }],
    [['config.country'], { type: 'isp', config: { country: 'Germany' } }],
    [['config.city'], { type: 'isp', config: { city: 'x' } }],
    [['config.country'], { type: 'residential' }],
    [['config.country'], { type: 'residential', config: { city: 'x' } }],
    [['config.state'], { type: 'residential', config: { country: 'US', state: 'CA' } }],
    [['config.city'], { type: 'residential', config: { country: 'US', city: 'san francisco' } }],
    [['config.city'], { type: 'residential', config: { country: 'US', city: 'x-session-1' } }],
    [['config.zip'], { type: 'residential', config: { zip: '1234' } }],
    [['config.zip'], { type: 'residential', config: { zip: '10001', country: 'DE' } }],
    [['config.zip'], { type: 'residential', config: { zip: '10001', state: 'NY' } }],
    [['config.asn'], { type: 'residential', config: { country: 'US', city: 'x', asn: '1' } }],
    [['config.asn'], { type: 'residential', config: { country: 'US', asn: 'x' } }],
    [['config.country'], { type: 'mobile', config: { state: 'NY' } }],
    [['config.country'], { type: 'mobile', config: { country: 'US' } }],
  ])('%j: %j', async (fields, body) => {
    expect(await refused(cloud.send('POST', '/proxies', body))).toMatchObject({ status: 400, named: fields })
  })

  test.each(['127.0.0.1', '::1', '::ffff:127.0.0.1', '0.0.0.0', '169.254.169.254', 'fd00:ec2::254', '224.0.0.1'])(
    'the address %s, which callers may not reach from here',
    async (host) => {
      expect(await refused(cloud.send('POST', '/proxies', custom({ host })))).toMatchObject({ status: 400, named: ['config.host'] })
    },
  )

  test.each([
    '',
    'http://proxy.test',
    'proxy.test:80',
    'proxy.test/x',
    'a b',
    '-a.test',
    'a..test',
    'x'.repeat(254),
    '1.2.3',
    '0x7f.1',
    '999.1.1.1',
    '[::1]',
    'user@proxy.test',
  ])('the host %j', async (host) => {
    expect(await refused(cloud.send('POST', '/proxies', custom({ host })))).toMatchObject({ status: 400, named: ['config.host'] })
  })

  test.each(['', '*', '*.', '*.*.test', 'a.*.test', 'http://a.test', 'a.test:80', 'a.test/x', '10.0.0.1', '*.10.0.0.1', '::1', 'a.test.', 'x'.repeat(254), 5])(
    'the host to bypass %j',
    async (host) => {
      expect(await refused(cloud.send('POST', '/proxies', custom({}, { bypass_hosts: ['fine.test', host] })))).toMatchObject({
        status: 400,
        named: ['bypass_hosts.1'],
      })
    },
  )

  test('a key, or a certificate of nobody who signs others, beside certificates', async () => {
    for (const [pem, problem] of [
      [certificates.ca + certificates.key, /certificates only/],
      [certificates.ca + certificates.cert, /the 2nd\) that is not one of an authority/],
    ] as const) {
      const { named, message } = await refused(cloud.send('POST', '/proxies', custom({ ca_bundle: pem })))
      expect([named, problem.test(message)]).toEqual([['config.ca_bundle'], true])
    }
  })
})

test('passwords, user names and certificates are in no row as plain text, and passwords in no answer or log', async () => {
  const secrets = { username: 'CANARY-username', password: 'CANARY-password', ca_bundle: `CANARY-comment\n${certificates.ca}` }
  const made = await create(custom(secrets))
  const said = [made, await get(`/proxies/${made.id}`), await list(), await (await cloud.send('PATCH', `/proxies/${made.id}`, { name: 'x' })).json()]
  said.push(
    await (await cloud.send('POST', '/proxies', custom({ ...secrets, port: 0 }))).json(),
    await (await cloud.send('POST', `/proxies/${made.id}/check`, {})).json(),
  )
  const text = JSON.stringify(said)
  expect(text).toContain(secrets.username)
  for (const canary of ['CANARY-password', 'CANARY-comment', 'BEGIN CERT', PROVIDED_PASSWORD]) expect(text).not.toContain(canary)
  const rows = await cloud.query<{ row: string; secrets: Buffer }>('select proxies::text as row, secrets from proxies')
  expect(rows.some(({ row, secrets: sealed }) => /CANARY|BEGIN CERT/.test(row) || /CANARY|BEGIN CERT/.test(String(sealed)))).toBe(false)
  expect(JSON.stringify(await cloud.query('select audit_log::text from audit_log'))).not.toContain('CANARY')
  expect(JSON.stringify(cloud.errors)).not.toContain('CANARY')
})

test('names are not unique: an id wins, and a name of several is refused', async () => {
  const [first, second] = [await create(custom({}, { name: 'twice' })), await create(custom({}, { name: 'other' }))]
  expect((await get('/proxies/twice')).id).toBe(first.id)
  const renamed = await cloud.send('PATCH', `/proxies/${second.id}`, { name: ' twice ' })
  expect(await renamed.json()).toEqual({ ...second, name: 'twice' })
  for (const [method, path] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/check'],
  ] as const)
    expect(
      await refused(
        cloud.fetch(`/proxies/twice${path}`, {
          method,
          ...(method !== 'GET' && { headers: { 'content-type': 'application/json' }, body: '{"name":"x"}'.slice(0, method === 'PATCH' ? undefined : 0) }),
        }),
      ),
    ).toMatchObject({
      status: 400,
      code: 'ambiguous_proxy_name',
    })
  expect((await get(`/proxies/${first.id}`)).id).toBe(first.id)
  expect((await cloud.fetch('/proxies/TWICE')).status).toBe(404)
  expect((await refused(cloud.send('PATCH', `/proxies/${first.id}`, { name: '' }))).named).toEqual(['name'])
  expect((await refused(cloud.send('PATCH', `/proxies/${first.id}`, { name: 'a', config: {} }))).named).toEqual(['config'])
})

test('lists find names without case and accents', async () => {
  const names = ['Zürich 1', 'zurich 1', 'Zürich 2']
  const ids = [] as string[]
  for (const name of names) ids.push((await create(custom({}, { name }))).id)
  const idsOf = async (query: string) => (await list(query)).map(({ id }) => id)
  expect(await idsOf('&query=rich')).toEqual(ids.toReversed())
  expect(await idsOf(`&name=${encodeURIComponent('ZÜRICH 1')}`)).toEqual([ids[1], ids[0]])
})

async function purge(): Promise<void> {
  await using db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  await purgeAll([deletedProxies(db, 30)], silentLog, new AbortController().signal)
}

test('a deleted one is gone for callers; its password goes when no session uses it, its row later', async () => {
  const [idle, used] = [await create(custom({ username: 'kim', password: 'password' })), await create(custom({ username: 'kim', password: 'password' }))]
  const { session_id } = await cloud.create({ timeout_seconds: 3600 })
  await cloud.query(`update browsers set options = options || jsonb_build_object('proxy_id', $1::text) where id = $2`, [used.id, session_id])
  expect(
    ((await (await cloud.fetch(`/browsers?query=${used.id}`)).json()) as { session_id: string; proxy_id: string; proxy: object }[]).map((one) => [
      one.session_id,
      one.proxy_id,
      one.proxy,
    ]),
  ).toEqual([[session_id, used.id, { id: used.id }]])
  for (const { id } of [idle, used]) expect((await cloud.fetch(`/proxies/${id}`, { method: 'DELETE' })).status).toBe(204)
  for (const { id } of [idle, used])
    for (const answer of [
      cloud.fetch(`/proxies/${id}`),
      cloud.fetch(`/proxies/${id}`, { method: 'DELETE' }),
      cloud.send('PATCH', `/proxies/${id}`, { name: 'x' }),
      cloud.send('POST', `/proxies/${id}/check`, {}),
    ])
      expect(await refused(answer)).toMatchObject({ status: 404, code: 'not_found' })
  expect((await list()).filter(({ id }) => [idle.id, used.id].includes(id))).toEqual([])
  const hasSecrets = async () =>
    Object.fromEntries(
      (await cloud.query<{ id: string; has: boolean }>('select id, secrets is not null as has from proxies where deleted_at is not null')).map(
        ({ id, has }) => [id, has],
      ),
    )
  expect(await hasSecrets()).toEqual({ [idle.id]: false, [used.id]: true })
  await cloud.query(`update proxies set deleted_at = now() - interval '31 days' where deleted_at is not null`)
  await purge()
  expect(await hasSecrets()).toEqual({ [used.id]: true })
  expect((await cloud.fetch(`/browsers/${session_id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
  await purge()
  expect(await hasSecrets()).toEqual({})
})

test('one that a session has for certain hosts keeps its password as long', async () => {
  const made = await create(custom({ username: 'kim', password: 'password' }))
  const { session_id } = await cloud.create({ timeout_seconds: 3600 })
  const network = {
    proxy_routes: [
      { hosts: ['b.test'], proxy: { id: 'another' } },
      { hosts: ['a.test'], proxy: { id: made.id } },
    ],
  }
  await cloud.query(`update browsers set options = options || jsonb_build_object('network', $1::jsonb) where id = $2`, [JSON.stringify(network), session_id])
  expect((await cloud.fetch(`/proxies/${made.id}`, { method: 'DELETE' })).status).toBe(204)
  const has = async () => (await cloud.query<{ has: boolean }>('select secrets is not null as has from proxies where id = $1', [made.id]))[0]!.has
  expect(await has()).toBe(true)
  expect((await cloud.fetch(`/browsers/${session_id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
  await purge()
  expect(await has()).toBe(false)
})

test('one whose login cannot be read any more is shown without it, and a check says why', async () => {
  const { id } = await create(custom({ username: 'kim', password: 'password' }))
  const other = await create(custom({ username: 'other', password: 'password' }))
  await cloud.query('update proxies set secrets = (select secrets from proxies where id = $1) where id = $2', [other.id, id])
  expect((await get(`/proxies/${id}`)).config).toEqual({ ...SERVER, has_password: true, has_ca_bundle: false })
  expect(await (await cloud.send('POST', `/proxies/${id}/check`, {})).json()).toMatchObject({
    status: 'unavailable',
    status_reason: expect.stringContaining('COB_SECRET_KEY'),
  })
})

describe('the options of a browser', () => {
  const options = (proxy: Proxy) => [{ proxy_id: proxy.id }, { proxy: { id: proxy.id } }, { proxy: { name: proxy.name } }]

  test('name a proxy that exists, in a create and an update, and show it', async () => {
    const proxy = await create(custom({}, { name: newId().slice(1) }))
    const { session_id } = await cloud.create()
    for (const option of options(proxy)) {
      const shown = { proxy_id: proxy.id, proxy: { id: proxy.id } }
      expect(await cloud.create(option)).toMatchObject(shown)
      for (const none of [{ proxy_id: '' }, { proxy: { mode: 'direct' } }]) {
        for (const same of [option, { disable_default_proxy: true }, {}])
          expect(await (await cloud.send('PATCH', `/browsers/${session_id}`, same)).json()).toMatchObject(shown)
        const after = (await (await cloud.send('PATCH', `/browsers/${session_id}`, none)).json()) as object
        expect([Object.hasOwn(after, 'proxy_id'), Object.hasOwn(after, 'proxy')]).toEqual([false, false])
      }
    }
  })

  test.each([
    [['proxy_id'], { proxy_id: 'abc' }],
    [['proxy_id'], { proxy_id: newId() }],
    [['proxy.id'], { proxy: { id: newId() } }],
    [['proxy.name'], { proxy: { name: 'nobody' } }],
    [['proxy.id'], { proxy: { id: '' } }],
    [['proxy'], { proxy: {} }],
    [['proxy'], { proxy: { id: 'a', name: 'b' } }],
    [['proxy'], { proxy: { mode: 'direct', name: 'b' } }],
    [['proxy.mode'], { proxy: { mode: 'tor' } }],
    [['proxy'], { proxy: { mode: 'direct' }, proxy_id: 'a' }],
  ])('%j is refused: %j', async (fields, option) => {
    expect(await refused(cloud.send('POST', '/browsers', option))).toMatchObject({ status: 400, named: fields })
    expect(await refused(cloud.send('PATCH', `/browsers/${(await cloud.create()).session_id}`, option))).toMatchObject({ status: 400, named: fields })
  })

  test('of which an update takes one', async () => {
    const patch = async (option: object) => refused(cloud.send('PATCH', `/browsers/${(await cloud.create()).session_id}`, option))
    expect(await patch({ proxy: { mode: 'direct' }, disable_default_proxy: true })).toMatchObject({ status: 400, named: ['proxy'] })
    expect(await patch({ proxy_id: newId(), disable_default_proxy: true })).toMatchObject({ status: 400, named: ['disable_default_proxy'] })
  })

  test('cannot name a proxy by a name that several have', async () => {
    for (let i = 0; i < 2; i++) await create(custom({}, { name: 'two of them' }))
    expect(await refused(cloud.send('POST', '/browsers', { proxy: { name: 'two of them' } }))).toMatchObject({ status: 400, code: 'ambiguous_proxy_name' })
  })
})
