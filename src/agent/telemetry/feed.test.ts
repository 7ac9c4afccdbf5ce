// The feed: what the service reads of an event buffer, all of it, in order, and signs of life.
import type { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { until } from '../../base/wait.ts'
import type { FeedLine } from './contract.ts'
import { telemetryFeedHandlers } from './handlers.ts'
import { FEED_BEAT_MS } from './limits.ts'
import { EventBuffer, type EventBufferOptions } from './event-buffer.ts'

const SEEN_MS = 5_000

/** A buffer that captures, and the lines of a feed of it so far. */
function fed(after = 0, buffer = capturing()) {
  const stop = new AbortController()
  const handlers = telemetryFeedHandlers(buffer)
  const feed = handlers.feedTelemetry({ query: { after }, signal: stop.signal } as Parameters<typeof handlers.feedTelemetry>[0]) as Readable
  let text = ''
  let ended = false
  feed.on('data', (chunk: Buffer) => (text += chunk.toString()))
  feed.on('end', () => (ended = true))
  feed.on('error', () => {})
  const lines = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as FeedLine)
  const numbers = () => lines().flatMap((line) => ('seq' in line ? [line.seq] : []))
  return { buffer, lines, numbers, hasEnded: () => ended, [Symbol.dispose]: () => stop.abort() }
}

function capturing(options: EventBufferOptions = {}): EventBuffer {
  const buffer = new EventBuffer(options)
  void buffer.capture({ categories: ['system'], excluded_methods: [] })
  return buffer
}

const crash = (buffer: EventBuffer, times = 1) => {
  for (let time = 0; time < times; time++)
    buffer.emit({ type: 'service_crashed', source: { kind: 'local_process' }, data: { service_name: 'x', phase: 'running' } })
}
const upTo = (count: number, from = 1) => Array.from({ length: count }, (_, index) => from + index)

test('it begins with where the buffer stands, and has every event after the one that its reader knows', async () => {
  const buffer = capturing()
  crash(buffer, 5)
  using feed = fed(2, buffer)
  await until('its first line', SEEN_MS, () => feed.lines().length > 0)
  crash(buffer, 300)
  await until('all events', SEEN_MS, () => feed.numbers().length === 303)
  crash(buffer)
  await until('one more', SEEN_MS, () => feed.numbers().length === 304)
  expect(feed.lines()[0]).toEqual({ last: 5 })
  expect(feed.numbers()).toEqual(upTo(304, 3))
})

test('it says where it stands while nothing happens', async () => {
  using feed = fed()
  await until('signs of life', 10 * FEED_BEAT_MS, () => feed.lines().length >= 3)
  expect(feed.lines()).toEqual(feed.lines().map(() => ({ last: 0 })))
  crash(feed.buffer)
  await until('an event', SEEN_MS, () => feed.numbers().length === 1)
})

test('when the buffer is closed it ends, after its last events', async () => {
  using feed = fed()
  crash(feed.buffer)
  await until('an event', SEEN_MS, () => feed.numbers().length === 1)
  crash(feed.buffer, 50)
  feed.buffer.close()
  await until('its end', SEEN_MS, feed.hasEnded)
  expect(feed.numbers()).toEqual(upTo(51))
})

test('what was not kept for its reader is told where it is missing, with how much that is', async () => {
  const buffer = capturing({ events: 20 })
  crash(buffer, 40)
  using feed = fed(10, buffer)
  await until('the last event', SEEN_MS, () => feed.numbers().at(-1) === 40)
  expect(feed.numbers()).toEqual([11, ...upTo(20, 21)])
  const lost = feed.lines().find((line) => 'seq' in line && line.seq === 11)
  expect(lost).toMatchObject({ event: { type: 'monitor_events_lost', data: { reason: 'not_kept', count: 10, first_seq: 11, last_seq: 20 } } })
  using current = fed(40, buffer)
  crash(buffer, 30)
  await until('the newest events', SEEN_MS, () => current.numbers().at(-1) === 70)
  expect(current.lines().flatMap((line) => ('event' in line && line.event.type === 'monitor_events_lost' ? [line.event.data] : []))).toEqual([
    { reason: 'not_kept', count: 10, first_seq: 41, last_seq: 50 },
  ])
})
