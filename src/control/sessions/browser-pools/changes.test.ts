// Effects on the browsers of a pool when it is changed, flushed or deleted, or when its profile is saved.
import { describe, expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import {
  acquire,
  ask,
  change,
  clipboard,
  cloud,
  create,
  FILL_MS,
  filled,
  giveBack,
  idle,
  json,
  refusal,
  release,
  remove,
  settled,
  update,
  usePools,
} from './pools.suite.ts'

usePools({ COB_MAX_BROWSERS: '20' })

const small = { width: 800, height: 600 }
const isLive = async (id: string): Promise<boolean> => (await cloud.fetch(`/browsers/${id}`)).status === 200

describe('an update', () => {
  test('leaves the browsers that exist as they are; discard_all_idle makes the idle ones anew, and leaves those that callers have', async () => {
    const pool = await filled({ size: 2 })
    const first = await idle(pool.id)
    await update(pool.id, { viewport: small })
    expect(await idle(pool.id)).toEqual(first)
    const mine = await acquire(pool.id)
    expect(mine.viewport).toMatchObject({ width: 1920 })
    await update(pool.id, { discard_all_idle: true })
    await settled(pool.id, 1, 1)
    expect(await idle(pool.id)).not.toContain(first[1])
    await release(pool.id, mine)
    // A browser that was lent during the update keeps its old viewport after its release.
    const [anew, old] = [await acquire(pool.id), await acquire(pool.id)]
    expect([anew.viewport, old.viewport, old.session_id]).toMatchObject([small, { width: 1920 }, mine.session_id])
  })

  test('that discards: no caller gets one any more that comes up with the configuration before', async () => {
    const pool = await filled({ size: 1, fill_rate_per_minute: 6000 })
    const [old] = await idle(pool.id)
    // This makes the idle browser look as if it had come up just after the update.
    await cloud.query('update browser_pools set generation = generation + 1, oldest = generation + 1 where id = $1', [pool.id])
    expect((await acquire(pool.id)).session_id).not.toBe(old)
  })

  test('to a smaller size ends idle browsers, and others when they are given back', async () => {
    const pool = await filled({ size: 3 })
    const [first, second] = [await acquire(pool.id), await acquire(pool.id)]
    await update(pool.id, { size: 1 })
    await settled(pool.id, 2, 0)
    await release(pool.id, first)
    await settled(pool.id, 1, 0)
    expect((await ask(pool.id, { acquire_timeout_seconds: 0 })).status).toBe(204)
    await release(pool.id, second)
    await settled(pool.id, 0, 1)
    await update(pool.id, { size: 2 })
    await settled(pool.id, 0, 2)
  })

  test('of the profile or the way out reaches the browsers that are made from then on', async () => {
    const names = [`p-${newId()}`, `p-${newId()}`]
    for (const name of names) {
      await json(await cloud.send('POST', '/profiles', { name }), 201)
      const writer = await cloud.create({ profile: { name, save_changes: true } })
      await clipboard.write(writer, `of ${name}`)
      await cloud.fetch(`/browsers/${writer.session_id}?wait=true`, { method: 'DELETE' })
    }
    const pool = await filled({ size: 1, profile: { name: names[0] } })
    const mine = await acquire(pool.id)
    expect([await clipboard.read(mine), mine.profile]).toMatchObject([`of ${names[0]}`, { name: names[0] }])
    await release(pool.id, mine)
    await update(pool.id, { profile: { name: names[1] }, discard_all_idle: true })
    await settled(pool.id, 0, 1)
    const next = await acquire(pool.id)
    expect([await clipboard.read(next), next.profile]).toMatchObject([`of ${names[1]}`, { name: names[1] }])
  })
})

describe('a delete', () => {
  test('is refused while callers have browsers, unless it is forced; then they end, too', async () => {
    const pool = await filled({ size: 2, name: `Deleted-${newId()}` })
    const mine = await acquire(pool.id)
    for (const body of [undefined, {}, { force: false }, { force: null }]) {
      const response = body
        ? await cloud.send('DELETE', `/browser_pools/${pool.id}`, body)
        : await cloud.fetch(`/browser_pools/${pool.id}`, { method: 'DELETE' })
      expect([body, await refusal(response)]).toEqual([body, [409, expect.stringContaining('force')]])
    }
    for (const body of [{ force: 'yes' }, { other: 1 }, []])
      expect([body, (await cloud.send('DELETE', `/browser_pools/${pool.id}`, body)).status]).toEqual([body, 400])
    await settled(pool.id, 1, 1)
    await remove(pool.name!)
    expect(await isLive(mine.session_id)).toBe(false)
    for (const called of [pool.id, pool.name!]) {
      const path = `/browser_pools/${called}`
      expect((await cloud.fetch(path)).status).toBe(404)
      expect((await change(called, {})).status).toBe(404)
      expect((await ask(called)).status).toBe(404)
      expect((await giveBack(called, mine.session_id)).status).toBe(404)
      expect((await cloud.send('DELETE', path, { force: true })).status).toBe(404)
    }
    // An ended session still shows its deleted pool.
    expect(await json(await cloud.fetch(`/browsers/${mine.session_id}?include_deleted=true`))).toMatchObject({ pool: { id: pool.id, name: pool.name } })
    await create({ size: 1, name: pool.name })
  })
})

describe('when the profile of a pool is saved', () => {
  const save = async (name: string, text: string) => {
    const writer = await cloud.create({ profile: { name, save_changes: true } })
    await clipboard.write(writer, text)
    await cloud.fetch(`/browsers/${writer.session_id}?wait=true`, { method: 'DELETE' })
  }

  test('idle browsers are made anew, and others end when they are given back', async () => {
    const name = `p-${newId()}`
    await json(await cloud.send('POST', '/profiles', { name }), 201)
    await save(name, 'first')
    const pool = await filled({ size: 2, profile: { name } })
    const mine = await acquire(pool.id)
    const before = await idle(pool.id)
    expect(await clipboard.read(mine)).toBe('first')
    await save(name, 'second')
    await until('another idle browser', FILL_MS, async () => {
      const now = await idle(pool.id)
      return now.length === 1 && now[0] !== before[0]
    })
    expect([await isLive(mine.session_id), await clipboard.read(mine)]).toEqual([true, 'first'])
    const next = await acquire(pool.id)
    expect(await clipboard.read(next)).toBe('second')
    await release(pool.id, mine)
    await settled(pool.id, 1, 1)
    expect(await idle(pool.id)).not.toContain(mine.session_id)
    // Changes that a caller makes in a browser of the pool are not saved.
    await clipboard.write(next, 'not kept')
    await release(pool.id, next)
    expect((await acquire(pool.id, {})).profile).toMatchObject({ name })
    expect((await json<unknown[]>(await cloud.fetch(`/profiles/${name}/versions`))).length).toBe(2)
  })

  test('and it is not to be refreshed, its browsers stay', async () => {
    const name = `p-${newId()}`
    await json(await cloud.send('POST', '/profiles', { name }), 201)
    await save(name, 'first')
    const pool = await filled({ size: 1, profile: { name }, refresh_on_profile_update: false })
    const before = await idle(pool.id)
    await save(name, 'second')
    const mine = await acquire(pool.id)
    await release(pool.id, mine)
    // Meanwhile, the browser of a pool with refresh is replaced.
    const other = await filled({ size: 1, profile: { name } })
    await save(name, 'third')
    const [old] = await idle(other.id)
    await until('another idle browser', FILL_MS, async () => !(await idle(other.id)).includes(old!))
    expect(await idle(pool.id)).toEqual(before)
  })
})
