// All captured events of sessions reach their destinations in the form of OTLP, also after an outage of a destination. Fake browsers use the agent's real event
// buffers.
import { describe, expect, test } from 'vitest'
import {
  AWAY,
  cloud,
  collector,
  create,
  destination,
  end,
  exporting,
  failing,
  got,
  lines,
  make,
  metric,
  PATH,
  SOON_MS,
  state,
  stored,
  succeeding,
  texts,
  wellAgain,
} from '../../../../../test/support/exporting.ts'
import { allOf, emit, say } from '../../../../../test/support/kept-telemetry.ts'
import { startCollector } from '../../../../../test/support/otlp.ts'
import { until } from '../../../../base/wait.ts'

exporting()

test('events are log records with their session, project, numbers and data; what took time is a span of its own, too', async () => {
  const id = await create()
  await emit(
    cloud.paths,
    id,
    ['console_log', { text: 'hello', level: 'warning', args: ['a', 2, true], nested: { deep: { x: 1.5, list: [{ a: 1 }] } } }],
    ['page_navigation', { url: 'http://a.test/', frame_id: 'f', loader_id: 'l' }],
    ['page_load', { url: 'http://a.test/', frame_id: 'f', loader_id: 'l', nav_seq: 1 }],
    ['api_call', { operation_id: 'clickMouse', duration_ms: 12.5, status: 500 }],
    ['monitor_screenshot', { png: 'A'.repeat(100_000) }],
    ['page_crashed', { text: `x${'😀'.repeat(10_000)}` }],
  )
  await until('six records', SOON_MS, () => collector.logs(id).length === 6, { everyMs: 20 })
  const [first, navigation, load, call, picture, crash] = collector.logs(id)
  expect(first!.resource).toEqual({
    'service.name': 'cob',
    'service.version': expect.any(String),
    'service.instance.id': id,
    'session.id': id,
    'cob.project.id': 'defaultproject0000000000',
    'cob.region': 'us-east',
  })
  expect(first!.attributes).toEqual({
    'cob.event.category': 'console',
    'cob.event.seq': 1,
    'cob.event.source': 'cdp',
    'cob.event.data.text': 'hello',
    'cob.event.data.level': 'warning',
    'cob.event.data.args': ['a', 2, true],
    'cob.event.data.nested.deep.x': 1.5,
    'cob.event.data.nested.deep.list': '[{"a":1}]',
  })
  expect(first!.record).toMatchObject({ eventName: 'cob.console_log', severityText: 'WARN', severityNumber: 13, body: { stringValue: 'console_log hello' } })
  expect(navigation!.record).toMatchObject({ severityText: 'INFO', body: { stringValue: 'page_navigation http://a.test/' } })
  expect(call!.record).toMatchObject({ severityText: 'ERROR', body: { stringValue: 'api_call clickMouse 500' } })
  expect(picture!.record).toMatchObject({ droppedAttributesCount: 1 })
  expect(picture!.attributes).not.toHaveProperty('cob.event.data.png')
  expect(crash!.record).toMatchObject({ severityNumber: 17 })
  expect(String(crash!.attributes['cob.event.data.text'])).toHaveLength(8 * 1024)
  await until('two spans', SOON_MS, () => collector.spans(id).length === 2, { everyMs: 20 })
  const [page, click] = collector.spans(id)
  expect(page!.record).toMatchObject({ name: 'page load', kind: 1, startTimeUnixNano: navigation!.record.timeUnixNano, spanId: load!.record.spanId })
  expect(click!.record).toMatchObject({ name: 'clickMouse', kind: 2, status: { code: 2 }, traceId: call!.record.traceId, spanId: call!.record.spanId })
  expect(BigInt(click!.record.endTimeUnixNano as string) - BigInt(click!.record.startTimeUnixNano as string)).toBe(12_500_000n)
  await succeeding()
  await end(id)
})

test('everything comes once and in order, the last of it after the end of the session; callers still read it', async () => {
  const id = await create()
  await say(cloud.paths, id, 0, 700)
  await end(id)
  await got(id, 700)
  expect(texts(id)).toEqual(lines(700))
  expect(new Set(collector.taken.map(({ path }) => path))).toEqual(new Set(['/otlp/v1/logs']))
  expect((await allOf(cloud.fetch, id)).length).toBe(700)
})

test('a destination that is away loses nothing: it gets everything when it is back, and says meanwhile what is wrong, without addresses or words of servers', async () => {
  const id = await create()
  await say(cloud.paths, id, 0, 10)
  await got(id, 10)
  await collector.down()
  await say(cloud.paths, id, 10, 10)
  await failing()
  const away = await state()
  expect(away).toMatchObject({ last_error: expect.stringMatching(/^connection_(refused|failed)$/), last_error_at: expect.any(String) })
  await say(cloud.paths, id, 20, 10)
  await end(id)
  await collector.up()
  await got(id, 30)
  expect(texts(id)).toEqual(lines(30))
  const well = await succeeding()
  // The last error stays, with its time.
  expect(typeof well.last_error).toBe('string')
  expect(Date.parse(well.last_export_at!)).toBeGreaterThan(Date.parse(away.last_export_at!))
})

test.each([429, 500, 503, 401, 302])(
  'what is answered with %i is sent again, not before Retry-After, or at once when the destination is changed',
  async (status) => {
    collector.trouble = { status, headers: { 'retry-after': '300', location: '/elsewhere' }, body: 'secret words' }
    const id = await create()
    await say(cloud.paths, id, 0, 3)
    await failing()
    collector.trouble = {}
    expect((await state()).last_error).toBe(`http_${status}`)
    const wait = `select extract(epoch from next_attempt_at - last_error_at)::int as seconds from telemetry_destinations where id = $1`
    expect(await cloud.query(wait, [destination.id])).toEqual([{ seconds: 300 }])
    await wellAgain()
    await got(id, 3)
    expect(collector.asked.map((one) => one.status)).toEqual([status, 200])
    await end(id)
  },
)

test('attempts are rarer and rarer', async () => {
  collector.trouble = { status: 503 }
  const id = await create()
  await say(cloud.paths, id, 0, 1)
  await until('two failures', SOON_MS, async () => (await state()).consecutive_failures >= 2, { everyMs: 20 })
  const [row] = await cloud.query<{ failures: number; seconds: number }>(
    `select consecutive_failures as failures, extract(epoch from next_attempt_at - last_error_at)::int as seconds from telemetry_destinations where id = $1`,
    [destination.id],
  )
  expect(row!.seconds).toBe(2 ** (row!.failures - 1))
  await end(id)
})

test('what is refused for good is counted and not sent again, and what follows is sent', async () => {
  const before = await metric('cob_telemetry_export_refused_events_total')
  collector.trouble = { status: 400, body: 'secret words' }
  const id = await create()
  await say(cloud.paths, id, 0, 3)
  await until('a refusal', SOON_MS, async () => (await state()).last_error !== undefined, { everyMs: 20 })
  // The destination works: its other sessions continue as before.
  expect(await state()).toMatchObject({ last_error: 'http_400', consecutive_failures: 0 })
  await until('all three', SOON_MS, async () => (await metric('cob_telemetry_export_refused_events_total')) === before + 3, { everyMs: 20 })
  collector.trouble = {}
  await say(cloud.paths, id, 3, 2)
  await got(id, 2)
  expect(texts(id)).toEqual(lines(2, 3))
  expect((await state()).consecutive_failures).toBe(0)
  await end(id)
})

test('a partial success is a success; what it leaves out is counted and not sent again', async () => {
  const before = await metric('cob_telemetry_export_refused_events_total')
  collector.trouble = { body: '{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"secret"}}' }
  const id = await create()
  await say(cloud.paths, id, 0, 5)
  await got(id, 5)
  await until('two refused', SOON_MS, async () => (await metric('cob_telemetry_export_refused_events_total')) >= before + 2, { everyMs: 20 })
  collector.trouble = {}
  await say(cloud.paths, id, 5, 1)
  await got(id, 6)
  expect([texts(id), (await state()).last_error]).toEqual([lines(6), undefined])
  await end(id)
})

test('sessions have their turns one after the other, not some of them in each second', async () => {
  const SESSIONS = 40
  collector.trouble = AWAY
  const ids = await Promise.all(Array.from({ length: SESSIONS }, () => create()))
  await Promise.all(ids.map((id) => say(cloud.paths, id, 0, 1)))
  await failing()
  for (const id of ids) await stored(id, 1)
  const before = performance.now()
  await wellAgain()
  await until('all of them', SOON_MS, () => ids.every((id) => texts(id).length === 1), { everyMs: 20 })
  // At four sessions a second, this would take nine seconds at least.
  expect(performance.now() - before).toBeLessThan(6_000)
  for (const id of ids) await end(id)
})

test('a request that is too large is sent in halves', async () => {
  collector.trouble = AWAY
  const id = await create()
  await say(cloud.paths, id, 0, 64)
  await failing()
  await stored(id, 64)
  await wellAgain({ status: 413 })
  await until('a refusal', SOON_MS, () => collector.asked.some(({ status }) => status === 413), { everyMs: 1 })
  collector.trouble = {}
  // Some records may have been refused one by one before, but none is sent twice.
  await until('the last', SOON_MS, () => texts(id).includes('line 63'), { everyMs: 20 })
  expect(new Set(texts(id)).size).toBe(texts(id).length)
  expect(collector.taken[0]!.records.length).toBeLessThanOrEqual(32)
  await end(id)
})

test('sessions that export take a change of their destination: its address, and its headers', async () => {
  await cloud.send('PATCH', `${PATH}/${destination.id}`, { headers: { 'x-api-key': 'first' } })
  const id = await create()
  await say(cloud.paths, id, 0, 1)
  await got(id, 1)
  await using other = await startCollector()
  await cloud.send('PATCH', `${PATH}/${destination.id}`, { endpoint: other.url, headers: { 'X-API-KEY': 'second' } })
  await say(cloud.paths, id, 1, 1)
  await got(id, 1, other)
  expect([collector.taken[0]!.headers['x-api-key'], other.taken[0]!.headers['x-api-key'], texts(id, other)]).toEqual(['first', 'second', ['line 1']])
  await end(id)
})

test('sessions of another service on the same database are left to it', async () => {
  collector.trouble = AWAY
  const [theirs, ours] = [await create(), await create()]
  for (const id of [theirs, ours]) await say(cloud.paths, id, 0, 3)
  await failing()
  for (const id of [theirs, ours]) await stored(id, 3)
  await end(theirs)
  const [row] = await cloud.query<{ scope: string }>('select scope from browsers where id = $1', [theirs])
  const give = (scope: string) => cloud.query('update browsers set scope = $2 where id = $1', [theirs, scope])
  await give('of another')
  await wellAgain()
  await got(ours, 3)
  // Each round exports the events that are stored by then.
  await say(cloud.paths, ours, 3, 1)
  await got(ours, 4)
  expect(texts(theirs)).toEqual([])
  await give(row!.scope)
  await got(theirs, 3)
  await end(ours)
})

test('a session whose telemetry cannot be read holds up no other one, and goes on when it can', async () => {
  collector.trouble = AWAY
  const [broken, well] = [await create(), await create()]
  for (const id of [broken, well]) await say(cloud.paths, id, 0, 3)
  for (const id of [broken, well]) await stored(id, 3)
  await failing()
  const change = (how: string) => cloud.query(`update telemetry_segments set data = ${how} where session_id = $1`, [broken])
  await change(String.raw`'\x00' || data`)
  await wellAgain()
  await got(well, 3)
  await until('word of it', SOON_MS, () => JSON.stringify(cloud.errors).includes('the export of telemetry did not work'), { everyMs: 20 })
  await succeeding()
  expect(texts(broken)).toEqual([])
  await change('substr(data, 2)')
  await got(broken, 3)
  for (const id of [broken, well]) await end(id)
})

test('a destination that hangs holds up no other one', async () => {
  await using stuck = await startCollector()
  stuck.trouble = { ms: 60_000 }
  const hanging = await make(stuck)
  const held = await Promise.all(Array.from({ length: 6 }, () => create(hanging)))
  for (const id of held) await say(cloud.paths, id, 0, 1)
  const id = await create()
  await say(cloud.paths, id, 0, 3)
  await got(id, 3)
  expect(stuck.taken).toEqual([])
  await failing(hanging)
  expect((await state(hanging)).last_error).toBe('timeout')
  for (const one of [...held, id]) await end(one)
})

test('an export that is moved in the middle gives each destination its part, and one that is ended no more', async () => {
  await using other = await startCollector()
  const second = await make(other)
  const id = await create()
  const move = (otlp: object) => cloud.send('PATCH', `/browsers/${id}`, { telemetry: { export: { otlp } } })
  await say(cloud.paths, id, 0, 5)
  expect((await move({ destination: { id: second.id } })).status).toBe(200)
  await say(cloud.paths, id, 5, 5)
  expect((await move({ enabled: false })).status).toBe(200)
  await say(cloud.paths, id, 10, 5)
  expect((await move({ destination: { id: destination.id } })).status).toBe(200)
  await say(cloud.paths, id, 15, 5)
  await got(id, 10)
  await got(id, 5, other)
  // Each time range is exported separately.
  expect([texts(id).toSorted(), texts(id, other)]).toEqual([[...lines(5), ...lines(5, 15)].toSorted(), lines(5, 5)])
  expect(await allOf(cloud.fetch, id)).toHaveLength(20)
  await end(id)
})

describe('telemetry that is not stored', () => {
  const kept = async (id: string) => (await cloud.query('select from telemetry_segments where session_id = $1 and events > 0', [id])).length

  test('is exported, never listed, and gone when it has arrived', async () => {
    const id = await create(destination, { storage: { enabled: false } })
    await collector.down()
    await say(cloud.paths, id, 0, 20)
    await until('events on their way', SOON_MS, async () => (await kept(id)) > 0, { everyMs: 20 })
    await failing()
    expect(await allOf(cloud.fetch, id)).toEqual([])
    const har = (await (await cloud.fetch(`/browsers/${id}/har`)).json()) as { log: { entries: unknown[] } }
    expect(har.log.entries).toEqual([])
    await end(id)
    await collector.up()
    await got(id, 20)
    expect(texts(id)).toEqual(lines(20))
    await until('nothing left', SOON_MS, async () => (await kept(id)) === 0, { everyMs: 50 })
    expect(await allOf(cloud.fetch, id)).toEqual([])
  })

  test('is gone too when its destination is deleted before it has arrived', async () => {
    const gone = await make({ url: 'http://127.0.0.1:9' })
    const id = await create(gone, { storage: { enabled: false } })
    await say(cloud.paths, id, 0, 3)
    await end(id)
    await until('events on their way', SOON_MS, async () => (await kept(id)) > 0, { everyMs: 20 })
    await until('the end of the session', SOON_MS, async () => (await cloud.fetch(`${PATH}/${gone.id}`, { method: 'DELETE' })).status === 204)
    await until('nothing left', SOON_MS, async () => (await kept(id)) === 0, { everyMs: 50 })
    expect(await allOf(cloud.fetch, id)).toEqual([])
  })
})

test('what is deleted before it has arrived is counted as dropped, and what had arrived is not', async () => {
  const dropped = 'cob_telemetry_export_dropped_events_total'
  const before = await metric(dropped)
  const id = await create()
  await say(cloud.paths, id, 0, 2)
  await got(id, 2)
  const isNoted = 'select from telemetry_exports where session_id = $1 and last_seq = 2'
  await until('word of it', SOON_MS, async () => (await cloud.query(isNoted, [id])).length === 1, { everyMs: 20 })
  collector.trouble = AWAY
  await say(cloud.paths, id, 2, 5)
  await failing()
  await stored(id, 7)
  expect((await cloud.fetch(`/browsers/${id}/telemetry`, { method: 'DELETE' })).status).toBe(204)
  expect(await metric(dropped)).toBe(before + 5)
  // A second delete drops nothing more.
  expect((await cloud.fetch(`/browsers/${id}/telemetry`, { method: 'DELETE' })).status).toBe(204)
  await wellAgain()
  await say(cloud.paths, id, 7, 1)
  await got(id, 3)
  expect([texts(id), await metric(dropped)]).toEqual([[...lines(2), 'line 7'], before + 5])
  await end(id)
})

test('a destination that is behind by more than the limit loses the oldest events, which are counted; the newest come', async () => {
  const before = await metric('cob_telemetry_export_dropped_events_total')
  const id = await create()
  await collector.down()
  // Random data, which cannot be compressed: 3 MB, of which 1 MB may wait.
  for (let at = 0; at < 60; at++) {
    const noise = Buffer.from(Array.from({ length: 36_000 }, () => Math.random() * 256)).toString('base64')
    await emit(cloud.paths, id, ['console_log', { text: `line ${at}`, noise }])
  }
  await until('a loss', SOON_MS, async () => (await metric('cob_telemetry_export_dropped_events_total')) > before, { everyMs: 50 })
  expect(await metric('cob_telemetry_export_lag_seconds')).toBeGreaterThan(0)
  await end(id)
  await collector.up()
  await until('the newest', SOON_MS, () => texts(id).includes('line 59'), { everyMs: 20 })
  const [dropped, arrived] = [(await metric('cob_telemetry_export_dropped_events_total')) - before, texts(id).length]
  expect([dropped + arrived, arrived >= 10]).toEqual([60, true])
  expect(texts(id)).toEqual(lines(arrived, dropped))
})
