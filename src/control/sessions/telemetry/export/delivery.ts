// Delivers one batch of a session: its spans, then its log records. Handles refused spans so that they do not block log records.
import { Latest } from '../../../../base/latest.ts'
import type { Log } from '../../../../base/log.ts'
import type { Headers } from '../destinations/headers.ts'
import { MOST_REMEMBERED, NO_TRACES_MS, SPANS_FORGET_MS, SPANS_WAIT_MS } from '../limits.ts'
import type { TelemetryMeter } from '../meter.ts'
import { logsOf, tracesOf, type Encoded, type Source, type Span } from './otlp.ts'
import type { Outcome, Sender } from './sender.ts'

/** Answers to spans that mean, if the key is valid for log records, that it is not valid for spans. */
const DENIED = new Set(['http_401', 'http_403'])

/** The events of one delivery, their session, and their destination. */
export interface Batch {
  /** The id of the export. */
  id: number
  destination: string
  source: Source
  target: { endpoint: string; headers: Headers }
  items: readonly Encoded[]
}

/** `spansError`: log records were delivered, and spans were given up. */
type Delivered = Exclude<Outcome, { kind: 'not_taken' | 'delivered' }> | { kind: 'delivered'; rejected: number; spansError?: string }

/**
 * The result for spans. `over`: they are not sent again; with `error`, they were refused. `again`: the whole batch is sent again. `denied`: the key is not
 * valid for spans, or not valid at all.
 */
type Sent = { kind: 'over'; error?: string } | { kind: 'again'; outcome: Exclude<Delivered, { kind: 'delivered' }> } | { kind: 'denied'; error: string }

interface DeliverySettings {
  sender: Sender
  meter: Pick<TelemetryMeter, 'refusedSpans' | 'skippedSpans'>
  log: Log
}

/** Makes the function that delivers a batch. It throws only the signal's reason. */
export function makeDelivery({ sender, meter, log }: DeliverySettings): (batch: Batch, signal: AbortSignal) => Promise<Delivered> {
  /** The last event of each export whose spans are done, so that they are not sent again when the log records fail. */
  const over = new Latest<number, { endpoint: string; seq: number }>(MOST_REMEMBERED)
  /** Addresses that refuse spans, by performance.now(): time of the first and of the last failure, and the time of the next attempt. */
  const troubles = new Latest<string, { since: number; last: number; until: number }>(MOST_REMEMBERED)

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
    // If the destination has a new address, that one has got no spans yet.
    const from = before?.endpoint === target.endpoint ? before.seq : 0
    const spans = items.flatMap(({ seq, span }) => (seq > from && span ? [span] : []))
    const sent = await sendSpans(batch, spans, signal)
    if (sent.kind === 'again') return sent.outcome
    if (sent.kind === 'over') over.set(id, { endpoint: target.endpoint, seq: items.at(-1)!.seq })
    const records = items.map(({ record }) => record)
    const logs = await sender.send(target, 'logs', logsOf(source, records), signal)
    if (logs.kind === 'not_taken') return { kind: 'refused', error: logs.error }
    if (logs.kind !== 'delivered') return logs
    // The key is valid for log records, but not for spans.
    if (sent.kind === 'denied') giveUp(batch, spans.length, sent.error)
    over.delete(id)
    return { kind: 'delivered', rejected: logs.rejected, ...(sent.error !== undefined && { spansError: sent.error }) }
  }
}
