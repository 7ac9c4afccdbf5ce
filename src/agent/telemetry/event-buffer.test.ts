// The event buffer: numbers, time, stored events, readers, and that every loss is reported.
import { describe, expect, test } from 'vitest'
import { EVENT_ID, EVENT_JSON } from '../../http/sse.ts'
import { MAX_EVENT, SETTABLE_CATEGORIES, type Envelope, type SettableCategory } from './contract.ts'
import { EventBuffer, type EventBufferOptions } from './event-buffer.ts'
import type { NewEvent } from './telemetry.ts'

const source = { kind: 'cdp' } as const
const line = (text: string): NewEvent => ({ type: 'console_log', source, data: { text } })
const made = (options: EventBufferOptions = {}, categories: SettableCategory[] = [...SETTABLE_CATEGORIES]) => {
  const buffer = new EventBuffer(options)
  void buffer.capture({ categories, excluded_methods: [] })
  return buffer
}

const parts = (frame: Envelope) => {
  const { [EVENT_ID]: seq, [EVENT_JSON]: json } = frame as unknown as { [EVENT_ID]: number; [EVENT_JSON]: string }
  return { seq, json }
}

/** All events for a reader until the buffer is closed. */
async function rest(buffer: EventBuffer, after = 0): Promise<Envelope[]> {
  buffer.close()
  const all: Envelope[] = []
  for await (const frame of buffer.stream(after, undefined, AbortSignal.timeout(5_000))) all.push(JSON.parse(parts(frame).json) as Envelope)
  return all
}
const seqs = (all: readonly Envelope[]) => all.map(({ seq }) => seq)

/** The frames of a stream until the buffer is closed: ids, and types of frames with data. */
async function frames(buffer: EventBuffer, after: number, types?: string[]): Promise<[number, string][]> {
  buffer.close()
  const all: [number, string][] = []
  for await (const frame of buffer.stream(after, types && new Set(types), AbortSignal.timeout(5_000))) {
    const { seq, json } = parts(frame)
    all.push([seq, json === '' ? '' : (JSON.parse(json) as Envelope).event.type])
  }
  return all
}

test('events have consecutive numbers from 1, their category, and a time that never runs backwards', async () => {
  const times = [50, 40, 60]
  const buffer = made({ now: () => times.shift() ?? 100 })
  for (let n = 0; n < 3; n++) buffer.emit(line(String(n)))
  const all = await rest(buffer)
  expect(all.map(({ seq, event }) => [seq, event.category, event.ts])).toEqual([
    [1, 'console', 50],
    [2, 'console', 50],
    [3, 'console', 60],
  ])
})

test('pictures take at most their part of what is kept: the oldest are left out of their events, and other events stay', async () => {
  const buffer = made({ kept: { length: 20_000, picturesLength: 5_000 } })
  const picture: NewEvent = { type: 'monitor_screenshot', source, data: { png: 'x'.repeat(2_000) } }
  for (let n = 0; n < 10; n++) {
    buffer.emit(line(String(n)))
    buffer.emit(picture)
  }
  const all = await rest(buffer)
  expect(seqs(all)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
  const pictures = all.filter(({ event }) => event.type === 'monitor_screenshot').map(({ event }) => [event.data !== undefined, event.truncated ?? false])
  expect(pictures).toEqual([...Array(8).fill([false, true]), ...Array(2).fill([true, false])])
})

test('pictures that are forgotten with their events make room for others', async () => {
  const buffer = made({ kept: { events: 3, picturesLength: 5_000 } })
  for (let n = 0; n < 20; n++) {
    buffer.emit({ type: 'monitor_screenshot', source, data: { png: 'x'.repeat(2_000) } })
    for (let more = 0; more < 2; more++) buffer.emit(line('between'))
  }
  const all = await rest(buffer)
  expect(all.map(({ event }) => event.data !== undefined)).toEqual([true, true, true])
})

test('what began before the browser goes to another caller can tell so', () => {
  const buffer = made()
  const { floor } = buffer
  buffer.emit(line('a'))
  expect(buffer.floor).toBe(floor)
  // The same holds without an event since the last one.
  for (const before of [floor, floor + 1]) {
    expect(buffer.floor).toBe(before)
    buffer.hideFromNext()
    expect(buffer.floor).not.toBe(before)
  }
})

test('what is not captured leaves no trace, and the monitor is captured with what Chromium tells', async () => {
  const buffer = made({}, ['control'])
  buffer.emit(line('a'))
  buffer.emit({ type: 'monitor_disconnected', source })
  buffer.emit({ type: 'api_call', source })
  expect(buffer.captures('monitor')).toBe(false)
  void buffer.capture({ categories: ['console'], excluded_methods: [] })
  expect(buffer.captures('monitor')).toBe(true)
  buffer.emit({ type: 'api_call', source })
  buffer.emit({ type: 'monitor_disconnected', source })
  expect((await rest(buffer)).map(({ seq, event }) => [seq, event.type])).toEqual([
    [1, 'api_call'],
    [2, 'monitor_disconnected'],
  ])
})

test('a change of what is captured is told once it holds', () => {
  const buffer = made({}, [])
  const seen: boolean[] = []
  const end = buffer.onChange(() => seen.push(buffer.captures('network')))
  void buffer.capture({ categories: ['network'], excluded_methods: ['Page.navigate'] })
  expect([...buffer.excluded]).toEqual(['Page.navigate'])
  void buffer.capture({ categories: [], excluded_methods: [] })
  end()
  void buffer.capture({ categories: ['network'], excluded_methods: [] })
  expect(seen).toEqual([true, false])
})

describe('what is kept', () => {
  test('is bounded in length', async () => {
    const buffer = made({ kept: { length: 10_000 } })
    for (let n = 0; n < 100; n++) buffer.emit(line('x'.repeat(900)))
    const all = await rest(buffer)
    expect(all.at(-1)!.seq).toBe(100)
    expect(JSON.stringify(all).length).toBeLessThan(10_100)
  })

  test('has at least the 1,024 events that the API promises', async () => {
    const buffer = made()
    for (let n = 0; n < 3000; n++) buffer.emit(line('a'))
    expect((await rest(buffer)).length).toBeGreaterThanOrEqual(1024)
  })

  test('an event that is too long is there without its data, and says so', async () => {
    const buffer = made()
    buffer.emit(line('x'.repeat(MAX_EVENT)))
    buffer.emit({ type: 'monitor_screenshot', source, data: { png: 'x'.repeat(MAX_EVENT) } })
    const [cut, picture] = await rest(buffer)
    expect([cut!.event.data, cut!.event.truncated, picture!.event.truncated]).toEqual([undefined, true, undefined])
  })
})

describe('a flood', () => {
  test('is cut to what a second may have; the numbers show the gap, and an event tells of it', async () => {
    let now = 0
    const buffer = made({ aSecond: { events: 3 }, now: () => now })
    for (let n = 0; n < 10; n++) buffer.emit(line('a'))
    now = 1_000_001
    buffer.emit(line('b'))
    const all = await rest(buffer)
    expect(all.map(({ seq, event }) => [seq, event.type])).toEqual([
      [1, 'console_log'],
      [2, 'console_log'],
      [3, 'console_log'],
      [11, 'monitor_events_lost'],
      [12, 'console_log'],
    ])
    expect(all.find(({ event }) => event.type === 'monitor_events_lost')!.event.data).toEqual({ reason: 'too_many', count: 7, first_seq: 4, last_seq: 10 })
  })

  test('is told of when nothing comes after it', async () => {
    const buffer = made({ aSecond: { events: 1, length: 500 } })
    for (let n = 0; n < 3; n++) buffer.emit(line('a'))
    const last = (await rest(buffer)).at(-1)!
    expect([last.event.type, last.event.data]).toEqual(['monitor_events_lost', { reason: 'too_many', count: 2, first_seq: 2, last_seq: 3 }])
  })
})

describe('what pages cannot make', () => {
  const call = (n: number): NewEvent => ({ type: 'api_call', source: { kind: 'kernel_api' }, data: { operation_id: `call ${n}` } })
  const own: NewEvent[] = [call(0), { type: 'cdp_connect', source }, { type: 'service_crashed', source }, { type: 'platform_api_call', source }]

  /** Lengths that fill a second to its last hundred characters. */
  const LENGTHS = [30_000, 3_000, 300, 0]

  test.each<[string, (n: number) => NewEvent]>([
    ['events', () => ({ type: 'page_layout_shift', source, data: { time: 1 } })],
    ['characters', (n) => ({ type: 'network_response', source, data: { body: 'x'.repeat(LENGTHS[Math.floor(n / 300)] ?? 0) } })],
    ['failures', () => ({ type: 'monitor_init_failed', source, data: { step: 'Page.enable' } })],
  ])('is told though a page has told all %s that a second may have', async (_, flooding) => {
    const buffer = made({ now: () => 0 })
    for (let n = 0; n < 5_000; n++) buffer.emit(flooding(n))
    for (const event of own) buffer.emit(event)
    const all = await rest(buffer)
    expect(all.filter(({ event }) => own.some(({ type }) => type === event.type)).map(({ event }) => event.type)).toEqual(own.map(({ type }) => type))
    expect(all.at(-1)!.event).toMatchObject({ type: 'monitor_events_lost', data: { reason: 'too_many' } })
  })

  test('is bounded, too, and takes nothing from pages', async () => {
    const buffer = made({ aSecond: { ownEvents: 3 }, now: () => 0 })
    for (let n = 0; n < 5; n++) buffer.emit(call(n))
    buffer.emit(line('a'))
    const all = await rest(buffer)
    expect(all.map(({ event }) => event.type)).toEqual([...Array(3).fill('api_call'), 'console_log', 'monitor_events_lost'])
    expect(all.at(-1)!.event.data).toEqual({ reason: 'too_many', count: 2, first_seq: 4, last_seq: 5 })
  })

  test('stays for readers however much pages tell after it, in the order of its numbers', async () => {
    const buffer = made({ kept: { events: 10, ownEvents: 4 } })
    for (let n = 0; n < 6; n++) buffer.emit(call(n))
    for (let n = 0; n < 100; n++) buffer.emit(line('a'))
    buffer.emit(call(6))
    for (let n = 0; n < 100; n++) buffer.emit(line('b'))
    expect(buffer.linesAfter(0, 1)!.last).toBe(4)
    expect(buffer.linesAfter(5, 1_000_000)!.text.split('\n').slice(0, 5)).toEqual([
      expect.stringContaining('call 5'),
      expect.stringContaining('not_kept'),
      expect.stringContaining('call 6'),
      expect.stringContaining('not_kept'),
      expect.stringContaining('"b"'),
    ])
    // The last four; the six others that fit are the very last ones.
    expect(seqs(await rest(buffer))).toEqual([4, 5, 6, 107, ...Array.from({ length: 6 }, (_, n) => 202 + n)])
  })
})

describe('a stream', () => {
  test('never shows what was before the next caller, not even to one that names an older event', () => {
    const buffer = made()
    for (let n = 0; n < 5; n++) buffer.emit(line('a'))
    buffer.hideFromNext()
    buffer.emit(line('b'))
    // The same for a number that no event has yet.
    expect([buffer.begin(undefined, true), buffer.begin(1, true), buffer.begin(6, false), buffer.begin(99, false)]).toEqual([5, 5, 6, 6])
  })

  test('of some types leaves out the others, and in the end names the last one that it has left out', async () => {
    const buffer = made()
    buffer.emit(line('a'))
    buffer.emit({ type: 'api_call', source })
    buffer.emit(line('b'))
    buffer.emit({ type: 'cdp_connect', source })
    expect(await frames(buffer, 0, ['console_log', 'nonesuch'])).toEqual([
      [1, 'console_log'],
      [3, 'console_log'],
      [4, ''],
    ])
  })

  test('ends by its signal, also while it waits', async () => {
    const buffer = made()
    const stop = new AbortController()
    const next = buffer.stream(0, undefined, stop.signal).next()
    stop.abort(new Error('enough'))
    await expect(next).rejects.toThrow('enough')
  })
})

test('events of a category that is withheld are dropped until the last one who withholds it has ended that', async () => {
  const buffer = made()
  const picture: NewEvent = { type: 'monitor_screenshot', source, data: { png: 'x' } }
  const ends = [buffer.withhold(['screenshot', 'interaction']), buffer.withhold(['screenshot'])]
  expect([buffer.captures('screenshot'), buffer.captures('console')]).toEqual([false, true])
  buffer.emit(picture)
  buffer.emit(line('told'))
  ends[0]!()
  buffer.emit(picture)
  ends[1]!()
  buffer.emit(picture)
  expect((await rest(buffer)).map(({ event }) => event.type)).toEqual(['console_log', 'monitor_screenshot'])
})
