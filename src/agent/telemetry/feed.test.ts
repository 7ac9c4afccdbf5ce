// The feed for the service: all events of a buffer, in order, and signs of life.
import { expect, test } from 'vitest'
import { until } from '../../base/wait.ts'
import { lineStream } from '../../http/ndjson.ts'
import type { FeedLine } from './contract.ts'
import { feed } from './feed.ts'
import { FEED_BEAT_MS } from './limits.ts'
import { EventBuffer, type EventBufferOptions } from './event-buffer.ts'

const SEEN_MS = 5_000

/** A buffer that captures, and the lines of its feed so far. */
function fed(after = 0, buffer = capturing()) {
  const stop = new AbortController()
  const stream = lineStream(feed(buffer, after, stop.signal))
  let text = ''
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
  stream.on('error', () => {})
  const lines = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as FeedLine)
  const numbers = () => lines().flatMap((line) => ('seq' in line ? [line.seq] : []))
  return { buffer, lines, numbers, [Symbol.dispose]: () => stop.abort() }
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

test('it says where it stands while nothing happens', async () => {
  using read = fed()
  await until('signs of life', 10 * FEED_BEAT_MS, () => read.lines().length >= 3)
  expect(read.lines()).toEqual(read.lines().map(() => ({ last: 0 })))
  crash(read.buffer)
  await until('an event', SEEN_MS, () => read.numbers().length === 1)
})

test('what was not kept for its reader is told where it is missing, with how much that is', async () => {
  const buffer = capturing({ kept: { events: 20 } })
  crash(buffer, 40)
  using read = fed(10, buffer)
  await until('the last event', SEEN_MS, () => read.numbers().at(-1) === 40)
  expect(read.numbers()).toEqual([11, ...upTo(20, 21)])
  const lost = read.lines().find((line) => 'seq' in line && line.seq === 11)
  expect(lost).toMatchObject({ event: { type: 'monitor_events_lost', data: { reason: 'not_kept', count: 10, first_seq: 11, last_seq: 20 } } })
  using current = fed(40, buffer)
  crash(buffer, 30)
  await until('the newest events', SEEN_MS, () => current.numbers().at(-1) === 70)
  expect(current.lines().flatMap((line) => ('event' in line && line.event.type === 'monitor_events_lost' ? [line.event.data] : []))).toEqual([
    { reason: 'not_kept', count: 10, first_seq: 41, last_seq: 50 },
  ])
})
