// Acquiring a browser of a pool: the settings of one acquisition, how long callers wait, and which callers get none.
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { keyOf, searchLog } from '../../../../test/support/audit-log.ts'
import type { Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { sleep, until } from '../../../base/wait.ts'
import {
  acquire,
  ask,
  change,
  clipboard,
  cloud,
  create,
  FILL_MS,
  filled,
  get,
  giveBack,
  idle,
  json,
  list,
  refusal,
  release,
  relayed,
  remove,
  settled,
  usePools,
} from './pools.suite.ts'

const relay = relayed()
usePools({ COB_MAX_BROWSERS: '20' }, relay.drive)

/** An acquire whose caller can disconnect. */
function leaving(pool: string, body: object = {}): { leave: () => void; answer: Promise<Response | undefined> } {
  const caller = new AbortController()
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal: caller.signal }
  return { leave: () => caller.abort(), answer: cloud.fetch(`/browser_pools/${pool}/acquire`, init).catch(() => undefined) }
}
/** Resolves when `count` callers wait. */
const waiting = (count: number) =>
  until(`${count} callers who wait`, FILL_MS, async () =>
    new RegExp(`^cob_warm_pool_waiting ${count}$`, 'm').test(await (await cloud.fetch('/metrics')).text()),
  )

describe('what a caller wants', () => {
  test('belongs to its time with the browser: name, tags and start page, which the next one does not have', async () => {
    const pool = await filled({ size: 1, name: `Mine-${newId()}`, start_url: 'https://pool.example/' })
    const wanted = { name: `n-${newId()}`, tags: { job: '17' }, start_url: 'https://mine.example/' }
    const mine = await acquire(pool.id, wanted)
    conforms('BrowserPoolAcquireResponse', mine)
    expect(mine).toMatchObject({ ...wanted, pool: { id: pool.id, name: pool.name } })
    const opened = () => relay.calls.filter(({ id, path, body }) => id === mine.session_id && path === '/session/fit' && body.includes('mine.example'))
    expect(opened()).toHaveLength(1)
    expect(((await json(await cloud.fetch(`/browsers/${wanted.name}`))) as Session).session_id).toBe(mine.session_id)
    await release(pool.id, mine)
    expect((await cloud.fetch(`/browsers/${wanted.name}`)).status).toBe(404)
    const next = await acquire(pool.id)
    expect(next).toMatchObject({ session_id: mine.session_id, tags: {}, start_url: 'https://pool.example/' })
    expect(next).not.toHaveProperty('name')
    expect(opened()).toHaveLength(1)
    // The name is free again.
    await json(await cloud.send('PATCH', `/browsers/${next.session_id}`, { name: wanted.name }))
  })

  test.each([0, 5])('with a name that a live session has is a conflict (waiting %s s), and the browser stays for others', async (seconds) => {
    const name = `n-${newId()}`
    const other = await cloud.create({ name })
    const pool = await filled({ size: 1 })
    expect(await refusal(await ask(pool.id, { name, acquire_timeout_seconds: seconds }))).toEqual([409, expect.stringContaining(name)])
    await settled(pool.id, 0, 1)
    expect(await acquire(pool.id, { name: `${name}-2` })).toMatchObject({ name: `${name}-2` })
    await cloud.fetch(`/browsers/${other.session_id}?wait=true`, { method: 'DELETE' })
  })

  test.each<[string, object]>([
    ['acquire_timeout_seconds', { acquire_timeout_seconds: -1 }],
    ['acquire_timeout_seconds', { acquire_timeout_seconds: 1.5 }],
    ['name', { name: 'a'.repeat(24) }],
    ['tags', { tags: { a: 1 } }],
    ['start_url', { start_url: 'no url' }],
    ['start_url', { start_url: 'https://other.example/' }],
    ['profile.name', { profile: { name: 'nonesuch' } }],
    ['telemetry.browser', { telemetry: { browser: { sound: { enabled: true } } } }],
    ['other', { other: 1 }],
  ])('is refused by name: %s in %j; no browser is lent', async (field, body) => {
    const pool = await create({ size: 1, network: { allowed_hosts: ['mine.example'] } })
    expect(await refusal(await ask(pool.id, body))).toEqual([400, expect.stringContaining(field)])
    await settled(pool.id, 0, 1)
  })

  test('may be a profile, in a pool without one: it is loaded and saved, and that browser ends', async () => {
    const name = `p-${newId()}`
    await json(await cloud.send('POST', '/profiles', { name }), 201)
    const [pool, own] = [await filled({ size: 1 }), await create({ size: 1, profile: { name } })]
    expect(await refusal(await ask(own.id, { profile: { name } }))).toEqual([400, expect.stringContaining('profile')])
    const mine = await acquire(pool.id, { profile: { name, save_changes: true } })
    expect(mine).toMatchObject({ profile: { name }, profile_save_changes: true })
    await clipboard.write(mine, 'a cookie')
    await release(pool.id, mine)
    const next = await acquire(pool.id)
    expect(next.session_id).not.toBe(mine.session_id)
    expect(next).not.toHaveProperty('profile')
    const loaded = await cloud.create({ profile: { name } })
    expect(await clipboard.read(loaded)).toBe('a cookie')
    await cloud.fetch(`/browsers/${loaded.session_id}?wait=true`, { method: 'DELETE' })
  })
})

describe('a caller who finds none', () => {
  test('gets 204 after the time it waits; 0 does not wait; unless it is said, until the pool could be filled', async () => {
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000 })
    await acquire(pool.id)
    const took = async (body: object) => {
      const began = performance.now()
      const response = await ask(pool.id, body)
      return [response.status, await response.text(), Math.round((performance.now() - began) / 500) / 2]
    }
    expect(await took({ acquire_timeout_seconds: 0 })).toEqual([204, '', 0])
    expect(await took({ acquire_timeout_seconds: 1 })).toEqual([204, '', 1])
    // At this rate the whole pool is filled in a hundredth of a minute.
    expect(await took({})).toEqual([204, '', 1])
  })

  test('and leaves while it gets its browser loses none', async () => {
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000 })
    const opening = Promise.withResolvers<void>()
    relay.before = async ({ body }) => {
      if (!body.includes('left.example')) return
      opening.resolve()
      await sleep(200)
    }
    const leaver = leaving(pool.id, { start_url: 'https://left.example/' })
    await opening.promise
    leaver.leave()
    await leaver.answer
    relay.before = () => {}
    await settled(pool.id, 0, 1)
  })

  test('is told that its pool was deleted meanwhile', async () => {
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000 })
    await acquire(pool.id)
    const waiter = leaving(pool.id)
    await waiting(1)
    await remove(pool.id)
    expect((await waiter.answer)!.status).toBe(404)
  })

  test('is told why none can be made, and so does the pool say', async () => {
    const name = `p-${newId()}`
    const { id: profile } = await json<{ id: string }>(await cloud.send('POST', '/profiles', { name }), 201)
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000, profile: { name } })
    await json(await cloud.fetch(`/profiles/${profile}`, { method: 'DELETE' }), 204)
    const problem = async () => (await get(pool.id)).problem
    const { session_id: id } = await acquire(pool.id)
    await json(await giveBack(pool.id, id, false), 204)
    expect(await refusal(await ask(pool.id))).toEqual([503, expect.stringContaining(name)])
    expect(await until('the problem', FILL_MS, problem)).toContain(name)
    await json(await cloud.send('POST', '/profiles', { name }), 201)
    await until('no problem', FILL_MS, async () => (await problem()) === undefined)
    await settled(pool.id, 0, 1)
  })

  test('is told of a problem that an update has not solved, too', async () => {
    relay.before = ({ path }) => {
      if (path === '/session/fit') throw new Error('held up')
    }
    const pool = await create({ size: 1, fill_rate_per_minute: 6000, headless: true })
    const problem = () => until('the problem', FILL_MS, async () => (await get(pool.id)).problem)
    const why = await problem()
    expect(why).toContain('could not be started')
    await json(await change(pool.id, { timeout_seconds: 20 }))
    expect(await problem()).toBe(why)
    relay.before = () => {}
    await settled(pool.id, 0, 1)
    // The problem is cleared once the browser is ready.
    await until('no problem', FILL_MS, async () => !Object.hasOwn(await get(pool.id), 'problem'))
  })
})

describe('a browser that does not answer', () => {
  test('is replaced by another one, which the caller gets', async () => {
    const pool = await filled({ size: 2 })
    const [first] = await idle(pool.id)
    relay.before = ({ id, path }) => {
      if (id === first && path === '/session/fit') throw new Error('held up')
    }
    const mine = await acquire(pool.id, { start_url: 'https://mine.example/' })
    relay.before = () => {}
    expect(mine.session_id).not.toBe(first)
    expect((await cloud.fetch(`/browsers/${first}`)).status).toBe(404)
    await release(pool.id, mine)
    await settled(pool.id, 0, 2)
  })
})

describe('others', () => {
  test("of another project do not find the pool, its browsers, or what it has lent; and a pool's own callers not those of another pool", async () => {
    await cloud.query(`insert into projects (id, name) values ('anotherproject0000000000', 'Another') on conflict do nothing`)
    const { key } = await keyOf(cloud, 'anotherproject0000000000')
    const [pool, second] = [await filled({ size: 1, name: 'one' }), await filled({ size: 1, fill_rate_per_minute: 6000 })]
    const mine = await acquire(pool.id)
    const stranger = (method: string, path: string, body: object) =>
      fetch(cloud.url + path, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: method === 'GET' ? undefined : JSON.stringify(body),
      })
    for (const called of [pool.id, 'one']) {
      const path = `/browser_pools/${called}`
      for (const [method, to, body] of [
        ['GET', path, {}],
        ['PATCH', path, { size: 2 }],
        ['DELETE', path, { force: true }],
        ['POST', `${path}/acquire`, {}],
        ['POST', `${path}/release`, { session_id: mine.session_id }],
        ['POST', `${path}/flush`, {}],
      ] as const)
        expect([method, to, (await stranger(method, to, body)).status]).toEqual([method, to, 404])
    }
    expect((await stranger('GET', `/browsers/${mine.session_id}`, {})).status).toBe(404)
    expect(await json(await stranger('GET', '/browser_pools', {}))).toEqual([])
    // Another project may use the same name.
    expect((await stranger('POST', '/browser_pools', { size: 1, name: 'one' })).status).toBe(200)
    expect((await stranger('DELETE', '/browser_pools/one', {})).status).toBe(204)
    const onDemand = await cloud.create()
    for (const id of [mine.session_id, onDemand.session_id, (await idle(second.id))[0]!, newId(), 'x']) expect((await giveBack(second.id, id)).status).toBe(404)
    expect((await giveBack(pool.id, onDemand.session_id)).status).toBe(404)
    await cloud.fetch(`/browsers/${onDemand.session_id}?wait=true`, { method: 'DELETE' })
    expect(await list()).toHaveLength(2)
    await settled(pool.id, 1, 0)
  })

  test('who read the audit log find the calls of pools by their routes', async () => {
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000 })
    const mine = await acquire(pool.id)
    await release(pool.id, mine)
    await until('the entries', FILL_MS, async () => {
      const paths = (await searchLog(cloud, { search: pool.id })).map(({ method, path, route }) => `${method} ${path} ${route}`)
      const entry = (what: string) => `POST /browser_pools/${pool.id}/${what} /browser_pools/{id_or_name}/${what}`
      return paths.includes(entry('acquire')) && paths.includes(entry('release'))
    })
  })
})
