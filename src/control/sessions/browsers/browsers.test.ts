// The rules of sessions over real HTTP: create, find, list, change, end. Behaviour reference: the Browsers group of the contract.
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { dyingAgent } from '../../../../test/support/dying-agent.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { readConfig } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import { CreateBrowser } from './contract.ts'
import { placeOf } from './place.ts'

const cloud = fastCloud()

/** Larger than the screen of warm browsers, so that a new one is started for the caller. */
const LARGE = { width: 3840, height: 2160 }
let made = 0
const newName = (): string => `browser-${++made}`

/** The error of a call that must fail. */
async function refused(answer: Promise<Response>): Promise<{ status: number; code: string; message: string; named: string[]; retry: string | null }> {
  const response = await answer
  const body = (await response.json()) as { code: string; message: string; details?: { message: string }[] }
  conforms('ErrorModel', body)
  return {
    status: response.status,
    code: body.code,
    message: body.message,
    named: (body.details ?? []).map(({ message }) => message.split(':', 1)[0]!).toSorted(),
    retry: response.headers.get('x-should-retry'),
  }
}
const create = (body: unknown) => cloud.send('POST', '/browsers', body)
const patch = (session: Session, body: unknown) => cloud.send('PATCH', `/browsers/${session.session_id}`, body)
const get = async (idOrName: string, query = '') => (await (await cloud.fetch(`/browsers/${encodeURIComponent(idOrName)}${query}`)).json()) as Session
const end = async (idOrName: string, query = '') => (await cloud.fetch(`/browsers/${encodeURIComponent(idOrName)}${query}`, { method: 'DELETE' })).status
const list = async (query: string) => ((await (await cloud.fetch(`/browsers?${query}`)).json()) as Session[]).map(({ session_id }) => session_id)

describe('a created session', () => {
  test('without options has the documented defaults', async () => {
    const response = await cloud.fetch('/browsers', { method: 'POST' })
    expect(response.status).toBe(200)
    const session = (await response.json()) as Session
    conforms('BrowserCreateResponse', session)
    expect(session).toMatchObject({
      headless: false,
      stealth: false,
      kiosk_mode: false,
      timeout_seconds: 60,
      tags: {},
      viewport: { width: 1920, height: 1080 },
    })
    expect(session.session_id).toMatch(/^[a-z][a-z0-9]{23}$/)
    for (const absent of ['name', 'deleted_at', 'start_url', 'chrome_policy']) expect(session).not.toHaveProperty(absent)
  })

  test('returns its options in the answer and in later reads', async () => {
    const wanted = {
      name: newName(),
      tags: { team: 'a', 'with space': '' },
      headless: true,
      stealth: true,
      kiosk_mode: true,
      timeout_seconds: 259_200,
      viewport: { width: 800, height: 600, refresh_rate: 30 },
      start_url: 'https://example.com/?q=1#x',
      chrome_policy: { HomepageLocation: 'https://example.com' },
    }
    const session = await cloud.create(wanted)
    expect(session).toMatchObject(wanted)
    const { usage: _, ...found } = await get(session.session_id)
    const { usage: __, ...given } = session
    expect(found).toEqual(given)
  })

  test('has URLs with the address that the caller used, each with its own token', async () => {
    const [one, other] = [await cloud.create(), await cloud.create()]
    const token = (session: Session) => new URL(session.cdp_ws_url).searchParams.get('jwt')!
    expect(new URL(one.cdp_ws_url).host).toBe(new URL(cloud.url).host)
    expect([one.base_url, new URL(one.cdp_ws_url).protocol]).toEqual([`${cloud.url}/browser/session/${one.session_id}`, 'ws:'])
    expect(token(one)).not.toBe(token(other))
    // Clients read the session's host from the token.
    expect(JSON.parse(Buffer.from(token(one).split('.')[1]!, 'base64url').toString())).toMatchObject({ session: { fqdn: '127.0.0.1' } })
  })

  test.each([
    {
      given: 'a viewport without a rate',
      body: { viewport: { width: 640, height: 480 } },
      expected: { width: 640, height: 480, refresh_rate: expect.any(Number) as number },
    },
    { given: 'the smallest viewport', body: { viewport: { width: 100, height: 100 } }, expected: { width: 100, height: 100 } },
    { given: 'a viewport larger than warm browsers have', body: { viewport: LARGE }, expected: LARGE },
  ])('with $given has it', async ({ body, expected }) => {
    expect((await cloud.create(body)).viewport).toMatchObject(expected)
  })
})

describe('a create is refused, and the error names the field, for', () => {
  test.each([
    ['timeout_seconds', [9, 259_201, 60.5, '60', -1, 1e21]],
    ['name', ['', 'x'.repeat(256), 1, 'a\0b', newId(), newId().toUpperCase()]],
    ['tags', [[], 'a=b', { a: 1 }, { '': 'x' }, { a: 'x'.repeat(1025) }, Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 'v']))]],
    ['headless', ['true', 1]],
    [
      'viewport',
      [
        {},
        { width: 800 },
        { width: 99, height: 800 },
        { width: 800, height: 7681 },
        { width: 800.5, height: 600 },
        { width: 800, height: 600, refresh_rate: 0 },
        { width: 800, height: 600, depth: 24 },
        [800, 600],
      ],
    ],
    ['start_url', ['', 'example.com', 'javascript:alert(1)', 'JaVaScRiPt:alert(1)', '/relative', `https://example.com/${'x'.repeat(2048)}`]],
    ['invocation_id', ['', 1, 'abc', newId()]],
    ['region', ['us-west', 'moon']],
    ['memory', ['8GiB', '16GiB', '3GiB', 4]],
    ['unknown_option', [true]],
  ] as [string, unknown[]][])('an invalid %s', async (field, values) => {
    for (const value of values) {
      const { status, named } = await refused(create({ [field]: value }))
      expect([status, named.length > 0, named.every((name) => name === field || name.startsWith(`${field}.`))]).toEqual([400, true, true])
    }
  })

  test.each([
    ['gpu', true],
    ['location', { timezone: 'Europe/Berlin' }],
    ['vaults', [{ name: 'mine' }]],
    ['video_memory', '4GiB'],
  ])('%s, which is not built yet: it is never silently ignored', async (field, value) => {
    const { status, named, message } = await refused(create({ [field]: value }))
    expect([status, named]).toEqual([400, [field]])
    expect(message).toMatch(/not built/)
  })

  test('policies for extensions, proxy or automation, each named', async () => {
    const { status, named } = await refused(
      create({
        chrome_policy: {
          ExtensionInstallForcelist: [],
          ProxyMode: 'direct',
          RemoteDebuggingAllowed: false,
          DeveloperToolsAvailability: 2,
          HomepageLocation: 'https://example.com',
        },
      }),
    )
    expect([status, named]).toEqual([
      400,
      [
        'chrome_policy.DeveloperToolsAvailability',
        'chrome_policy.ExtensionInstallForcelist',
        'chrome_policy.ProxyMode',
        'chrome_policy.RemoteDebuggingAllowed',
      ],
    ])
  })

  test('policies of more than 5 MiB', async () => {
    expect(await refused(create({ chrome_policy: { URLBlocklist: ['x'.repeat(5 * 1024 * 1024)] } }))).toMatchObject({ status: 400, named: ['chrome_policy'] })
  })

  test('several wrong options, which are all named at once', async () => {
    expect((await refused(create({ timeout_seconds: 1, headless: 'no', gpu: true, viewport: { width: 1, height: 1 } }))).named).toEqual([
      'gpu',
      'headless',
      'timeout_seconds',
      'viewport.height',
      'viewport.width',
    ])
  })
})

describe('the name of a session', () => {
  test.each([
    ['a warm browser', {}],
    ['a browser started for it', { viewport: LARGE }],
  ])('is unique among live sessions: a second create with it, for %s, answers 409 and tells clients not to retry', async (_, wish) => {
    const name = newName()
    await cloud.create({ name })
    expect(await refused(create({ name, ...wish }))).toMatchObject({
      status: 409,
      code: 'conflict',
      retry: 'false',
      message: expect.stringContaining(name) as string,
    })
    expect((await list(`query=${name}`)).length).toBe(1)
  })

  test('is given to exactly one of many concurrent creates', async () => {
    const name = newName()
    const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => create({ name, ...(index % 2 === 0 && { viewport: LARGE }) })))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array.from({ length: 7 }, () => 409)])
  })

  test('finds its session like the id, with any characters', async () => {
    for (const name of ['with space', 'a/b', 'ü 🌽', '100%', 'q?x=1#y', '..a', 'a+b']) {
      const { session_id } = await cloud.create({ name })
      expect((await get(name)).session_id).toBe(session_id)
      expect(await end(name)).toBe(204)
    }
  })

  test('of another session is refused in an update', async () => {
    const [one, other] = [await cloud.create({ name: newName() }), await cloud.create()]
    expect(await refused(patch(other, { name: one.name }))).toMatchObject({ status: 409, retry: 'false' })
    expect((await get(other.session_id)).name).toBeUndefined()
    expect((await patch(one, { name: one.name })).status).toBe(200)
  })
})

describe('an update of a session', () => {
  test('keeps fields that it does not name, and answers with the updated session', async () => {
    const session = await cloud.create({ name: newName(), tags: { a: '1' } })
    for (const body of [undefined, {}, { tags: { a: '1' } }]) {
      const response = await patch(session, body)
      expect(response.status).toBe(200)
      const changed = (await response.json()) as Session
      conforms('BrowserUpdateResponse', changed)
      expect(changed).toMatchObject({ session_id: session.session_id, name: session.name, tags: { a: '1' }, viewport: session.viewport })
    }
  })

  test.each(['', null])('of the name to %j removes the name, and others can use it', async (name) => {
    const session = await cloud.create({ name: newName() })
    expect(await (await patch(session, { name })).json()).not.toHaveProperty('name')
    expect((await cloud.fetch(`/browsers/${session.name}`)).status).toBe(404)
    await cloud.create({ name: session.name })
  })

  test.each([{ telemetry: {} }, { proxy: { mode: 'direct' } }, { disable_default_proxy: true }, { location: null }, { proxy_id: '' }, { start_url: '' }, null])(
    'of an option that is not built, to its default value, changes nothing: %j',
    async (changes) => {
      expect((await patch(await cloud.create(), changes)).status).toBe(200)
    },
  )

  test.each([
    ['location', { timezone: 'UTC' }],
    ['proxy', { mode: 'direct', name: 'mine' }],
    ['start_url', 'javascript:alert(1)'],
    // These cannot be changed.
    ['timeout_seconds', 100],
    ['headless', true],
  ])('of %s is refused, and the error names it', async (field, value) => {
    expect((await refused(patch(await cloud.create(), { [field]: value }))).named).toEqual([field])
  })

  test('of the tags replaces all of them, and {} or null removes them', async () => {
    const session = await cloud.create({ tags: { a: '1', b: '2' } })
    const tags = async (wanted: unknown) => ((await (await patch(session, { tags: wanted })).json()) as Session).tags
    expect(await tags({ c: '3' })).toEqual({ c: '3' })
    expect(await tags({})).toEqual({})
    expect(await tags({ d: '4' })).toEqual({ d: '4' })
    expect(await tags(null)).toEqual({})
  })

  test("of the viewport is limited to the size that the session's screen can have", async () => {
    const [usual, large] = [await cloud.create(), await cloud.create({ viewport: LARGE })]
    expect((await refused(patch(usual, { viewport: { width: 2561, height: 1600 } }))).named).toEqual(['viewport.width'])
    expect((await refused(patch(usual, { viewport: { width: 2560, height: 1601 } }))).named).toEqual(['viewport.height'])
    expect((await get(usual.session_id)).viewport).toEqual(usual.viewport)
    expect((await patch(usual, { viewport: { width: 2560, height: 1600, force: true } })).status).toBe(200)
    expect((await patch(large, { viewport: { width: 1024, height: 768 } })).status).toBe(200)
    // The X server of that session still supports the full size after the viewport was made smaller.
    expect((await patch(large, { viewport: LARGE })).status).toBe(200)
  })

  test('of an ended or unknown session answers 404', async () => {
    const session = await cloud.create()
    await end(session.session_id)
    for (const id of [session.session_id, newId(), 'no-such-name'])
      expect(await refused(cloud.send('PATCH', `/browsers/${id}`, { name: newName() }))).toMatchObject({ status: 404, code: 'not_found' })
  })

  test.each([{ viewport: { width: 800, height: 600 } }, { start_url: 'about:blank' }])('to %j, of one that ends meanwhile, answers 404', async (body) => {
    const session = await cloud.create()
    await using agent = await dyingAgent(() => end(session.session_id))
    await cloud.query('update browsers set endpoint = $1 where id = $2', [JSON.stringify(agent.endpoint), session.session_id])
    expect(await refused(patch(session, body))).toMatchObject({ status: 404, code: 'not_found' })
  })
})

describe('deleting a session', () => {
  test('answers 204 to all concurrent callers, and ends the session once', async () => {
    const { session_id } = await cloud.create()
    const answers = await Promise.all(Array.from({ length: 6 }, () => end(session_id, '?wait=true')))
    expect(answers.every((status) => status === 204 || status === 404)).toBe(true)
    expect(answers).toContain(204)
    expect(
      (await cloud.query(`select state from browser_events where browser_id = $1 order by id`, [session_id])).map(({ state }) => state as string).slice(-2),
    ).toEqual(['stopping', 'deleted'])
  })

  test('keeps a record that include_deleted finds by id and by name, with the time of deletion', async () => {
    const session = await cloud.create({ name: newName(), tags: { a: '1' } })
    await end(session.session_id)
    expect((await cloud.fetch(`/browsers/${session.session_id}`)).status).toBe(404)
    for (const key of [session.session_id, session.name!]) {
      const dead = await get(key, '?include_deleted=true')
      conforms('BrowserRetrieveResponse', dead)
      expect(dead).toMatchObject({ session_id: session.session_id, name: session.name, tags: { a: '1' } })
      expect(Date.parse(dead.deleted_at!)).toBeGreaterThanOrEqual(Date.parse(session.created_at as string))
    }
  })

  test('stops its uptime', async () => {
    const { session_id } = await cloud.create()
    await end(session_id)
    const uptime = async () => ((await get(session_id, '?include_deleted=true')).usage as { uptime_ms: number }).uptime_ms
    expect(await uptime()).toBe(await uptime())
  })

  test('answers when it is out of use; with wait=true, when nothing is left of it, also when it was deleted before', async () => {
    const { session_id, name } = await cloud.create({ name: newName() })
    // Ending a fake browser takes no time, so the answer may already be 404.
    expect([await end(session_id), (await cloud.fetch(`/browsers/${session_id}`)).status]).toEqual([204, 404])
    expect([204, 404]).toContain(await end(session_id, '?wait=true'))
    expect((await cloud.query('select state from browsers where id = $1', [session_id]))[0]).toEqual({ state: 'deleted' })
    // The name is free at once.
    expect((await cloud.create({ name })).name).toBe(name)
    expect((await cloud.fetch(`/browsers/${session_id}?wait=perhaps`, { method: 'DELETE' })).status).toBe(400)
  })
})

describe('an unknown session', () => {
  test.each(['GET', 'DELETE'])('answers 404 to %s, by id and by name', async (method) => {
    for (const id of [newId(), 'no-such-name', 'x'.repeat(300)])
      expect(await refused(cloud.fetch(`/browsers/${id}`, { method }))).toMatchObject({ status: 404, code: 'not_found' })
  })

  test('is also the answer for a warm browser, which no caller owns', async () => {
    const [warm] = await cloud.query<{ id: string }>(`select id from browsers where state in ('warm', 'starting') and created_at is null`)
    if (warm)
      expect([(await cloud.fetch(`/browsers/${warm.id}`)).status, await end(warm.id), (await list('status=all&limit=100')).includes(warm.id)]).toEqual([
        404,
        404,
        false,
      ])
  })
})

describe('the options of a create', () => {
  test.each([
    { telemetry: null },
    { telemetry: {} },
    { telemetry: { enabled: false } },
    { telemetry: { enabled: false, browser: {} } },
    { extensions: [] },
    { proxy_id: '' },
    { proxy: { mode: 'direct' } },
    { proxy: { mode: 'default', id: null } },
    { profile: null },
    { profile: { id: '', save_changes: false } },
    { network: { allowed_hosts: null } },
    { vaults: [] },
    { gpu: false, video_memory: null },
    { region: 'us-east', memory: '4GiB' },
  ])('accept %j, which equals the default', async (option) => {
    expect((await create(option)).status).toBe(200)
  })

  test('accept null wherever they are optional', async () => {
    const names = Object.keys(CreateBrowser.shape)
    const session = await cloud.create({ ...Object.fromEntries(names.map((name) => [name, null])), viewport: { width: 300, height: 200, refresh_rate: null } })
    expect(session).toMatchObject({ headless: false, timeout_seconds: 60, viewport: { width: 300, height: 200 } })
  })
})

test('a session shows its region and its memory, and lists can be filtered by region', async () => {
  const { region, memory, session_id } = await cloud.create()
  expect([region, memory]).toEqual(['us-east', '2GiB'])
  expect((await cloud.create({ memory: '1GiB' })).memory).toBe('1GiB')
  expect(await list('region=us-east&limit=100')).toContain(session_id)
  expect(await list('region=eu-west')).toEqual([])
  expect((await cloud.fetch('/browsers?region=moon')).status).toBe(400)
})

test.each([
  [256, '1GiB'],
  [1024, '1GiB'],
  [4096, '2GiB'],
  [6144, '6GiB'],
  [65_536, '16GiB'],
])('an instance with %i MiB reports the memory %s, which every release of the SDKs knows', (mb, memory) => {
  expect(placeOf(readConfig({ COB_INSTANCE_MEMORY_MB: String(mb) })).memory).toBe(memory)
})
