// Giving a browser of a pool back: what is restored for the next caller, and which credentials and connections end.
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import type { Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { sleep, until } from '../../../base/wait.ts'
import { acquire, clipboard, cloud, FILL_MS, filled, giveBack, idle, json, release, relayed, settled, usePools } from './pools.suite.ts'

const relay = relayed()
usePools({ COB_MAX_BROWSERS: '20' }, relay.drive)

const patch = (session: Session, body: object) => cloud.send('PATCH', `/browsers/${session.session_id}`, body)
const proxyOf = async (): Promise<string> => {
  const body = { type: 'custom', name: `x-${newId()}`, protocol: 'http', config: { host: '93.184.215.14', port: 9 } }
  return (await json<{ id: string }>(await cloud.send('POST', '/proxies', body), 201)).id
}
const profileOf = async (name: string): Promise<void> => void (await json(await cloud.send('POST', '/profiles', { name }), 201))
/** The settings that a browser was fitted to, oldest first. */
const fits = (id: string): Record<string, unknown>[] =>
  relay.calls.filter((call) => call.id === id && call.path === '/session/fit').map(({ body }) => JSON.parse(body) as Record<string, unknown>)
/** The present settings of a browser. */
const fitted = (id: string): Record<string, unknown> => Object.assign({}, ...fits(id)) as Record<string, unknown>
/** The width of its screen. */
const width = async ({ session_id: id }: Session): Promise<number> =>
  Buffer.from(await (await cloud.fetch(`/browsers/${id}/computer/screenshot`, { method: 'POST' })).arrayBuffer()).readUInt32BE(16)
const fast = { fill_rate_per_minute: 6000 }

describe('a browser that is given back', () => {
  test('twice, or by two at once, is given back once; with a body that cannot be it stays', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    for (const body of [{}, { session_id: '' }, { session_id: 1 }, { session_id: mine.session_id, reuse: 'no' }, { session_id: mine.session_id, other: 1 }])
      expect([body, (await cloud.send('POST', `/browser_pools/${pool.id}/release`, body)).status]).toEqual([body, 400])
    await settled(pool.id, 1, 0)
    const answers = await Promise.all([giveBack(pool.id, mine.session_id), giveBack(pool.id, mine.session_id)])
    expect([...answers, await giveBack(pool.id, mine.session_id), await giveBack(pool.id, mine.session_id, false)].map(({ status }) => status)).toEqual([
      204, 204, 204, 204,
    ])
    expect(await idle(pool.id)).toEqual([mine.session_id])
    expect((await acquire(pool.id)).session_id).toBe(mine.session_id)
  })

  test('has the proxy, network, viewport and options of its pool again, and its timeout only while a caller has it', async () => {
    const [own, other] = [await proxyOf(), await proxyOf()]
    const network = { allowed_hosts: ['pool.example'] }
    const viewport = { width: 800, height: 600, refresh_rate: 60 }
    const pool = await filled({ size: 1, viewport, network, proxy_id: own, start_url: 'https://pool.example/', timeout_seconds: 77 })
    const mine = await acquire(pool.id, { name: 'mine', tags: { a: 'b' } })
    const id = mine.session_id
    const before = { viewport, network: { ...network, allowlist_state: expect.any(Object) as object }, proxy_id: own, start_url: 'https://pool.example/' }
    expect(mine).toMatchObject(before)
    await until('its timeout', FILL_MS, () => fitted(id).timeout_seconds === 77)
    const begun = fits(id).length
    await json(
      await patch(mine, {
        viewport: { width: 640, height: 480 },
        proxy_id: other,
        network: { allowed_hosts: ['other.example'] },
        name: 'else',
        tags: { c: 'd' },
      }),
    )
    expect(fitted(id)).toMatchObject({ viewport: { width: 640, height: 480 } })
    await release(pool.id, mine)
    const [last] = fits(id).slice(-1)
    expect(fits(id).length).toBeGreaterThan(begun)
    expect(last).toMatchObject({ viewport, proxy: { on: true }, timeout_seconds: 0 })
    const [row] = await cloud.query<{ options: object; name: null; tags: object }>('select options, name, tags from browsers where id = $1', [id])
    expect(row).toMatchObject({ name: null, tags: {}, options: { proxy_id: own, network, viewport } })
    const next = await acquire(pool.id)
    expect(next).toMatchObject({ ...before, session_id: id, tags: {} })
    expect(next).not.toHaveProperty('name')
  })

  test('that has changed nothing is told nothing but its timeout, and to release what is down', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    await until('its timeout', FILL_MS, () => fitted(mine.session_id).timeout_seconds === 600)
    const begun = fits(mine.session_id).length
    await release(pool.id, mine)
    expect(fits(mine.session_id).slice(begun)).toEqual([{ timeout_seconds: 0, let_go: true }])
  })

  test('with a profile that its caller has attached ends, and the profile is saved', async () => {
    const name = `p-${newId()}`
    await profileOf(name)
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    await json(await patch(mine, { profile: { name, save_changes: true } }))
    await clipboard.write(mine, 'a cookie')
    await release(pool.id, mine)
    expect((await cloud.fetch(`/browsers/${mine.session_id}`)).status).toBe(404)
    const saved = await acquire(pool.id, { profile: { name } })
    expect([saved.session_id === mine.session_id, await clipboard.read(saved)]).toEqual([false, 'a cookie'])
  })

  test('and cannot be put back is replaced', async () => {
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    await json(await patch(mine, { viewport: { width: 640, height: 480 } }))
    relay.before = ({ id, path }) => {
      if (id === mine.session_id && path === '/session/fit') throw new Error('held up')
    }
    await release(pool.id, mine)
    relay.before = () => {}
    expect((await acquire(pool.id)).session_id).not.toBe(mine.session_id)
  })

  test('is not among the sessions while nobody has it', async () => {
    const pool = await filled({ size: 1, name: `Shown-${newId()}` })
    const never = await idle(pool.id)
    const mine = await acquire(pool.id)
    const sessions = async (query = '') => (await json<Session[]>(await cloud.fetch(`/browsers?${query}`))).map(({ session_id: id }) => id)
    for (const query of ['', 'status=all', `query=${pool.id}`, `query=${pool.name!.slice(0, 9).toLowerCase()}`])
      expect(await sessions(query)).toContain(mine.session_id)
    expect(await sessions('query=nonesuch')).toEqual([])
    await release(pool.id, mine)
    expect(never).toEqual([mine.session_id])
    for (const query of ['', 'status=all', 'status=deleted', `query=${pool.id}`]) expect(await sessions(query)).not.toContain(mine.session_id)
    for (const query of ['', '?include_deleted=true']) expect((await cloud.fetch(`/browsers/${mine.session_id}${query}`)).status).toBe(404)
    expect((await patch(mine, { name: 'mine' })).status).toBe(404)
    expect((await cloud.fetch(`/browsers/${mine.session_id}`, { method: 'DELETE' })).status).toBe(404)
    expect((await cloud.fetch(`/browsers/${mine.session_id}/computer/screenshot`, { method: 'POST' })).status).toBe(404)
    await settled(pool.id, 0, 1)
  })
})

describe('at the moment of a release', () => {
  test('an update under way does not reach the next caller: a viewport', async () => {
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    const reached = Promise.withResolvers<void>()
    relay.before = async ({ body }) => {
      if (!body.includes('640')) return
      reached.resolve()
      await sleep(100)
    }
    const update = patch(mine, { viewport: { width: 640, height: 480 }, name: 'late', tags: { late: 'yes' } })
    await reached.promise
    await release(pool.id, mine)
    await update
    const next = await acquire(pool.id)
    // The late setting reaches the agent after the release.
    await sleep(200)
    relay.before = () => {}
    expect(await width(next)).toBe(1920)
    expect(next).toMatchObject({ viewport: { width: 1920, height: 1080 }, tags: {} })
    expect(next).not.toHaveProperty('name')
  })

  test('an update under way does not reach the next caller: a profile', async () => {
    const [name, other] = [`p-${newId()}`, `p-${newId()}`]
    for (const one of [name, other]) await profileOf(one)
    const writer = await cloud.create({ profile: { name, save_changes: true } })
    await clipboard.write(writer, 'a secret')
    await cloud.fetch(`/browsers/${writer.session_id}?wait=true`, { method: 'DELETE' })
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    const reached = Promise.withResolvers<void>()
    relay.before = async ({ id, path }) => {
      if (id !== mine.session_id || !path.startsWith('/profile')) return
      reached.resolve()
      await sleep(100)
    }
    const update = patch(mine, { profile: { name } })
    await reached.promise
    await release(pool.id, mine)
    await update
    const next = await acquire(pool.id)
    await sleep(200)
    relay.before = () => {}
    expect(await clipboard.read(next)).toBe('')
    expect((await patch(next, { profile: { name: other } })).status).toBe(200)
  })

  test('a call under way ends, and those of the next caller do not', async () => {
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    relay.before = async ({ path }) => {
      if (!path.endsWith('/screenshot')) return
      reached.resolve()
      await go.promise
    }
    const call = cloud.fetch(`/browsers/${mine.session_id}/computer/screenshot`, { method: 'POST' })
    await reached.promise
    await release(pool.id, mine)
    expect((await call).status).toBe(404)
    go.resolve()
    const next = await acquire(pool.id)
    expect(next.session_id).toBe(mine.session_id)
    expect((await cloud.fetch(`/browsers/${next.session_id}/computer/screenshot`, { method: 'POST' })).status).toBe(200)
  })

  test('a recording that is just beginning does not go on with the next caller', async () => {
    const pool = await filled({ size: 1, ...fast })
    const mine = await acquire(pool.id)
    const reached = Promise.withResolvers<void>()
    relay.before = async ({ path, body }) => {
      if (!path.startsWith('/recordings') || !body.includes('framerate')) return
      reached.resolve()
      await sleep(300)
    }
    const begun = cloud.send('POST', `/browsers/${mine.session_id}/replays`, {})
    await reached.promise
    await release(pool.id, mine)
    await begun
    relay.before = () => {}
    const next = await acquire(pool.id)
    expect(next.session_id).toBe(mine.session_id)
    await until(
      'no recording',
      FILL_MS,
      async () => (await cloud.query(`select 1 from replays where browser_id = $1 and state = 'recording'`, [next.session_id])).length === 0,
    )
  })
})

test('a release waits for whoever is just noting that the browser is used', async () => {
  const pool = await filled({ size: 1 })
  const mine = await acquire(pool.id)
  const client = new pg.Client({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await client.connect()
  try {
    await client.query('begin')
    await client.query('update browsers set last_active_at = now() where id = $1', [mine.session_id])
    const released = release(pool.id, mine)
    await until('the release to wait', FILL_MS, async () => (await cloud.query(`select from pg_stat_activity where wait_event_type = 'Lock'`)).length > 0)
    await client.query('commit')
    await released
  } finally {
    await client.end()
  }
  await until('the pool', FILL_MS, async () => (await json<{ available_count: number }>(await cloud.fetch(`/browser_pools/${pool.id}`))).available_count === 1)
})
