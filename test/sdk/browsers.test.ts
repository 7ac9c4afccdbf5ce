// The published SDK with a running service: sessions from create to delete. Every answer is checked against the contract.
import { DEFAULT_PROJECT } from '../../src/control/access/projects/resolve.ts'
import Kernel, { ConflictError, NotFoundError } from '@onkernel/sdk'
import { beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'

/** A timeout takes effect within 5 s. The rest is a margin for a busy machine. */
const ENDS_MS = 5_000 + 10_000

const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '1' }, { isFirst: true }))
beforeAll(async () => {
  await cloud.warm()
})

/** Every page that the SDK can read, as one array. */
const all = async <T>(pages: AsyncIterable<T>): Promise<T[]> => {
  const items: T[] = []
  for await (const item of pages) items.push(item)
  return items
}

describe('sessions', () => {
  test('have everything the SDK promises, can be found by id and name, changed, and deleted once', async () => {
    const { client } = cloud
    const made = await client.browsers.create({
      name: 'First One',
      tags: { team: 'a', run: '7' },
      timeout_seconds: 300,
      stealth: true,
      viewport: { width: 1280, height: 800 },
    })
    conforms('BrowserCreateResponse', made)
    expect(made).toMatchObject({
      name: 'First One',
      tags: { team: 'a', run: '7' },
      timeout_seconds: 300,
      stealth: true,
      headless: false,
      viewport: { width: 1280, height: 800 },
    })
    expect(made.session_id).toMatch(/^[a-z][a-z0-9]{23}$/)

    const byName = await client.browsers.retrieve('first one')
    conforms('BrowserRetrieveResponse', byName)
    expect(byName.session_id).toBe(made.session_id)
    expect(byName.cdp_ws_url).toBe(made.cdp_ws_url)

    const changed = await client.browsers.update(made.session_id, { name: '', tags: { only: 'this' }, viewport: { width: 1024, height: 768 } })
    conforms('BrowserUpdateResponse', changed)
    expect(changed.name).toBeUndefined()
    expect(changed.tags).toEqual({ only: 'this' })
    expect(changed.viewport).toMatchObject({ width: 1024, height: 768 })

    await client.browsers.deleteByID(made.session_id)
    await expect(client.browsers.retrieve(made.session_id)).rejects.toBeInstanceOf(NotFoundError)
    await expect(client.browsers.deleteByID(made.session_id)).rejects.toBeInstanceOf(NotFoundError)
    const dead = await client.browsers.retrieve(made.session_id, { include_deleted: true })
    conforms('BrowserRetrieveResponse', dead)
    expect(dead.deleted_at).toBeTruthy()
  })

  test('have a name only as long as they live, and a conflict causes one request', async () => {
    const { client } = cloud
    const made = await client.browsers.create({ name: 'taken' })
    let requests = 0
    const counting: typeof fetch = (input, init) => {
      requests++
      return fetch(input, init)
    }
    const patient = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, maxRetries: 2, fetch: counting })
    await expect(patient.browsers.create({ name: 'TAKEN' })).rejects.toBeInstanceOf(ConflictError)
    expect(requests).toBe(1)
    expect((await cloud.query(`select 1 from browsers where state = 'starting' and name is not null`)).length).toBe(0)
    await client.browsers.deleteByID('taken')
    const again = await client.browsers.create({ name: 'taken' })
    expect(again.session_id).not.toBe(made.session_id)
    await client.browsers.deleteByID(again.session_id)
  })

  test('can be listed page by page, and filtered by tags, name and status', async () => {
    const { client } = cloud
    const made = [] as string[]
    for (let i = 0; i < 3; i++) made.push((await client.browsers.create({ tags: { batch: 'x', n: String(i) }, name: `listed-${i}` })).session_id)
    const listed = await all(client.browsers.list({ limit: 1, tags: { batch: 'x' } }))
    conforms('BrowserListResponse', listed, true)
    expect(listed.map(({ session_id }) => session_id)).toEqual(made.toReversed())
    expect((await all(client.browsers.list({ query: 'LISTED-1' }))).map(({ name }) => name)).toEqual(['listed-1'])
    expect((await all(client.browsers.list({ tags: { batch: 'x', n: '2' } }))).length).toBe(1)
    for (const id of made) await client.browsers.deleteByID(id)
    expect((await all(client.browsers.list({ tags: { batch: 'x' } }))).length).toBe(0)
    expect((await all(client.browsers.list({ tags: { batch: 'x' }, status: 'deleted' }))).length).toBe(3)
    expect((await all(client.browsers.list({ tags: { batch: 'x' }, include_deleted: true }))).length).toBe(3)
  })

  test.each([
    ['profile.name', { profile: { name: 'no-such' } }],
    ['proxy_id', { proxy_id: 'p' }],
    ['extensions', { extensions: [{ name: 'e' }] }],
    ['invocation_id', { invocation_id: 'i' }],
    ['telemetry.enabled', { telemetry: { enabled: false, browser: { console: { enabled: true } } } }],
    ['gpu', { gpu: true }],
    ['viewport.width', { viewport: { width: 0, height: 700 } }],
    ['timeout_seconds', { timeout_seconds: 5 }],
    ['start_url', { start_url: 'not a url' }],
    ['chrome_policy.ExtensionSettings', { chrome_policy: { ExtensionSettings: {} } }],
    ['nonsense', { nonsense: 1 } as object],
  ])('with an option that is not available are refused with its name, and nothing is created: %s', async (field, options) => {
    const before = (await cloud.query('select count(*) from browsers where created_at is not null'))[0]
    await expect(cloud.client.browsers.create(options)).rejects.toMatchObject({
      status: 400,
      error: { code: 'bad_request', details: [{ code: 'invalid_input', message: expect.stringContaining(field) }] },
    })
    expect((await cloud.query('select count(*) from browsers where created_at is not null'))[0]).toEqual(before)
  })

  test('take a policy of almost 5 MiB; a large one is not returned, and a list of them stays small', async () => {
    const { browsers } = cloud.client
    const small = { BookmarkBarEnabled: true }
    const made = await browsers.create({ chrome_policy: { URLBlocklist: ['closed.test'], Padding: 'x'.repeat(5 * 1024 * 1024 - 100) }, timeout_seconds: 60 })
    try {
      const { result } = await browsers.playwright.execute(made.session_id, { code: `return await page.goto('http://closed.test/').catch(String)` })
      expect(result).toContain('ERR_BLOCKED_BY_ADMINISTRATOR')
      expect(made).not.toHaveProperty('chrome_policy')
    } finally {
      await browsers.deleteByID(made.session_id)
    }
    const other = await browsers.create({ chrome_policy: small, timeout_seconds: 60 })
    expect(other.chrome_policy).toEqual(small)
    await browsers.deleteByID(other.session_id)
    const listed = await (await cloud.fetch('/browsers?status=all&limit=100')).text()
    expect(listed.length).toBeLessThan(1024 * 1024)
    expect(listed).toContain(made.session_id)
  })

  test('end within 5 s of their timeout when idle, but not while they are used', async () => {
    const { client } = cloud
    const idle = await client.browsers.create({ timeout_seconds: 10 })
    const used = await client.browsers.create({ timeout_seconds: 10 })
    const socket = new WebSocket(used.cdp_ws_url)
    await new Promise((resolve) => socket.addEventListener('open', resolve))
    // Longer than two checks for idle sessions, so that the calls above are recorded as uses.
    await sleep(2_200)
    await cloud.query(`update browsers set last_active_at = now() - interval '9 seconds' where id = any($1)`, [[idle.session_id, used.session_id]])
    // The used session now has the same time until its end.
    await sleep(6_000)
    await until('the end of the idle one', ENDS_MS, async () => (await cloud.fetch(`/browsers/${idle.session_id}`)).status === 404, { everyMs: 100 })
    await expect(client.browsers.retrieve(idle.session_id)).rejects.toBeInstanceOf(NotFoundError)
    expect((await client.browsers.retrieve(used.session_id)).session_id).toBe(used.session_id)
    expect((await cloud.query('select end_reason from browsers where id = $1', [idle.session_id]))[0]).toEqual({ end_reason: 'timeout' })
    const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener('close', resolve))
    await client.browsers.deleteByID(used.session_id)
    expect(await closed).toMatchObject({ code: 4001, reason: '{"reason":"deleted"}' })
  })

  test('get tool calls directly at base_url with the session token alone', async () => {
    const made = await cloud.client.browsers.create()
    const jwt = new URL(made.cdp_ws_url).searchParams.get('jwt')
    const shot = await fetch(`${made.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' })
    expect(shot.status).toBe(200)
    const other = await cloud.client.browsers.create()
    expect((await fetch(`${other.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' })).status).toBe(401)
    expect((await fetch(`${made.base_url}/computer/screenshot`, { method: 'POST' })).status).toBe(401)
    await cloud.client.browsers.deleteByID(made.session_id)
    expect((await fetch(`${made.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' })).status).toBe(404)
    await cloud.client.browsers.deleteByID(other.session_id)
  })
})

describe('deployments', () => {
  test('can be read in each of their states, and an unknown one answers 404', async () => {
    for (const state of ['queued', 'in_progress', 'running', 'failed', 'stopped']) {
      const id = `dep${state.replace('_', '')}`.padEnd(24, '0')
      await cloud.query(
        `insert into deployments (id, project_id, state, region, env_keys) values ($1, '${DEFAULT_PROJECT}', $2, 'aws.us-east-1a', '["TOKEN"]')`,
        [id, state],
      )
      const found = await cloud.client.deployments.retrieve(id)
      conforms('DeploymentRetrieveResponse', found)
      expect(found).toMatchObject({ id, status: state, env_vars: { TOKEN: '' } })
    }
    await expect(cloud.client.deployments.retrieve('nope')).rejects.toMatchObject({ status: 404, error: { code: 'not_found' } })
  })
})
