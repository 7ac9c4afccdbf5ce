// Telemetry of browsers of pools: a caller's own setting is merged into the pool's, and applies only while this caller has the browser.
import { describe, expect, test } from 'vitest'
import type { Session } from '../../../../test/support/fast-cloud.ts'
import { acquire, cloud, create, filled, get, json, refusal, relayed, release, send, update, usePools } from './pools.suite.ts'

const relay = relayed()
usePools({ COB_MAX_BROWSERS: '20' }, relay.drive)

const DEFAULT = ['control', 'connection', 'system', 'captcha']
const on = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: true }]))
const captured = (session: Session): string[] | null => {
  const { telemetry } = session as unknown as { telemetry: { browser: Record<string, { enabled: boolean }> } | null }
  return telemetry && Object.entries(telemetry.browser).flatMap(([name, { enabled }]) => (enabled ? [name] : []))
}
/** The categories that the browser was told to capture, oldest first. */
const received = (id: string): (string[] | undefined)[] =>
  relay.calls
    .filter((call) => call.id === id && call.path === '/session/fit')
    .map(({ body }) => (JSON.parse(body) as { telemetry?: { categories: string[] } }).telemetry?.categories)
const receivedOn = (id: string) => received(id).filter((categories) => categories !== undefined)
const find = async ({ session_id: id }: Session): Promise<Session> => json(await cloud.fetch(`/browsers/${id}`))

describe('a pool', () => {
  test('shows what its browsers are to capture, as it was given', async () => {
    const telemetry = { enabled: true, browser: on('console') }
    const pool = await create({ size: 1, telemetry })
    expect(pool.browser_pool_config.telemetry).toEqual(telemetry)
    // As for a session: named categories are merged, an empty setting changes nothing, and `enabled` starts from the defaults.
    const both = { enabled: true, browser: { ...on('console'), ...on('page') } }
    expect((await update(pool.id, { telemetry: { browser: on('page') } })).browser_pool_config.telemetry).toEqual(both)
    expect((await update(pool.id, { telemetry: {} })).browser_pool_config.telemetry).toEqual(both)
    expect((await update(pool.id, { telemetry: { enabled: false } })).browser_pool_config.telemetry).toEqual({ enabled: false })
    expect((await update(pool.id, { telemetry: { browser: on('network') } })).browser_pool_config.telemetry).toEqual({ browser: on('network') })
    expect((await get(pool.id)).browser_pool_config.telemetry).toEqual({ browser: on('network') })
  })

  test.each([
    ['telemetry.enabled', { enabled: false, browser: { page: {} } }],
    ['telemetry.browser', { browser: { sound: {} } }],
  ])('is refused by name with %s in %j', async (field, telemetry) => {
    expect(await refusal(await send({ size: 1, telemetry }))).toEqual([400, expect.stringContaining(field)])
  })

  test('has its browsers capture nothing until a caller has them', async () => {
    const pool = await filled({ size: 1, telemetry: { browser: on('network') } })
    const mine = await acquire(pool.id)
    expect([receivedOn(mine.session_id), captured(mine)]).toEqual([[[...DEFAULT, 'network']], [...DEFAULT, 'network']])
    await release(pool.id, mine)
    expect(receivedOn(mine.session_id).at(-1)).toEqual([])
  })
})

describe('a caller', () => {
  test.each<[unknown, string[] | null]>([
    [undefined, [...DEFAULT, 'console']],
    [{}, [...DEFAULT, 'console']],
    [{ browser: on('page') }, [...DEFAULT, 'console', 'page']],
    [{ enabled: true, browser: on('page') }, [...DEFAULT, 'page']],
    [{ enabled: false }, null],
  ])('of a pool that captures console gets, with %j, %j', async (telemetry, expected) => {
    const pool = await filled({ size: 1, telemetry: { browser: on('console') } })
    const mine = await acquire(pool.id, telemetry === undefined ? {} : { telemetry })
    expect([captured(mine), captured(await find(mine))]).toEqual([expected, expected])
    expect(receivedOn(mine.session_id)).toEqual(expected === null ? [] : [expected])
  })

  test('of a pool without telemetry may have some; the next one has none', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id, { telemetry: { enabled: true } })
    expect(captured(mine)).toEqual(DEFAULT)
    await release(pool.id, mine)
    const next = await acquire(pool.id)
    expect([next.session_id, captured(next)]).toEqual([mine.session_id, null])
  })

  test('that turns it on later leaves nothing on for the next one', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    const changed: Session = await json(await cloud.send('PATCH', `/browsers/${mine.session_id}`, { telemetry: { browser: on('network') } }))
    expect(captured(changed)).toEqual([...DEFAULT, 'network'])
    await release(pool.id, mine)
    expect([receivedOn(mine.session_id).at(-1), captured(await acquire(pool.id))]).toEqual([[], null])
  })

  test('without telemetry costs no call for it', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    await release(pool.id, mine)
    expect(receivedOn(mine.session_id)).toEqual([])
  })

  test("sees nothing of what was told before it had the browser, and the one before loses its stream at the browser's return", async () => {
    const pool = await filled({ size: 1, telemetry: { enabled: true } })
    const mine = await acquire(pool.id)
    const stream = await cloud.fetch(`/browsers/${mine.session_id}/telemetry/stream?replay=all`)
    const reader = stream.body!.getReader()
    await reader.read()
    const ended = (async () => {
      for (;;) if ((await reader.read()).done) return 'ended'
    })().catch(() => 'ended')
    await release(pool.id, mine)
    expect(await ended).toBe('ended')
    const next = await acquire(pool.id)
    const again = new AbortController()
    const after = await cloud.fetch(`/browsers/${next.session_id}/telemetry/stream?replay=all`, { headers: { 'last-event-id': '0' }, signal: again.signal })
    const first = await after.body!.getReader().read()
    expect(Buffer.from(first.value!).toString()).toBe(': open\n\n')
    again.abort()
  })
})
