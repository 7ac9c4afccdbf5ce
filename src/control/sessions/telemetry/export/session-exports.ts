// Exports of single sessions: stored events are read, made into records, and delivered to their destination, batch by batch.
import type { Envelope } from '../../../../agent/telemetry/contract.ts'
import { Latest } from '../../../../base/latest.ts'
import type { Log } from '../../../../base/log.ts'
import type { Sealer } from '../../../../base/sealed.ts'
import { headersOf } from '../destinations/destinations.ts'
import type { Headers } from '../destinations/headers.ts'
import { BATCH_BYTES, BATCH_RECORDS, BATCHES_IN_TURN, EXPORT_MS, MOST_BACKOFF_MS, MOST_REMEMBERED } from '../limits.ts'
import type { TelemetryMeter } from '../meter.ts'
import { readEvents, type Archive } from '../read.ts'
import { makeDelivery } from './delivery.ts'
import { makeEncoder, type Encode, type Encoded } from './otlp.ts'
import { noteDelivered, noteFailure, noteReached, noteRefused, oneDue, type DueExport } from './rows.ts'
import type { Sender } from './sender.ts'

export interface SessionExportsSettings {
  archive: Archive
  scope: string
  sealer: Sealer
  sender: Sender
  region: string
  /** Whether this replica exports. Only one replica does. */
  isOurs: () => boolean
  meter: TelemetryMeter
  log: Log
}

export class SessionExports {
  readonly #given: SessionExportsSettings
  readonly #send: ReturnType<typeof makeDelivery>
  /** Encoders by export. They are kept because the span of a page load begins with an earlier event. */
  readonly #encoders = new Latest<number, Encode>(MOST_REMEMBERED)
  /** Destinations that have failed. The exporter takes them out for another attempt. */
  readonly unwell = new Set<string>()

  constructor(given: SessionExportsSettings) {
    this.#given = given
    this.#send = makeDelivery(given)
  }

  /** Sends batch by batch until nothing is left, the destination fails, or {@link BATCHES_IN_TURN} are sent: then other sessions get the slot. */
  async work(id: number, signal: AbortSignal): Promise<void> {
    const { archive } = this.#given
    const first = await this.#due(id)
    if (!first) return
    const { session_id: session, last_seq: after, from_ts: from, until_ts: until, to } = first
    const encode = this.#encoders.get(id) ?? makeEncoder({ session })
    this.#encoders.set(id, encode)
    let left = BATCHES_IN_TURN
    let batch: Encoded[] = []
    let bytes = 0
    const flush = async (): Promise<boolean> => {
      const goesOn = batch.length === 0 || (await this.#deliver(id, batch, signal))
      ;[batch, bytes] = [[], 0]
      return goesOn && --left > 0
    }
    for await (const envelope of readEvents(archive, session, { after, before: to + 1, isKept: false }, true, signal)) {
      const { ts } = envelope.event
      if (ts < from || (until !== null && ts >= until)) continue
      const one = encoded(encode, envelope)
      if ((batch.length >= BATCH_RECORDS || bytes + one.bytes > BATCH_BYTES) && !(await flush())) return
      batch.push(one)
      bytes += one.bytes
    }
    if (batch.length > 0 && !(await this.#deliver(id, batch, signal))) return
    // Events of other times in the same runs are skipped, too.
    await noteReached(archive.db, id, to)
  }

  /** The export as it is now; undefined when it has nothing to deliver, or another replica exports. */
  async #due(id: number): Promise<DueExport | undefined> {
    const { archive, scope, isOurs } = this.#given
    return isOurs() ? oneDue(archive.db, scope, id) : undefined
  }

  /** Delivers a batch. False when no more should be sent now. */
  async #deliver(id: number, batch: readonly Encoded[], signal: AbortSignal): Promise<boolean> {
    const { archive, sealer, region, meter, log } = this.#given
    const { db } = archive
    // Read the export again: a changed destination applies to running exports, too.
    const now = await this.#due(id)
    if (!now) return false
    let headers: Headers
    try {
      headers = headersOf({ id: now.destination_id, headers: now.headers }, sealer)
    } catch {
      return this.#failed(now, { error: 'headers_unreadable', retryAfterMs: 0 })
    }
    const last = batch.at(-1)!.seq
    const { destination_id: destination, endpoint, project_id: project } = now
    const source = { session: now.session_id, project: project ?? undefined, region }
    const outcome = await this.#send({ id, destination, source, target: { endpoint, headers }, items: batch }, signal)
    switch (outcome.kind) {
      case 'failed':
        return this.#failed(now, outcome)
      case 'too_large': {
        if (batch.length === 1) break
        const half = Math.ceil(batch.length / 2)
        return (await this.#deliver(id, batch.slice(0, half), signal)) && this.#deliver(id, batch.slice(half), signal)
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

  async #failed({ destination_id: id }: DueExport, { error, retryAfterMs }: { error: string; retryAfterMs: number }): Promise<false> {
    const { archive, meter, log } = this.#given
    meter.failed()
    this.unwell.add(id)
    const failures = await noteFailure(archive.db, id, error, { firstMs: EXPORT_MS, mostMs: MOST_BACKOFF_MS, leastMs: retryAfterMs })
    if (failures === 1) log.warn({ destination: id, error }, 'telemetry cannot be exported; it is tried again')
    return false
  }
}

/** An event that cannot be encoded must not block others: it is sent without its data. */
function encoded(encode: Encode, { seq, event }: Envelope): Encoded {
  try {
    return encode({ seq, event })
  } catch {
    const { type, category, ts } = event
    return encode({ seq, event: { type, category, ts, source: { kind: event.source.kind }, data: {}, truncated: true } })
  }
}
