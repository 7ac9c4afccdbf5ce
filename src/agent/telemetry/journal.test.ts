// The journal: numbers, time, what is kept, what readers get, and that nothing is lost unseen.
import { describe, expect, test } from 'vitest'
import { EVENT_ID, EVENT_JSON } from '../../http/sse.ts'
import { MAX_EVENT, SETTABLE_CATEGORIES, type Envelope, type SettableCategory } from './contract.ts'
import { Journal, type JournalOptions } from './journal.ts'
import type { NewEvent } from './telemetry.ts'

const source = { kind: 'cdp' } as const
const line = (text: string): NewEvent => ({ type: 'console_log', source, data: { text } })
const made = (options: JournalOptions = {}, categories: SettableCategory[] = [...SETTABLE_CATEGORIES]) => {
  const journal = new Journal(options)
  void journal.capture({ categories, excluded_methods: [] })
  return journal
}

/** All that a reader gets until the journal is closed. */
async function rest(journal: Journal, after = 0): Promise<Envelope[]> {
  journal.close()
  const all: Envelope[] = []
  for await (const { json } of journal.read(after, AbortSignal.timeout(5_000))) all.push(JSON.parse(json) as Envelope)
  return all
}
const seqs = (all: readonly Envelope[]) => all.map(({ seq }) => seq)

/** The frames of a stream until the journal is closed: ids, and types of those that have data. */
async function frames(journal: Journal, after: number, types?: string[]): Promise<[number, string][]> {
  journal.close()
  const all: [number, string][] = []
  for await (const frame of journal.stream(after, types && new Set(types), AbortSignal.timeout(5_000))) {
    const { [EVENT_ID]: id, [EVENT_JSON]: json } = frame as unknown as { [EVENT_ID]: number; [EVENT_JSON]: string }
    all.push([id, json === '' ? '' : (JSON.parse(json) as Envelope).event.type])
  }
  return all
}

test('events have consecutive numbers from 1, their category, and a time that never runs backwards', async () => {
  const times = [50, 40, 60]
  const journal = made({ now: () => times.shift() ?? 100 })
  for (let n = 0; n < 3; n++) journal.emit(line(String(n)))
  const all = await rest(journal)
  expect(all.map(({ seq, event }) => [seq, event.category, event.ts])).toEqual([
    [1, 'console', 50],
    [2, 'console', 50],
    [3, 'console', 60],
  ])
})

test('pictures take at most their part of what is kept: the oldest are left out of their events, and other events stay', async () => {
  const journal = made({ length: 20_000, picturesLength: 5_000 })
  const picture: NewEvent = { type: 'monitor_screenshot', source, data: { png: 'x'.repeat(2_000) } }
  for (let n = 0; n < 10; n++) {
    journal.emit(line(String(n)))
    journal.emit(picture)
  }
  const all = await rest(journal)
  expect(seqs(all)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
  const pictures = all.filter(({ event }) => event.type === 'monitor_screenshot').map(({ event }) => [event.data !== undefined, event.truncated ?? false])
  expect(pictures).toEqual([...Array(8).fill([false, true]), ...Array(2).fill([true, false])])
})

test('pictures that are forgotten with their events make room for others', async () => {
  const journal = made({ events: 3, picturesLength: 5_000 })
  for (let n = 0; n < 20; n++) {
    journal.emit({ type: 'monitor_screenshot', source, data: { png: 'x'.repeat(2_000) } })
    for (let more = 0; more < 2; more++) journal.emit(line('between'))
  }
  const all = await rest(journal)
  expect(all.map(({ event }) => event.data !== undefined)).toEqual([true, true, true])
})

test('what began before the browser goes to another caller can tell so', () => {
  const journal = made()
  const { floor } = journal
  journal.emit(line('a'))
  expect(journal.floor).toBe(floor)
  // Also when nothing was told since the last one.
  for (const before of [floor, floor + 1]) {
    expect(journal.floor).toBe(before)
    journal.hideFromNext()
    expect(journal.floor).not.toBe(before)
  }
})

test('the time is in microseconds since 1970', async () => {
  const journal = made()
  const before = Date.now() * 1000
  journal.emit(line('a'))
  const [one] = await rest(journal)
  expect(Math.abs(one!.event.ts - before)).toBeLessThan(60_000_000)
})

test('what is not captured leaves no trace, and the monitor is captured with what Chromium tells', async () => {
  const journal = made({}, ['control'])
  journal.emit(line('a'))
  journal.emit({ type: 'monitor_disconnected', source })
  journal.emit({ type: 'api_call', source })
  expect(journal.captures('monitor')).toBe(false)
  void journal.capture({ categories: ['console'], excluded_methods: [] })
  expect(journal.captures('monitor')).toBe(true)
  journal.emit({ type: 'api_call', source })
  journal.emit({ type: 'monitor_disconnected', source })
  expect((await rest(journal)).map(({ seq, event }) => [seq, event.type])).toEqual([
    [1, 'api_call'],
    [2, 'monitor_disconnected'],
  ])
})

test('a change of what is captured is told once it holds', () => {
  const journal = made({}, [])
  const seen: boolean[] = []
  const end = journal.onChange(() => seen.push(journal.captures('network')))
  void journal.capture({ categories: ['network'], excluded_methods: ['Page.navigate'] })
  expect([...journal.excluded]).toEqual(['Page.navigate'])
  void journal.capture({ categories: [], excluded_methods: [] })
  end()
  void journal.capture({ categories: ['network'], excluded_methods: [] })
  expect(seen).toEqual([true, false])
})

describe('what is kept', () => {
  test('is bounded in number: the oldest go, and the gap shows', async () => {
    const journal = made({ events: 10 })
    for (let n = 0; n < 100; n++) journal.emit(line(String(n)))
    expect(seqs(await rest(journal))).toEqual([91, 92, 93, 94, 95, 96, 97, 98, 99, 100])
  })

  test('is bounded in length', async () => {
    const journal = made({ length: 10_000 })
    for (let n = 0; n < 100; n++) journal.emit(line('x'.repeat(900)))
    const all = await rest(journal)
    expect(all.at(-1)!.seq).toBe(100)
    expect(JSON.stringify(all).length).toBeLessThan(10_100)
  })

  test('has at least the 1,024 events that the API promises', async () => {
    const journal = made()
    for (let n = 0; n < 3000; n++) journal.emit(line('a'))
    expect((await rest(journal)).length).toBeGreaterThanOrEqual(1024)
  })

  test('an event that is too long is there without its data, and says so', async () => {
    const journal = made()
    journal.emit(line('x'.repeat(MAX_EVENT)))
    journal.emit({ type: 'monitor_screenshot', source, data: { png: 'x'.repeat(MAX_EVENT) } })
    const [cut, picture] = await rest(journal)
    expect([cut!.event.data, cut!.event.truncated, picture!.event.truncated]).toEqual([undefined, true, undefined])
  })
})

describe('a flood', () => {
  test('is cut to what a second may have; the numbers show the gap, and an event tells of it', async () => {
    let now = 0
    const journal = made({ eventsASecond: 3, now: () => now })
    for (let n = 0; n < 10; n++) journal.emit(line('a'))
    now = 1_000_001
    journal.emit(line('b'))
    const all = await rest(journal)
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
    const journal = made({ eventsASecond: 1, lengthASecond: 500 })
    for (let n = 0; n < 3; n++) journal.emit(line('a'))
    const last = (await rest(journal)).at(-1)!
    expect([last.event.type, last.event.data]).toEqual(['monitor_events_lost', { reason: 'too_many', count: 2, first_seq: 2, last_seq: 3 }])
  })
})

describe('what pages cannot make', () => {
  const call = (n: number): NewEvent => ({ type: 'api_call', source: { kind: 'kernel_api' }, data: { operation_id: `call ${n}` } })
  const own: NewEvent[] = [call(0), { type: 'cdp_connect', source }, { type: 'service_crashed', source }, { type: 'platform_api_call', source }]

  /** Fill a second to its last hundred characters. */
  const LENGTHS = [30_000, 3_000, 300, 0]

  test.each<[string, (n: number) => NewEvent]>([
    ['events', () => ({ type: 'page_layout_shift', source, data: { time: 1 } })],
    ['characters', (n) => ({ type: 'network_response', source, data: { body: 'x'.repeat(LENGTHS[Math.floor(n / 300)] ?? 0) } })],
    ['failures', () => ({ type: 'monitor_init_failed', source, data: { step: 'Page.enable' } })],
  ])('is told though a page has told all %s that a second may have', async (_, flooding) => {
    const journal = made({ now: () => 0 })
    for (let n = 0; n < 5_000; n++) journal.emit(flooding(n))
    for (const event of own) journal.emit(event)
    const all = await rest(journal)
    expect(all.filter(({ event }) => own.some(({ type }) => type === event.type)).map(({ event }) => event.type)).toEqual(own.map(({ type }) => type))
    expect(all.at(-1)!.event).toMatchObject({ type: 'monitor_events_lost', data: { reason: 'too_many' } })
  })

  test('is bounded, too, and takes nothing from pages', async () => {
    const journal = made({ ownEventsASecond: 3, now: () => 0 })
    for (let n = 0; n < 5; n++) journal.emit(call(n))
    journal.emit(line('a'))
    const all = await rest(journal)
    expect(all.map(({ event }) => event.type)).toEqual([...Array(3).fill('api_call'), 'console_log', 'monitor_events_lost'])
    expect(all.at(-1)!.event.data).toEqual({ reason: 'too_many', count: 2, first_seq: 4, last_seq: 5 })
  })

  test('stays for readers however much pages tell after it, in the order of its numbers', async () => {
    const journal = made({ events: 10, ownEvents: 4 })
    for (let n = 0; n < 6; n++) journal.emit(call(n))
    for (let n = 0; n < 100; n++) journal.emit(line('a'))
    journal.emit(call(6))
    for (let n = 0; n < 100; n++) journal.emit(line('b'))
    expect(JSON.parse(journal.linesAfter(0, 1)!.text)).toMatchObject({ seq: 4 })
    expect(journal.linesAfter(5, 1_000_000)!.text.split('\n').slice(0, 3)).toEqual([
      expect.stringContaining('call 5'),
      expect.stringContaining('call 6'),
      expect.stringContaining('"b"'),
    ])
    // The four last ones; the six others that fit are the last of all.
    expect(seqs(await rest(journal))).toEqual([4, 5, 6, 107, ...Array.from({ length: 6 }, (_, n) => 202 + n)])
  })
})

describe('a stream', () => {
  test('begins with what comes next; with replay, with the oldest; after an event, with the one after it', () => {
    const journal = made()
    for (let n = 0; n < 5; n++) journal.emit(line('a'))
    expect([journal.begin(undefined, false), journal.begin(undefined, true), journal.begin(3, true), journal.begin(99, false)]).toEqual([5, 0, 3, 5])
  })

  test('never shows what was before the next caller, not even to one that names an older event', () => {
    const journal = made()
    for (let n = 0; n < 5; n++) journal.emit(line('a'))
    journal.hideFromNext()
    journal.emit(line('b'))
    expect([journal.begin(undefined, true), journal.begin(1, true), journal.begin(6, false)]).toEqual([5, 5, 6])
  })

  test('wakes for each event, and several readers get all of them', async () => {
    const journal = made()
    const readers = [0, 1, 2].map(async () => {
      const seen: number[] = []
      for await (const { seq } of journal.read(0, AbortSignal.timeout(5_000))) if (seen.push(seq) === 50) break
      return seen
    })
    for (let n = 0; n < 50; n++) {
      journal.emit(line('a'))
      if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const expected = Array.from({ length: 50 }, (_, n) => n + 1)
    expect(await Promise.all(readers)).toEqual([expected, expected, expected])
  })

  test('of some types leaves out the others, and in the end names the last one that it has left out', async () => {
    const journal = made()
    journal.emit(line('a'))
    journal.emit({ type: 'api_call', source })
    journal.emit(line('b'))
    journal.emit({ type: 'cdp_connect', source })
    expect(await frames(journal, 0, ['console_log', 'nonesuch'])).toEqual([
      [1, 'console_log'],
      [3, 'console_log'],
      [4, ''],
    ])
  })

  test('without a filter has no frames without data', async () => {
    const journal = made()
    journal.emit(line('a'))
    expect(await frames(journal, 0)).toEqual([[1, 'console_log']])
  })

  test('ends by its signal, also while it waits', async () => {
    const journal = made()
    const stop = new AbortController()
    const next = journal.read(0, stop.signal).next()
    stop.abort(new Error('enough'))
    await expect(next).rejects.toThrow('enough')
  })
})

test('events of a category that is withheld are dropped until the last one who withholds it has ended that', async () => {
  const journal = made()
  const picture: NewEvent = { type: 'monitor_screenshot', source, data: { png: 'x' } }
  const ends = [journal.withhold(['screenshot', 'interaction']), journal.withhold(['screenshot'])]
  expect([journal.captures('screenshot'), journal.captures('console')]).toEqual([false, true])
  journal.emit(picture)
  journal.emit(line('told'))
  ends[0]!()
  journal.emit(picture)
  ends[1]!()
  journal.emit(picture)
  expect((await rest(journal)).map(({ event }) => event.type)).toEqual(['console_log', 'monitor_screenshot'])
})
