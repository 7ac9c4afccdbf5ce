// The seats of pools: a pool counts with its whole size in the limits of its project and of the service, for sessions and for other pools.
import { afterEach, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { until } from '../../../base/wait.ts'
import { acquire, change, cloud, create, FILL_MS, filled, get, json, list, refusal, release, remove, send, settled, update, usePools } from './pools.suite.ts'

const MOST = 6

const sessions: string[] = []
const session = async (): Promise<Response> => {
  const response = await cloud.send('POST', '/browsers', {})
  if (response.status === 200) sessions.push(((await response.clone().json()) as { session_id: string }).session_id)
  return response
}
const end = async (): Promise<void> => void (await cloud.fetch(`/browsers/${sessions.pop()}?wait=true`, { method: 'DELETE' }))
const limit = async (most: number) => json(await cloud.send('PATCH', `/org/projects/${DEFAULT_PROJECT}/limits`, { max_concurrent_sessions: most }))
const used = async (): Promise<number> => {
  const limits = await json<{ concurrent_sessions_used: number }>(await cloud.fetch('/org/limits'))
  conforms('OrgLimits', limits)
  return limits.concurrent_sessions_used
}
/** Waits for this number: a seat is free only when its browser has ended. */
const isUsed = (count: number) => until(`${count} seats in use`, FILL_MS, async () => (await used()) === count)

describe.each([
  ['the service', 'this machine may run 6 browsers (COB_MAX_BROWSERS)', MOST, async () => {}],
  ['the project', 'this project may run 6 browsers (max_concurrent_sessions)', MOST * 2, () => limit(MOST)],
])('in the limit of %s', (_whose, says, most, begin) => {
  usePools({ COB_MAX_BROWSERS: String(most) })
  afterEach(async () => {
    while (sessions.length > 0) await end()
    await limit(0)
  })

  test('a pool counts with its size, from its first moment and whoever has its browsers', async () => {
    await begin()
    const pool = await create({ size: 4 })
    expect(await used()).toBe(4)
    expect([(await session()).status, (await session()).status, (await session()).status]).toEqual([200, 200, 429])
    expect(await used()).toBe(6)
    const [status, message] = await refusal(await send({ size: 1 }))
    expect([status, message]).toEqual([429, expect.stringContaining(says)])
    await settled(pool.id, 0, 4)
    const mine = await acquire(pool.id)
    expect(await used()).toBe(6)
    await release(pool.id, mine, false)
    expect(await used()).toBe(6)
    await end()
    await create({ size: 1 })
    expect(await list()).toHaveLength(2)
  })

  test('a pool grows when there are seats, and gives them back when it shrinks', async () => {
    await begin()
    const [pool, other] = [await filled({ size: 2, timeout_seconds: 30 }), await create({ size: 2 })]
    const [status, message] = await refusal(await change(pool.id, { size: 5, timeout_seconds: 20 }))
    expect([status, message]).toEqual([429, expect.stringContaining('no room for 3 more')])
    expect((await get(pool.id)).browser_pool_config).toMatchObject({ size: 2, timeout_seconds: 30 })
    expect((await update(pool.id, { size: 4 })).browser_pool_config.size).toBe(4)
    await settled(pool.id, 0, 4)
    expect((await session()).status).toBe(429)
    await update(pool.id, { size: 1 })
    await settled(pool.id, 0, 1)
    await isUsed(3)
    expect((await update(other.id, { size: 5 })).browser_pool_config.size).toBe(5)
    await remove(other.id)
    await isUsed(1)
    expect([(await session()).status, await used()]).toEqual([200, 2])
  })

  test('a shrunk pool keeps the seats of browsers that callers have, until they are given back', async () => {
    await begin()
    const pool = await filled({ size: 3 })
    const mine = [await acquire(pool.id), await acquire(pool.id), await acquire(pool.id)]
    await update(pool.id, { size: 1 })
    expect(await used()).toBe(3)
    expect((await send({ size: 4 })).status).toBe(429)
    for (const one of mine) await release(pool.id, one)
    await settled(pool.id, 0, 1)
    await isUsed(1)
    await create({ size: 4 })
  })

  test('a pool that never fits is a mistake of its caller', async () => {
    await begin()
    expect(await refusal(await send({ size: MOST + 1 }))).toEqual([400, expect.stringContaining('size: must be at most 6')])
    const pool = await create({ size: 1 })
    expect(await refusal(await change(pool.id, { size: MOST + 1 }))).toEqual([400, expect.stringContaining('size: must be at most 6')])
    await update(pool.id, { size: MOST })
  })
})
