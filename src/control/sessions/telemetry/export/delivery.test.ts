// A batch and its spans: a destination that accepts log records gets all of them, even if it refuses spans, and refused spans are counted.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { TYPES, type EventType } from '../../../../agent/telemetry/contract.ts'
import { silentLog } from '../../../../base/log.ts'
import { makeDelivery, type Batch } from './delivery.ts'
import { makeEncoder, type Encoded } from './otlp.ts'
import type { Outcome } from './sender.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

const TAKEN: Outcome = { kind: 'delivered', rejected: 0 }
const failed = (error: string): Outcome => ({ kind: 'failed', error, retryAfterMs: 0 })
const { signal } = new AbortController()

/** The fields of a request that are compared. */
interface Sent {
  what: 'logs' | 'traces'
  count: number
}

/** A destination that answers as `answers` says, and the results of batches for it. */
function made(answers: { logs?: (count: number) => Outcome; traces?: (count: number) => Outcome }) {
  const sent: Sent[] = []
  const counted = { refused: 0, skipped: 0 }
  const sender = {
    async send(_: unknown, what: 'logs' | 'traces', content: object) {
      const [resource] = Object.values(content as Record<string, Record<string, Record<string, unknown[]>[]>[]>)[0]!
      const [scope] = Object.values(resource!)[1] as unknown as Record<string, unknown[]>[]
      const count = Object.values(scope!)[1]!.length
      sent.push({ what, count })
      return answers[what]?.(count) ?? TAKEN
    },
    [Symbol.dispose]() {},
  }
  const meter = { refusedSpans: (count: number) => (counted.refused += count), skippedSpans: (count: number) => (counted.skipped += count) }
  const send = makeDelivery({ sender, meter, log: silentLog })
  const deliver = (items: Encoded[], more: Partial<Batch> = {}) =>
    send(
      {
        id: 1,
        destination: 'd',
        source: { session: 's', project: undefined, region: 'eu-west' },
        target: { endpoint: 'http://a', headers: {} },
        items,
        ...more,
      },
      signal,
    )
  return { sent, counted, deliver, of: (what: Sent['what']) => sent.filter((one) => one.what === what).map(({ count }) => count) }
}

const encode = makeEncoder({ session: 's' })
const one = (seq: number, type: EventType = 'api_call'): Encoded =>
  encode({ seq, event: { type, category: TYPES[type], ts: seq, source: { kind: 'cdp' }, data: { operation_id: 'x', duration_ms: 1 } } })
const calls = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => one(from + at))

test('a key that has just become wrong loses no spans: they are sent again with the next one', async () => {
  let answer = failed('http_503')
  const { counted, deliver, of } = made({ traces: () => answer, logs: () => answer })
  expect(await deliver(calls(1, 3))).toMatchObject({ kind: 'failed' })
  answer = failed('http_401')
  expect(await deliver(calls(1, 3))).toMatchObject({ kind: 'failed' })
  answer = TAKEN
  expect(await deliver(calls(1, 3))).toEqual(TAKEN)
  expect([of('logs').at(-1), of('traces'), counted]).toEqual([3, [3, 3, 3], { refused: 0, skipped: 0 }])
})

test('traces that fail for two minutes are given up and counted; log records go on without them, and spans again when the traces are well', async () => {
  let answer = failed('http_503')
  const { counted, deliver, of } = made({ traces: () => answer })
  for (let seconds = 0; seconds < 120; seconds += 60) {
    expect(await deliver(calls(1, 3))).toMatchObject({ kind: 'failed' })
    vi.advanceTimersByTime(60_000)
  }
  expect(await deliver(calls(1, 3))).toEqual({ kind: 'delivered', rejected: 0, spansError: 'http_503' })
  expect(await deliver(calls(4, 5))).toEqual(TAKEN)
  expect([of('logs'), of('traces'), counted]).toEqual([[3, 2], [3, 3, 3], { refused: 3, skipped: 2 }])
  // Spans are tried once more after a while. Log records do not wait for them again.
  vi.advanceTimersByTime(10 * 60_000 + 1)
  expect(await deliver(calls(6, 6))).toMatchObject({ kind: 'delivered', spansError: 'http_503' })
  vi.advanceTimersByTime(10 * 60_000 + 1)
  answer = TAKEN
  expect(await deliver(calls(7, 7))).toEqual(TAKEN)
  answer = failed('http_503')
  expect(await deliver(calls(8, 8))).toMatchObject({ kind: 'failed' })
  expect(counted).toEqual({ refused: 4, skipped: 2 })
})

test('spans that are refused for good, or in part, are counted', async () => {
  let answer: Outcome = { kind: 'refused', error: 'http_400' }
  const { counted, deliver, of } = made({ traces: () => answer })
  expect(await deliver(calls(1, 3))).toEqual({ kind: 'delivered', rejected: 0, spansError: 'http_400' })
  answer = { kind: 'delivered', rejected: 2 }
  expect(await deliver(calls(4, 6))).toEqual(TAKEN)
  expect([of('traces'), counted]).toEqual([[3, 3], { refused: 5, skipped: 0 }])
})

test('a destination without traces is not asked for ten minutes, and the spans that it does not get are counted as such', async () => {
  const { counted, deliver, of } = made({ traces: () => ({ kind: 'not_taken', error: 'http_404' }) })
  for (let seq = 1; seq <= 3; seq++) expect(await deliver(calls(seq, seq))).toEqual(TAKEN)
  vi.advanceTimersByTime(10 * 60_000 + 1)
  await deliver(calls(4, 4))
  expect([of('traces'), counted]).toEqual([[1, 1], { refused: 0, skipped: 4 }])
})

test('a request with too many spans is to be sent in halves; one span that is too large alone is counted', async () => {
  const { counted, deliver, of } = made({ traces: (count) => (count > 2 ? { kind: 'too_large', error: 'http_413' } : TAKEN) })
  expect(await deliver(calls(1, 4))).toMatchObject({ kind: 'too_large' })
  expect(await deliver(calls(1, 2))).toEqual(TAKEN)
  expect([of('logs'), of('traces'), counted.refused]).toEqual([[2], [4, 2], 0])
  const other = made({ traces: () => ({ kind: 'too_large', error: 'http_413' }) })
  expect(await other.deliver(calls(1, 1))).toMatchObject({ kind: 'delivered', spansError: 'http_413' })
  expect(other.counted.refused).toBe(1)
})
