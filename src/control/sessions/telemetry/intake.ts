// What of one session's telemetry waits to be stored. What comes here is from inside its instance: numbers, times and amounts are checked.
import { MAX_EVENT, MAX_SEQ, TYPES, type Envelope, type TelemetryEvent } from '../../../agent/telemetry/contract.ts'
import type { Position } from './rows.ts'
import { cut, lineOf, pack, SEGMENT_BYTES, type Line, type Segment } from './segments.ts'

/** How far the clock of another machine may be ahead of ours, in microseconds. An event of tomorrow would be kept for a day longer. */
const MAX_AHEAD = 60_000_000

/** How old the first event of a session may be. One of the past would be removed too early, or belong to a caller before. */
const MAX_BEFORE = 3_600_000_000
/** Levels of what an event has: what is made of it is made by functions that call themselves. */
export const MAX_DEPTH = 32
/** An event has nothing but what is known of it: no longer than the agent makes it, with some room for numbers and names that are written differently. */
const MAX_LENGTH = MAX_EVENT + 1024

/** What is easily compressed is limited as well: all of it is read again when it is listed or exported. */
const RAW_TIMES = 8

/** The most that one gap counts in the figures: its numbers are the agent's. */
const MAX_COUNTED = 100_000

/**
 * Why events are missing, in our own `monitor_events_lost` events: they were not kept long enough to be read; the session's limit on stored telemetry is
 * reached; the session ended before all was read.
 */
export type LossReason = 'not_kept' | 'archive_limit' | 'instance_ended'

/** Figures about what is stored. */
export interface TelemetryMeter {
  stored(events: number, bytes: number): void
  lost(events: number): void
}

interface IntakeSettings {
  id: string
  /** How far the session is stored. */
  position: Position | undefined
  /** Limit on its stored bytes. Before they are compressed, {@link RAW_TIMES} as many. */
  maxBytes: number
  meter: TelemetryMeter
}

/** An event that our own code makes about the capture. */
const lossEvent = (seq: number, ts: number, data: { reason: LossReason; count?: number; first_seq?: number; last_seq?: number }): Envelope => ({
  seq,
  event: { type: 'monitor_events_lost', category: 'monitor', ts, source: { kind: 'kernel_api' }, data },
})

export class Intake {
  readonly id: string
  /** The number of the last event that has come, stored or not. */
  last: number
  readonly #settings: IntakeSettings
  #lastTs: number
  #stored: number
  /** The same before it was compressed, as far as it came here. */
  #raw = 0
  #lines: Line[] = []
  #waiting = 0
  /** Runs that are made and not stored yet. They stay as they are until they are: a statement whose answer was lost may have stored them. */
  #runs: Segment[] = []
  /** Set while the limit is reached: how many events were left out, and whether that was told. */
  #full: { dropped: number; isReported: boolean } | undefined
  /** Since when something waits, by performance.now(). */
  #since: number | undefined

  constructor(settings: IntakeSettings) {
    const { id, position } = settings
    this.#settings = settings
    this.id = id
    this.last = position?.seq ?? 0
    this.#lastTs = position?.ts ?? Date.now() * 1000 - MAX_BEFORE
    this.#stored = position?.bytes ?? 0
    if (this.#stored >= settings.maxBytes) this.#full = { dropped: 0, isReported: true }
  }

  /** Bytes in memory that are not stored yet. */
  get waiting(): number {
    return this.#waiting
  }

  /** How long something has waited, in milliseconds. */
  get lagMs(): number {
    return this.#since === undefined ? 0 : performance.now() - this.#since
  }

  get hasMore(): boolean {
    return this.#lines.length > 0 || this.#runs.length > 0
  }

  /** Whether the limit is reached. */
  get isFull(): boolean {
    return this.#full !== undefined
  }

  /**
   * Takes the next event. `mayHaveMissed`: that numbers are missing before it may be because they were not kept for us; otherwise the agent has dropped them, and
   * tells of it. @throws when it has no number that an event can have
   */
  take({ seq, event }: Envelope, mayHaveMissed: boolean): void {
    if (seq <= this.last) return
    if (seq > MAX_SEQ) throw new Error(`an event has the number ${seq}`)
    const ts = Math.max(this.#lastTs, Math.min(event.ts, Date.now() * 1000 + MAX_AHEAD))
    const missing = seq - this.last - 1
    if (missing > 0) {
      this.#settings.meter.lost(Math.min(missing, MAX_COUNTED))
      const first = this.last + 1
      if (mayHaveMissed && event.type !== 'monitor_events_lost')
        this.#add(lossEvent(first, ts, { reason: 'not_kept', count: missing, first_seq: first, last_seq: seq - 1 }))
    }
    this.#add({ seq, event: bounded({ ...event, category: TYPES[event.type], ts }) })
  }

  /** Tells that events may be missing after the last one. */
  lose(reason: LossReason): void {
    this.#add(lossEvent(this.last + 1, Math.max(this.#lastTs, Date.now() * 1000), { reason }))
  }

  /** Nothing more comes: tells how much the limit has left out. */
  finish(): void {
    this.#tellDropped()
  }

  /** Its archive was deleted, or a part of it: `stored` bytes are left. */
  recount(stored: number): void {
    if (stored < this.#stored) this.#raw *= stored / this.#stored
    this.#stored = stored + this.#runs.reduce((sum, { bytes }) => sum + bytes, 0)
    if (!this.#full || this.#isAtLimit) return
    this.#tellDropped()
    this.#full = undefined
  }

  get #isAtLimit(): boolean {
    const { maxBytes } = this.#settings
    return this.#stored >= maxBytes || this.#raw >= RAW_TIMES * maxBytes
  }

  /** In the place of the last event that was left out. The first one has told of itself. */
  #tellDropped(): void {
    const { dropped = 0 } = this.#full ?? {}
    if (dropped < 2) return
    this.#full!.dropped = 0
    this.#push(lossEvent(this.last, this.#lastTs, { reason: 'archive_limit', count: dropped, last_seq: this.last }))
  }

  #add(envelope: Envelope): void {
    const { seq, event } = envelope
    this.last = seq
    this.#lastTs = event.ts
    if (!this.#full) return this.#push(envelope)
    this.#full.dropped++
    this.#settings.meter.lost(1)
    if (this.#full.isReported) return
    this.#full.isReported = true
    this.#push(lossEvent(seq, event.ts, { reason: 'archive_limit', first_seq: seq }))
  }

  #push(envelope: Envelope): void {
    let line = lineOf(envelope)
    if (line.json.length > MAX_LENGTH && envelope.event.category !== 'screenshot') line = lineOf({ seq: envelope.seq, event: withoutData(envelope.event) })
    this.#lines.push(line)
    this.#waiting += line.bytes
    this.#since ??= performance.now()
  }

  /** What is to be stored now: all that has come. */
  async runs(): Promise<readonly Segment[]> {
    const lines = this.#lines
    this.#lines = []
    for (const run of cut(lines, SEGMENT_BYTES)) {
      const segment = await pack(this.id, run)
      this.#runs.push(segment)
      this.#stored += segment.bytes
      this.#raw += run.reduce((sum, { bytes }) => sum + bytes, 0)
    }
    this.#waiting = this.#runs.reduce((sum, { bytes }) => sum + bytes, 0) + this.#lines.reduce((sum, { bytes }) => sum + bytes, 0)
    if (!this.#full && this.#isAtLimit) this.#full = { dropped: 0, isReported: false }
    return [...this.#runs]
  }

  /** These runs are stored. */
  saved(stored: readonly Segment[]): void {
    const done = new Set(stored)
    this.#runs = this.#runs.filter((run) => !done.has(run))
    for (const { events, bytes } of stored) {
      this.#waiting -= bytes
      this.#settings.meter.stored(events, bytes)
    }
    this.#since = this.hasMore ? performance.now() : undefined
  }
}

/** Only what every event has. */
const withoutData = ({ type, category, ts, source: { kind } }: TelemetryEvent): TelemetryEvent => ({ type, category, ts, source: { kind }, truncated: true })

const bounded = (event: TelemetryEvent): TelemetryEvent => (isWithin(event.data, MAX_DEPTH) ? event : withoutData(event))

/** Whether a value of JSON has at most so many levels. */
export function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((one) => isWithin(one, levels - 1))
}
