// Exports telemetry in the background: what is archived of sessions goes to their destinations, in batches, at least once.
import type { Envelope } from '../../../../agent/telemetry/contract.ts'
import type { Log } from '../../../../base/log.ts'
import type { Sealer } from '../../../../base/sealed.ts'
import { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import { headersOf } from '../destinations/destinations.ts'
import type { Headers } from '../destinations/headers.ts'
import {
  BATCH_BYTES,
  BATCH_RECORDS,
  BATCHES_IN_TURN,
  EXPORT_MS,
  EXPORTS_AT_ONCE,
  EXPORTS_AT_ONCE_EACH,
  EXPORTS_FOUND,
  MOST_BACKOFF_MS,
  MOST_REMEMBERED,
  OVER_MS,
  UPKEEP_MS,
} from '../limits.ts'
import { makeDelivery, type SpanMeter } from './delivery.ts'
import { makeEncoder, type Encoded } from './otlp.ts'
import {
  dropBehind,
  dueWork,
  finishOver,
  lagOf,
  noteDelivered,
  noteFailure,
  noteReached,
  noteRefused,
  oneDue,
  removeArrived,
  type DueWork,
  type Work,
} from './rows.ts'
import type { Sender } from './sender.ts'

/** Counts events, or requests. */
export interface ExportMeter extends SpanMeter {
  delivered(events: number): void
  /** Not taken, and not sent again. */
  refused(events: number): void
  /** Given up because their destination was behind by too much. */
  dropped(events: number): void
  failed(): void
}

interface ExporterSettings {
  db: Db
  scope: string
  sealer: Sealer
  sender: Sender
  /** Archived events of a session with greater numbers than `after`, up to `to`, in their order. */
  read: (session: string, window: { after: number; to: number }, signal: AbortSignal) => AsyncIterable<Envelope>
  removeObject: (key: string) => Promise<void>
  region: string
  /** How far a destination may be behind, of one session: bytes of what is archived, and time. */
  behind: { bytes: number; ms: number }
  /** Whether this replica exports; the others do not. */
  isOurs: () => boolean
  meter: ExportMeter
  log: Log
}

export interface Exporter extends AsyncDisposable {
  /** Seconds since the oldest event that is not delivered. */
  readonly lag: number
}

/**
 * Exports until it is disposed. How far it is is noted after each request, so a service that dies in between, or two that export for a moment, send a batch again and lose
 * nothing.
 */
export function exportTelemetry({ db, scope, sealer, sender, read, removeObject, region, behind, isOurs, meter, log }: ExporterSettings): Exporter {
  const stop = new AbortController()
  const { signal } = stop
  const slots = new Slots(EXPORTS_AT_ONCE)
  const send = makeDelivery({ sender, meter, log })
  /** The work for each destination that has some, and those that have failed in it. */
  const working = new Map<string, Promise<void>>()
  const unwell = new Set<string>()
  /** Aborts when the next look should be at once. */
  let lookNow = new AbortController()
  const encoders = new Map<number, ReturnType<typeof makeEncoder>>()
  /** Exports that did not work, for a reason that is not their destination's: how often, and until when they are left alone, by performance.now(). */
  const resting = new Map<number, { failures: number; until: number }>()
  const troubled = new Set<string>()
  let lag = 0

  function encoderOf({ id, session_id: session }: Work): ReturnType<typeof makeEncoder> {
    const encoder = encoders.get(id) ?? makeEncoder({ session })
    encoders.delete(id)
    encoders.set(id, encoder)
    if (encoders.size > MOST_REMEMBERED) encoders.delete(encoders.keys().next().value!)
    return encoder
  }

  /** Sends batch by batch until there is no more, the destination fails, or others have their turn. */
  async function work(id: number): Promise<void> {
    const first = isOurs() ? await oneDue(db, scope, id) : undefined
    if (!first) return
    const encode = encoderOf(first)
    const { session_id: session, from_ts: from, until_ts: until, to } = first
    let left = BATCHES_IN_TURN
    let batch: Encoded[] = []
    let bytes = 0
    const flush = async (): Promise<boolean> => {
      const goesOn = batch.length === 0 || (await deliver(id, batch))
      ;[batch, bytes] = [[], 0]
      return goesOn && --left > 0
    }
    for await (const envelope of read(session, { after: first.last_seq, to }, signal)) {
      const { ts } = envelope.event
      if (ts < from || (until !== null && ts >= until)) continue
      const one = encoded(encode, envelope)
      if ((batch.length >= BATCH_RECORDS || bytes + one.bytes > BATCH_BYTES) && !(await flush())) return
      batch.push(one)
      bytes += one.bytes
    }
    if (batch.length > 0 && !(await deliver(id, batch))) return
    // Also past events of other times, which are in the same runs.
    await noteReached(db, id, to)
  }

  /** False when no more should be sent now. */
  async function deliver(id: number, batch: readonly Encoded[]): Promise<boolean> {
    // As it is now: a change of the destination is for sessions that export already.
    const now = isOurs() ? await oneDue(db, scope, id) : undefined
    if (!now) return false
    let headers: Headers
    try {
      headers = headersOf({ id: now.destination_id, headers: now.headers }, sealer)
    } catch {
      return failed(now, { error: 'headers_unreadable', retryAfterMs: 0 })
    }
    const last = batch.at(-1)!.seq
    const { destination_id: destination, endpoint, project_id: project } = now
    const source = { session: now.session_id, project: project ?? undefined, region }
    const outcome = await send({ id, destination, source, target: { endpoint, headers }, items: batch }, signal)
    switch (outcome.kind) {
      case 'failed':
        return failed(now, outcome)
      case 'too_large': {
        if (batch.length === 1) break
        const half = Math.ceil(batch.length / 2)
        return (await deliver(id, batch.slice(0, half))) && deliver(id, batch.slice(half))
      }
      case 'delivered':
        if (outcome.rejected > 0) meter.refused(Math.min(outcome.rejected, batch.length))
        meter.delivered(Math.max(0, batch.length - outcome.rejected))
        if (now.consecutive_failures > 0) log.info({ destination }, 'telemetry is exported again')
        await noteDelivered(db, now, last)
        if (outcome.spansError) await noteRefused(db, destination, outcome.spansError)
        return true
    }
    meter.refused(batch.length)
    await noteReached(db, id, last)
    await noteRefused(db, destination, outcome.error)
    log.warn({ destination, error: outcome.error, events: batch.length }, 'a destination does not take events of telemetry; they are not sent again')
    return true
  }

  async function failed({ destination_id: id }: Work, { error, retryAfterMs }: { error: string; retryAfterMs: number }): Promise<false> {
    meter.failed()
    unwell.add(id)
    const failures = await noteFailure(db, id, error, { firstMs: EXPORT_MS, mostMs: MOST_BACKOFF_MS, leastMs: retryAfterMs })
    if (failures === 1) log.warn({ destination: id, error }, 'telemetry cannot be exported; it is tried again')
    return false
  }

  /** Does something with the database. What fails is done again in the next round. False when it has failed. */
  async function attempt(name: string, what: () => Promise<void>): Promise<boolean> {
    try {
      await what()
      troubled.delete(name)
      return true
    } catch (err) {
      if (signal.aborted) return true
      if (!troubled.has(name)) log.error({ err, of: name }, 'the export of telemetry did not work; it is tried again')
      troubled.add(name)
      return false
    }
  }

  /** One that cannot be exported now keeps nothing busy, and is left alone for longer and longer. */
  function rest(id: number, hasWorked: boolean): void {
    if (hasWorked) return void resting.delete(id)
    const failures = (resting.get(id)?.failures ?? 0) + 1
    resting.set(id, { failures, until: performance.now() + Math.min(EXPORT_MS * 2 ** Math.min(failures, 30), MOST_BACKOFF_MS) })
  }

  async function round(): Promise<void> {
    const now = performance.now()
    // One that is not tried again is no longer there.
    for (const [id, { until }] of resting) {
      if (until + 2 * MOST_BACKOFF_MS > now) continue
      resting.delete(id)
      troubled.delete(`export ${id}`)
    }
    const left = [...resting].filter(([, { until }]) => until > now).map(([id]) => id)
    const due = Map.groupBy(await dueWork(db, scope, EXPORTS_FOUND, left), ({ destination_id: destination }) => destination)
    for (const [destination, found] of due)
      if (!working.has(destination))
        working.set(
          destination,
          workThrough(destination, found).finally(() => working.delete(destination)),
        )
  }

  /** Works on exports of a destination, some at the same time, until all had their turn or it fails. */
  async function workThrough(destination: string, found: readonly DueWork[]): Promise<void> {
    unwell.delete(destination)
    const left = found.map(({ id }) => id)
    const worker = async () => {
      while (!signal.aborted && !unwell.has(destination)) {
        const id = left.shift()
        if (id === undefined) return
        rest(id, await attempt(`export ${id}`, () => slots.run(() => work(id), signal)))
      }
    }
    // One session shows whether a destination is well again.
    await Promise.all(Array.from({ length: found[0]!.consecutive_failures > 0 ? 1 : EXPORTS_AT_ONCE_EACH }, worker))
    if (found.length === EXPORTS_FOUND && !unwell.has(destination)) lookNow.abort()
  }

  async function pause(): Promise<void> {
    await sleep(EXPORT_MS, AbortSignal.any([signal, lookNow.signal])).catch(() => signal.throwIfAborted())
    lookNow = new AbortController()
  }

  async function upkeep(): Promise<void> {
    const dropped = await dropBehind(db, scope, { bytes: behind.bytes, before: (Date.now() - behind.ms) * 1000 })
    if (dropped > 0) {
      meter.dropped(dropped)
      log.warn({ events: dropped }, 'events of telemetry were given up: their destinations are behind by too much')
    }
    await finishOver(db, scope, OVER_MS)
    for (const object of await removeArrived(db, scope)) await removeObject(object)
    lag = await lagOf(db, scope)
  }

  const run = async () => {
    for (let keptAt = -Infinity; ; await pause()) {
      if (!isOurs()) {
        lag = 0
        continue
      }
      await attempt('round', round)
      if (performance.now() < keptAt + UPKEEP_MS) continue
      keptAt = performance.now()
      await attempt('upkeep', upkeep)
    }
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    get lag() {
      return lag
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
      await Promise.all(working.values())
    },
  }
}

/** One that cannot be made into a record keeps no others back: it goes without what is in it. */
function encoded(encode: ReturnType<typeof makeEncoder>, { seq, event }: Envelope): Encoded {
  try {
    return encode({ seq, event })
  } catch {
    const { type, category, ts } = event
    return encode({ seq, event: { type, category, ts, source: { kind: event.source.kind }, data: {}, truncated: true } })
  }
}
