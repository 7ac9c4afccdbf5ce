// Browser pools over the fake driver: filling, lending, giving back, changing, deleting.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud, type Session } from '../../../test/support/fast-cloud.ts'
import { until } from '../../base/wait.ts'

let cloud: FastCloud
beforeAll(async () => void (cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })))
afterAll(() => cloud[Symbol.asyncDispose]())

interface Pool {
  id: string
  acquired_count: number
  available_count: number
  browser_pool_config: Record<string, unknown>
  [field: string]: unknown
}
const FILL_MS = 20_000

const json = async <T>(response: Response, status = 200): Promise<T> => {
  const text = await response.text()
  if (response.status !== status) throw new Error(`answered ${response.status}: ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}
const create = async (body: object): Promise<Pool> => json(await cloud.send('POST', '/browser_pools', body))
const get = async (pool: string): Promise<Pool> => json(await cloud.fetch(`/browser_pools/${pool}`))
const acquire = async (pool: string, body: object = {}): Promise<Session> => json(await cloud.send('POST', `/browser_pools/${pool}/acquire`, body))
const release = (pool: string, session_id: string, reuse?: boolean) =>
  cloud.send('POST', `/browser_pools/${pool}/release`, { session_id, ...(reuse !== undefined && { reuse }) })
const remove = async (pool: string) => json(await cloud.send('DELETE', `/browser_pools/${pool}`, { force: true }), 204)
const counts = async (pool: string, wanted: { acquired?: number; available: number }) =>
  until(
    'the pool',
    FILL_MS,
    async () => {
      const { acquired_count: acquired, available_count: available } = await get(pool)
      return available === wanted.available && (wanted.acquired === undefined || acquired === wanted.acquired)
    },
    { everyMs: 10 },
  )

describe('a pool', () => {
  test('is filled, lends its browsers, and gets the same ones back', async () => {
    const pool = await create({ size: 2, name: 'first' })
    expect(pool).toMatchObject({
      name: 'first',
      extension_ids: [],
      browser_pool_config: { size: 2, name: 'first', fill_rate_per_minute: 25, timeout_seconds: 600, headless: false },
    })
    await counts('first', { acquired: 0, available: 2 })
    const [one, two] = [await acquire('first', { name: 'mine', tags: { a: 'b' } }), await acquire(pool.id)]
    expect(one).toMatchObject({ pool: { id: pool.id, name: 'first' }, name: 'mine', tags: { a: 'b' }, timeout_seconds: 600 })
    expect(one.session_id).not.toBe(two.session_id)
    await counts('first', { acquired: 2, available: 0 })
    expect((await cloud.send('POST', '/browser_pools/first/acquire', { acquire_timeout_seconds: 0 })).status).toBe(204)
    expect((await release('first', one.session_id)).status).toBe(204)
    await counts('first', { acquired: 1, available: 1 })
    const again = await acquire('first')
    expect(again).toMatchObject({ session_id: one.session_id, tags: {} })
    expect(again).not.toHaveProperty('name')
    await release('first', two.session_id, false)
    await counts('first', { acquired: 1, available: 1 })
    expect((await cloud.fetch(`/browsers/${two.session_id}`)).status).toBe(404)
    expect((await cloud.send('DELETE', `/browser_pools/first`, {})).status).toBe(409)
    await remove('first')
    expect((await cloud.fetch(`/browsers/${again.session_id}`)).status).toBe(404)
    expect((await cloud.fetch('/browser_pools/first')).status).toBe(404)
  })
})
