// The telemetry of sessions is stored, listed, and deleted. Fake browsers use the agent's real event buffers.
import { beforeAll, describe, expect, test } from 'vitest'
import { emit, EVERYTHING, say, texts } from '../../../../test/support/kept-telemetry.ts'
import { all, archiving, cloud, create, end, numbers, page, rows, stored, STORED_MS } from '../../../../test/support/telemetry-archive.ts'
import { until } from '../../../base/wait.ts'

archiving()

describe('pages', () => {
  let id: string
  beforeAll(async () => {
    id = await create()
    await say(cloud.paths, id, 0, 25)
    await emit(cloud.paths, id, ['network_idle', {}], ['page_load', { url: 'http://a.test/' }])
    await stored(id, 20)
    await say(cloud.paths, id, 25, 25)
    await stored(id, 52)
  })

  test('forwards have every event once, in order, with the envelope of the stream', async () => {
    const events = await all(id, 'since=1h&limit=7')
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 52 }, (_, at) => at + 1))
    expect(texts(events)).toEqual(numbers(50))
    expect(events[0]).toEqual({
      seq: 1,
      event: { type: 'console_log', category: 'console', ts: expect.any(Number), source: { kind: 'cdp' }, data: { text: 'line 0' } },
    })
  })

  test('backwards have the same, newest first; since is refused by name', async () => {
    expect(texts(await all(id, 'order=desc&limit=7'))).toEqual(numbers(50).toReversed())
    const refused = await cloud.fetch(`/browsers/${id}/telemetry/events?order=desc&since=5m`)
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('since')])
  })

  test('have 20 events, or as many as asked for up to 100, and say when there are more', async () => {
    const first = await page(id)
    expect([first.items.length, first.hasMore]).toEqual([20, true])
    expect(first.next).toBeGreaterThan(0)
    expect((await page(id, 'limit=1000')).items).toHaveLength(52)
    const exact = await page(id, 'limit=52')
    expect([exact.items.length, exact.hasMore, exact.next]).toEqual([52, false, 0])
  })

  test.each([
    ['category=page', 1],
    ['category=page,network', 2],
    ['category=page&category=network', 2],
    ['type=page_load', 1],
    ['type=page_load&category=network', 0],
    ['category=nonesuch', 0],
    ['category=console', 50],
  ])('with %s have only what matches, and none is empty before the last', async (query, count) => {
    for (const order of ['asc', 'desc'])
      for (let at = await page(id, `${query}&limit=1&order=${order}`), found = 0; ; at = await page(id, `${query}&limit=1&order=${order}&offset=${at.next}`)) {
        found += at.items.length
        if (!at.hasMore) {
          expect([order, found]).toEqual([order, count])
          break
        }
        expect(at.items).toHaveLength(1)
      }
  })

  test('are limited by since and until; an offset replaces since, not until', async () => {
    const events = await all(id)
    const time = (at: number, later = 0) => new Date(events[at]!.event.ts / 1000 + later).toISOString()
    const [from, to] = [30, 40]
    const between = await all(id, `since=${time(from)}&until=${time(to)}`)
    expect(between.every(({ event }) => event.ts >= Date.parse(time(from)) * 1000 && event.ts < Date.parse(time(to)) * 1000)).toBe(true)
    const expected = events.filter(({ event }) => event.ts >= Date.parse(time(from)) * 1000 && event.ts < Date.parse(time(to)) * 1000)
    expect(between).toEqual(expected)
    const first = await page(id, 'limit=5')
    const rest = await page(id, `limit=100&offset=${first.next}&since=${time(51, 60_000)}&until=${time(to)}`)
    expect(rest.items).toEqual(events.slice(5).filter(({ event }) => event.ts < Date.parse(time(to)) * 1000))
    expect((await page(id, `since=${time(51, 60_000)}`)).items).toEqual([])
    expect((await page(id, 'until=1h')).items).toEqual([])
    for (const bad of ['since=soon', 'until=2026-13-01', 'limit=0', 'offset=-1', 'order=up', 'other=1'])
      expect([bad, (await cloud.fetch(`/browsers/${id}/telemetry/events?${bad}`)).status]).toEqual([bad, 400])
  })

  test('are the same after the session has ended, in one object or row', async () => {
    const before = await all(id)
    await end(id)
    await until('one run', STORED_MS, async () => (await rows(id)).length === 1, { everyMs: 20 })
    expect(await all(id)).toEqual(before)
    expect(texts(await all(id, 'order=desc&limit=7'))).toEqual(numbers(50).toReversed())
  })
})

test('a page ends at some megabytes, also before it has as many events as were asked for', async () => {
  const id = await create()
  const count = 10
  await emit(
    cloud.paths,
    id,
    ...Array.from({ length: count }, (): ['monitor_screenshot', Record<string, unknown>] => ['monitor_screenshot', { png: 'A'.repeat(700_000) }]),
  )
  await stored(id, count)
  for (const order of ['asc', 'desc']) {
    const sizes: number[] = []
    for (let at = await page(id, `limit=100&order=${order}`); ; at = await page(id, `limit=100&order=${order}&offset=${at.next}`)) {
      sizes.push(at.items.length)
      if (!at.hasMore) break
    }
    expect(sizes).toEqual([5, 5])
  }
  await end(id)
})

test('an unknown session is a 404, one without telemetry an empty list', async () => {
  expect((await page('nonesuch')).status).toBe(404)
  const { session_id: id } = await cloud.create()
  expect(await page(id)).toEqual({ status: 200, items: [], hasMore: false, next: 0 })
  await end(id)
  expect((await page(id)).items).toEqual([])
  expect(await rows(id)).toEqual([])
})

test('what happens in the last moment of a session is stored', async () => {
  const id = await create()
  await say(cloud.paths, id, 0, 30)
  await end(id)
  expect(texts(await all(id))).toEqual(numbers(30))
})

test('telemetry that is turned on later is stored from then on, and what was captured before it is turned off', async () => {
  const { session_id: id } = await cloud.create()
  const set = async (telemetry: object) => expect((await cloud.send('PATCH', `/browsers/${id}`, { telemetry })).status).toBe(200)
  await say(cloud.paths, id, 0, 1)
  await set(EVERYTHING)
  await say(cloud.paths, id, 1, 3)
  await set({ enabled: false })
  await stored(id, 3)
  await say(cloud.paths, id, 4, 1)
  await set(EVERYTHING)
  await say(cloud.paths, id, 5, 1)
  await stored(id, 4)
  expect(texts(await all(id))).toEqual(['line 1', 'line 2', 'line 3', 'line 5'])
  await end(id)
})
