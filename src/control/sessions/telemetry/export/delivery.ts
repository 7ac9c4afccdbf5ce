// Delivers one batch of a session: its spans, then its log records. What becomes of spans that are not taken, so that they keep no log records back.
import type { Log } from '../../../../base/log.ts'
import type { Headers } from '../destinations/headers.ts'
import { MOST_REMEMBERED, NO_TRACES_MS, SPANS_FORGET_MS, SPANS_WAIT_MS } from '../limits.ts'
import { logsOf, tracesOf, type Encoded, type Source, type Span } from './otlp.ts'
import type { Outcome, Sender } from './sender.ts'

/** Answers to spans that mean that the key is not for them, if it is good for log records. */
const DENIED = new Set(['http_401', 'http_403'])

export interface SpanMeter {
  /** Spans that were not taken, and are not sent again. */
  refusedSpans(spans: number): void
  /** Spans that were not sent, because their address takes none. */
  skippedSpans(spans: number): void
}

/** What is delivered of whom, and where to. */
export interface Batch {
  /** Of the export. */
  id: number
  destination: string
  source: Source
  target: { endpoint: string; headers: Headers }
  items: readonly Encoded[]
}

/** `spansError`: log records have arrived, and spans were given up. */
export type Delivered = Exclude<Outcome, { kind: 'not_taken' | 'delivered' }> | { kind: 'delivered'; rejected: number; spansError?: string }

/** @throws the signal's reason only */
export type Deliver = (batch: Batch, signal: AbortSignal) => Promise<Delivered>

/** What became of spans: they are not to be sent again, `error` when they were not taken; their batch is to be sent again; or their key is not for them, or for nothing. */
type Sent = { kind: 'over'; error?: string } | { kind: 'again'; outcome: Exclude<Delivered, { kind: 'delivered' }> } | { kind: 'denied'; error: string }

export function makeDelivery({ sender, meter, log }: { sender: Sender; meter: SpanMeter; log: Log }): Deliver {
  /** Up to which event an export's spans are over, so that they are not sent again when its log records fail. */
  const over = new Latest<number, { endpoint: string; seq: number }>()
  /** Addresses that do not take spans, by performance.now(): since when they fail, when they did last, and until when they are not asked. */
  const troubles = new Latest<string, { since: number; last: number; until: number }>()

  function pause(endpoint: string, ms: number): number {
    const now = performance.now()
    const before = troubles.get(endpoint)
    const since = before && now - before.last < SPANS_FORGET_MS ? before.since : now
    troubles.set(endpoint, { since, last: now, until: now + ms })
    return now - since
  }

  function giveUp({ destination, target }: Batch, spans: number, error: string): void {
    pause(target.endpoint, NO_TRACES_MS)
    meter.refusedSpans(spans)
    log.warn({ destination, error, spans }, 'a destination does not take spans of telemetry; they are not sent again')
  }

  async function sendSpans(batch: Batch, spans: Span[], signal: AbortSignal): Promise<Sent> {
    const { endpoint } = batch.target
    if (spans.length === 0) return { kind: 'over' }
    if ((troubles.get(endpoint)?.until ?? 0) > performance.now()) {
      meter.skippedSpans(spans.length)
      return { kind: 'over' }
    }
    const outcome = await sender.send(batch.target, 'traces', tracesOf(batch.source, spans), signal)
    switch (outcome.kind) {
      case 'delivered':
        troubles.delete(endpoint)
        meter.refusedSpans(Math.min(outcome.rejected, spans.length))
        return { kind: 'over' }
      case 'not_taken':
        pause(endpoint, NO_TRACES_MS)
        meter.skippedSpans(spans.length)
        return { kind: 'over' }
      case 'too_large':
        if (batch.items.length > 1) return { kind: 'again', outcome }
        break
      case 'failed':
        if (DENIED.has(outcome.error)) return { kind: 'denied', error: outcome.error }
        if (pause(endpoint, 0) < SPANS_WAIT_MS) return { kind: 'again', outcome }
        giveUp(batch, spans.length, outcome.error)
        return { kind: 'over', error: outcome.error }
    }
    meter.refusedSpans(spans.length)
    return { kind: 'over', error: outcome.error }
  }

  return async (batch, signal) => {
    const { id, source, target, items } = batch
    const before = over.get(id)
    // An address that the destination has only now has got nothing yet.
    const from = before?.endpoint === target.endpoint ? before.seq : 0
    const spans = items.flatMap(({ seq, span }) => (seq > from && span ? [span] : []))
    const sent = await sendSpans(batch, spans, signal)
    if (sent.kind === 'again') return sent.outcome
    if (sent.kind === 'over') over.set(id, { endpoint: target.endpoint, seq: items.at(-1)!.seq })
    const records = items.map(({ record }) => record)
    const logs = await sender.send(target, 'logs', logsOf(source, records), signal)
    if (logs.kind === 'not_taken') return { kind: 'refused', error: logs.error }
    if (logs.kind !== 'delivered') return logs
    // The key is good, and not for spans.
    if (sent.kind === 'denied') giveUp(batch, spans.length, sent.error)
    over.delete(id)
    return { kind: 'delivered', rejected: logs.rejected, ...(sent.error !== undefined && { spansError: sent.error }) }
  }
}

/** The entries that were set last. */
class Latest<Key, Value> extends Map<Key, Value> {
  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size > MOST_REMEMBERED) this.delete(this.keys().next().value!)
    return this
  }
}
