// Delivers one batch of a session: its log records, then its spans. What becomes of spans that are not taken, so that they keep no log records back.
import type { Log } from '../../../../base/log.ts'
import type { Headers } from '../destinations/headers.ts'
import { logsOf, tracesOf, type Encoded, type Source } from './otlp.ts'
import type { Outcome, Sender } from './sender.ts'

/** An address that takes no traces is asked again after this time. */
const NO_TRACES_MS = 10 * 60_000
/**
 * How long an address that takes log records may fail to take spans. After this time its spans are given up, and the log records go on without them. A restart of
 * its traces pipeline is shorter.
 */
const SPANS_WAIT_MS = 2 * 60_000
/** After this time without another one, a failure is forgotten. Longer than an address may ask us to wait. */
const FORGET_MS = 30 * 60_000
/** Answers to spans that mean that the key is not for them, if it was good for log records just now. */
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

type Failure = Extract<Outcome, { kind: 'failed' }>

/** How far a batch has arrived of which spans failed: the numbers of the last log record and of the last span, and how many log records were rejected. */
interface Halfway {
  endpoint: string
  logs: number
  rejected: number
  spans: number
  spansError?: string
}

export interface Delivery {
  /** What the answer to the spans means is for both only if they are to be sent again. @throws the signal's reason only */
  deliver(batch: Batch, signal: AbortSignal): Promise<Delivered>
  /** Exports of which batches have arrived in part. */
  readonly halfway: readonly number[]
  /** Forgets exports that are over. */
  forget(ids: readonly number[]): void
}

export function makeDelivery({ sender, meter, log }: { sender: Sender; meter: SpanMeter; log: Log }): Delivery {
  const halfway = new Map<number, Halfway>()
  /** Addresses that do not take spans, by performance.now(): since when they fail, when they did last, and until when they are not asked. */
  const traces = new Map<string, { since: number; last: number; until: number }>()

  /** Undefined when they have arrived or were given up. `isAllowed`: log records were taken just now. */
  async function sendSpans(batch: Batch, done: Halfway, isAllowed: boolean, signal: AbortSignal): Promise<Failure | undefined> {
    const { destination, source, target, items } = batch
    const spans = items.flatMap(({ span }) => span ?? [])
    if (spans.length === 0) return undefined
    const { endpoint } = target
    const now = performance.now()
    const trouble = traces.get(endpoint)
    if (trouble && trouble.until > now) {
      meter.skippedSpans(spans.length)
      return undefined
    }
    const outcome = await sender.send(target, 'traces', tracesOf(source, spans), signal)
    if (outcome.kind === 'delivered') {
      traces.delete(endpoint)
      meter.refusedSpans(Math.min(outcome.rejected, spans.length))
      return undefined
    }
    const { error } = outcome
    if (outcome.kind === 'too_large' && spans.length > 1) {
      const half = Math.ceil(items.length / 2)
      for (const part of [items.slice(0, half), items.slice(half)]) {
        const failure = await sendSpans({ ...batch, items: part }, done, isAllowed, signal)
        if (failure) return failure
        done.spans = part.at(-1)!.seq
      }
      return undefined
    }
    const isRecent = trouble !== undefined && now - trouble.last < FORGET_MS
    const since = isRecent ? trouble.since : now
    const isDenied = outcome.kind === 'failed' && isAllowed && DENIED.has(error)
    if (outcome.kind === 'failed' && !isDenied && now - since < SPANS_WAIT_MS) {
      traces.set(endpoint, { since, last: now, until: 0 })
      return outcome
    }
    if (outcome.kind === 'not_taken' || outcome.kind === 'failed') traces.set(endpoint, { since, last: now, until: now + NO_TRACES_MS })
    if (outcome.kind === 'not_taken') {
      meter.skippedSpans(spans.length)
      return undefined
    }
    meter.refusedSpans(spans.length)
    done.spansError = error
    log.warn({ destination, error, spans: spans.length }, 'a destination does not take spans of telemetry; they are not sent again')
    return undefined
  }

  return {
    async deliver(batch, signal) {
      const { id, source, target, items } = batch
      const { endpoint } = target
      const known = halfway.get(id)
      // An address that the destination has only now has got nothing yet.
      const done: Halfway = known?.endpoint === endpoint ? known : { endpoint, logs: 0, rejected: 0, spans: 0 }
      const last = items.at(-1)!.seq
      const records = items.flatMap(({ seq, record }) => (seq > done.logs ? record : []))
      if (records.length > 0) {
        const logs = await sender.send(target, 'logs', logsOf(source, records), signal)
        if (logs.kind !== 'delivered') return logs.kind === 'not_taken' ? { kind: 'refused', error: logs.error } : logs
        done.logs = last
        done.rejected += logs.rejected
      }
      halfway.set(id, done)
      const failure = await sendSpans({ ...batch, items: items.filter(({ seq }) => seq > done.spans) }, done, records.length > 0, signal)
      if (failure) return failure
      const { rejected, spansError } = done
      done.spans = Math.max(done.spans, last)
      done.rejected = 0
      delete done.spansError
      // More of it has arrived already when a batch is delivered in halves.
      if (done.logs <= last) halfway.delete(id)
      return { kind: 'delivered', rejected, ...(spansError && { spansError }) }
    },
    get halfway() {
      return [...halfway.keys()]
    },
    forget(ids) {
      for (const id of ids) halfway.delete(id)
      const now = performance.now()
      for (const [endpoint, { last, until }] of traces) if (until < now && now - last > FORGET_MS) traces.delete(endpoint)
    },
  }
}
