// Spans: their destination gets each one once, and a destination that refuses spans gets all log records.
import { expect, test } from 'vitest'
import {
  cloud,
  collector,
  create,
  destination,
  end,
  exporting,
  failing,
  got,
  lines,
  metric,
  PATH,
  SOON_MS,
  state,
  texts,
} from '../../../../../test/support/exporting.ts'
import { emit } from '../../../../../test/support/kept-telemetry.ts'
import { startCollector } from '../../../../../test/support/otlp.ts'
import { until } from '../../../../base/wait.ts'

exporting()

test('a collector without traces gets all log records, and is not asked again for traces', async () => {
  collector.trouble = { status: 404, only: '/v1/traces' }
  const id = await create()
  for (let at = 0; at < 3; at++) {
    await emit(cloud.paths, id, ['api_call', { operation_id: 'x', duration_ms: 1, status: 200, text: `line ${at}` }])
    await got(id, at + 1)
  }
  expect(collector.asked.filter(({ path }) => path.endsWith('/v1/traces'))).toHaveLength(1)
  expect([texts(id), (await state()).consecutive_failures]).toEqual([lines(3), 0])
  await end(id)
})

test.each([401, 403])('a collector that answers traces with %i gets all log records, and says so; the spans are counted', async (status) => {
  const refused = 'cob_telemetry_export_refused_spans_total'
  const before = await metric(refused)
  collector.trouble = { status, only: '/v1/traces' }
  const id = await create()
  for (let at = 0; at < 3; at++) {
    await emit(cloud.paths, id, ['api_call', { operation_id: 'x', duration_ms: 1, status: 200, text: `line ${at}` }])
    await got(id, at + 1)
  }
  await until('word of it', SOON_MS, async () => (await state()).last_error === `http_${status}`, { everyMs: 20 })
  expect([texts(id), (await state()).consecutive_failures, (await metric(refused)) > before]).toEqual([lines(3), 0, true])
  await end(id)
})

test('spans that have to be sent again do not send the log records again', async () => {
  collector.trouble = { status: 503, only: '/v1/traces' }
  const id = await create()
  await emit(cloud.paths, id, ['api_call', { operation_id: 'x', duration_ms: 1, status: 200 }])
  await failing()
  collector.trouble = {}
  await until('the span', SOON_MS, () => collector.spans(id).length === 1, { everyMs: 20 })
  await until('the log record', SOON_MS, () => collector.logs(id).length === 1, { everyMs: 20 })
  await end(id)
})

test('an address that a destination has only now gets what the one before did not take', async () => {
  collector.trouble = { status: 503, only: '/v1/traces' }
  const id = await create()
  await emit(cloud.paths, id, ['api_call', { operation_id: 'x', duration_ms: 1, status: 200 }])
  await failing()
  await using other = await startCollector()
  await cloud.send('PATCH', `${PATH}/${destination.id}`, { endpoint: other.url })
  await until('the span', SOON_MS, () => other.spans(id).length === 1, { everyMs: 20 })
  await until('the log record', SOON_MS, () => other.logs(id).length === 1, { everyMs: 20 })
  expect(collector.logs(id)).toHaveLength(0)
  await end(id)
})

test('the span of a page load comes though its navigation arrived long before, and the load had to be sent again; its ids are the same each time', async () => {
  const id = await create()
  const page = { url: 'http://a.test/', frame_id: 'f', loader_id: 'l' }
  await emit(cloud.paths, id, ['page_navigation', page])
  await until('the navigation', SOON_MS, () => collector.logs(id).length === 1, { everyMs: 20 })
  collector.trouble = { status: 503 }
  await emit(cloud.paths, id, ['page_load', page])
  await until('two failures', SOON_MS, async () => (await state()).consecutive_failures >= 2, { everyMs: 20 })
  collector.trouble = {}
  await until('the log record', SOON_MS, () => collector.logs(id).length === 2, { everyMs: 20 })
  const [navigation, load] = collector.logs(id)
  expect(collector.spans(id)[0]!.record).toMatchObject({
    name: 'page load',
    startTimeUnixNano: navigation!.record.timeUnixNano,
    spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
  })
  expect(load!.record.spanId).toBe(collector.spans(id)[0]!.record.spanId)
  await end(id)
})
