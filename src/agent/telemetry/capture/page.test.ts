// Events of the life of a page, over a fake Chromium: limits. With a real one: test/e2e/telemetry-pages.test.ts.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { collecting } from '../../../../test/support/collecting.ts'
import { makeSecrets } from '../../../base/redact/redact.ts'
import { page } from './page.ts'

const secrets = makeSecrets()
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

const shift = { event: { type: 'layout-shift', frameId: 'F', time: 1, duration: 0, layoutShiftDetails: { value: 0.1 } } }
const frame = (id: string, parentId?: string) => ({ frame: { id, parentId, loaderId: 'L', url: `https://page.test/${id}` } })

test('a page that shifts and loads its frames without end is told of 500 times in a second, the others are counted, and what its document does is told all the same', async () => {
  const made = await collecting(page(secrets))
  for (let count = 0; count < 400; count++) {
    made.emit('PerformanceTimeline.timelineEventAdded', shift)
    made.emit('Page.frameNavigated', frame('inside', 'TARGET'))
  }
  made.emit('Page.frameNavigated', frame('TARGET'))
  made.emit('Page.loadEventFired', { timestamp: 1 })
  expect(made.received.slice(500).map(({ type, data }) => [type, data.url])).toEqual([
    ['page_navigation', 'https://page.test/TARGET'],
    ['page_load', 'https://page.test/'],
  ])
  vi.advanceTimersByTime(1_000)
  made.emit('PerformanceTimeline.timelineEventAdded', shift)
  expect(made.types().at(-1)).toBe('page_layout_shift')
  await made.stop()
  expect(made.of('monitor_events_lost')).toEqual([{ reason: 'page', count: 300, target_id: 'TARGET', target_type: 'page' }])
})

test('a page that loads itself again and again is bounded, too', async () => {
  const made = await collecting(page(secrets))
  for (let count = 0; count < 150; count++) made.emit('Page.frameNavigated', frame('TARGET'))
  await made.stop()
  expect([made.of('page_navigation').length, made.of('monitor_events_lost')[0]?.count]).toEqual([100, 50])
})
