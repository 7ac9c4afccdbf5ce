// The dashboard's page of the machine reads the figures of /metrics correctly.
import { expect, test } from 'vitest'
import type { Room } from '../src/base/disk.ts'
import { makeMetrics, showMachine } from '../src/control/service/system/metrics.ts'
import { showBrowsers } from '../src/control/sessions/browsers/figures.ts'
import { parseFigures, sumOf } from '../web/src/pages/service/figures.ts'

test('figures are found by name and labels in what the service answers, and summed', async () => {
  const metrics = makeMetrics()
  metrics.request({ id: 'a', method: 'GET', status: 503, ms: 5 })
  metrics.request({ id: 'b', method: 'GET', status: 500, ms: 5 })
  showMachine(
    metrics,
    () => ({ freeBytes: 8 }) as Room,
    () => 7,
  )
  showBrowsers(
    metrics.registry,
    async () => ({ all: { warm: 6, running: 7 }, own: { warm: 5, running: 6 } }),
    () => ({ waiting: 1, booting: 2, wanted: { 'a "kind"\\': 3, other: 4 } }),
  )
  const text = await metrics.render()
  const figures = parseFigures(text)
  const of = (name: string, labels?: Record<string, string>) => sumOf(figures, name, labels)
  expect(of('cob_browsers', { state: 'warm' })).toBe(5)
  expect(of('cob_browsers')).toBe(11)
  expect(of('cob_all_browsers')).toBe(13)
  expect(of('cob_browsers', { state: 'nothing' })).toBeUndefined()
  expect(of('cob_warm_pool_wanted')).toBe(7)
  expect(of('cob_warm_pool_wanted', { kind: 'a "kind"\\' })).toBe(3)
  expect([of('cob_warm_pool_waiting'), of('cob_boots_under_way'), of('cob_websockets'), of('cob_disk_free_bytes')]).toEqual([1, 2, 7, 8])
  expect(of('cob_http_failures_total')).toBe(2)
  expect(of('cob_process_resident_memory_bytes')).toBeGreaterThan(1_000_000)
  expect(of('cob_memory_available_bytes')).toBeGreaterThan(1_000_000)
  expect(of('no_such_figure')).toBeUndefined()
})
