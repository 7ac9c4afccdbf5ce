// Follows the telemetry of one session: reads it from its agent until the session ends, and keeps it until it is stored. The data comes from inside the
// instance, so its form, numbers, times and size are checked.
import * as z from 'zod'
import { FeedLine, MAX_SEQ, telemetryFeed, TYPES, type Envelope, type TelemetryEvent } from '../../../agent/telemetry/contract.ts'
import { Bucket } from '../../../base/bucket.ts'
import type { Log } from '../../../base/log.ts'
import { sleep, within, WaitTimeout } from '../../../base/wait.ts'
import { call, openLines } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { lines } from '../../../http/route.ts'
import {
  ABSENT_MS,
  EVENT_COST,
  FULL_FACTOR,
  LAST_RETRY_MS,
  MAX_AHEAD_US,
  MAX_BEFORE_US,
  MAX_COUNTED,
  MAX_DEPTH,
  MAX_LENGTH,
  MAX_LINE,
  MAX_VALUES,
  OPEN_MS,
  RAW_TIMES,
  REST_MS,
  RETRY_MS,
  RUN_BYTES,
  SESSION_RATE,
  SILENCE_MS,
} from './limits.ts'
import type { TelemetryMeter } from './meter.ts'
import type { Position } from './rows.ts'
import { grouped, lineOf, pack, type Line, type Segment } from './segments.ts'

/**
 * The reason in our own events about missing events. `archive_limit`: the session's limit on stored telemetry is reached. `instance_ended`: the session ended
 * before all was read. `not_kept`: invalid lines.
 */
type LossReason = 'archive_limit' | 'instance_ended' | 'not_kept'

interface FollowerSettings {
  id: string
  /** The position up to which the session is stored. */
  position: () => Promise<Position | undefined>
  /** Its agent, while it runs here and is not ending. */
  endpoint: () => Endpoint | undefined
  isAsleep: () => boolean
  /** Called after events have come. Resolves when there is room for more. */
  taken: (signal: AbortSignal) => Promise<void>
  /** The rate limit for all sessions together. */
  total: Bucket
  /** Limit on its stored bytes. Before compression, the limit is {@link RAW_TIMES} times as high. */
  maxBytes: number
  meter: Pick<TelemetryMeter, 'stored' | 'lost'>
  log: Log
}

/** The feed, validated line by line: an invalid line is skipped and does not stop the ones after it. */
const FEED = { ...telemetryFeed.feedTelemetry, reply: lines(z.unknown()) }

export class Follower {
  readonly #settings: FollowerSettings
  readonly #rate = new Bucket(SESSION_RATE)
  readonly #stop = new AbortController()
  #running = Promise.resolve()
  #loaded: Promise<void> | undefined
  #hasReportedBadLines = false
  /** Whether a line was skipped since the last gap in the numbers. */
  #hasLeftOut = false
  #hasReportedEnd = false
  /** Whether no more events come. */
  isClosed = false

  /** The number and the time of the last event that was read, stored or not. */
  #last = 0
  #lastTs = Date.now() * 1000 - MAX_BEFORE_US
  /** Compressed bytes, stored or waiting; and the bytes that count against the limit, which are more for data that compresses well. */
  #bytes = 0
  #counted = 0
  #lines: Line[] = []
  /** Packed runs that are not stored yet. They do not change until they are stored: a statement whose answer was lost may have stored them. */
  #runs: Segment[] = []
  #waiting = 0
  /** Set while the limit is reached: number of dropped events, and whether that was reported. */
  #full: { dropped: number; isReported: boolean } | undefined
  /** Time since which events wait (performance.now()). */
  #since: number | undefined

  constructor(settings: FollowerSettings) {
    this.#settings = settings
  }

  get id(): string {
    return this.#settings.id
  }

  /** Bytes that wait in memory to be stored. */
  get waiting(): number {
    return this.#waiting
  }

  /** How long the oldest event has waited, in milliseconds. */
  get lagMs(): number {
    return this.#since === undefined ? 0 : performance.now() - this.#since
  }

  get hasMore(): boolean {
    return this.#lines.length > 0 || this.#runs.length > 0
  }

  get isFull(): boolean {
    return this.#full !== undefined
  }

  /** Starts to read. */
  start(): this {
    this.#running = this.#run().catch((err: unknown) => {
      if (!this.#stop.signal.aborted) this.#settings.log.error({ err, browser: this.id }, 'the telemetry of a session is not read any more')
    })
    return this
  }

  /** Stops to read; resolves when no more events come. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('its telemetry is not followed any more'))
    await this.#running
  }

  /**
   * Reads the remaining events at the end of the session. First the agent closes its buffer: a later event would reach the streams of callers, but not the
   * archive. Returns whether all was read. @throws when the stored position cannot be read
   */
  async finish(agent: Endpoint | undefined, signal: AbortSignal): Promise<boolean> {
    await this.stop()
    await this.#load()
    if (!agent) return false
    const failed = (err: unknown) => {
      this.#settings.log.warn({ err, browser: this.id }, 'the last telemetry of a session could not be read')
      return false
    }
    const late = AbortSignal.any([signal, AbortSignal.timeout(REST_MS)])
    // An agent whose buffer cannot be closed may still send its events.
    const isClosed = await call(agent, telemetryFeed.endTelemetry, {}, { signal: late }).then(() => true, failed)
    const isRead = await this.#listen(agent, late, true).then(() => true, failed)
    return isClosed && isRead
  }

  /** Records that no more events come. `isWhole`: all were read. */
  close(isWhole: boolean): void {
    this.isClosed = true
    if (!isWhole && !this.#hasReportedEnd) {
      this.#hasReportedEnd = true
      this.#add(lossEvent(this.#last + 1, Math.max(this.#lastTs, Date.now() * 1000), { reason: 'instance_ended' }))
    }
    this.#tellDropped()
  }

  async #load(): Promise<void> {
    this.#loaded ??= this.#settings.position().then((position) => {
      if (!position) return
      ;({ seq: this.#last, ts: this.#lastTs, bytes: this.#bytes } = position)
      this.#counted = this.#bytes
      if (this.#isAtLimit) this.#full = { dropped: 0, isReported: true }
    })
    try {
      await this.#loaded
    } catch (error) {
      this.#loaded = undefined
      throw error
    }
  }

  async #run(): Promise<void> {
    const { endpoint, isAsleep, log } = this.#settings
    const { signal } = this.#stop
    for (let waitMs = RETRY_MS; !signal.aborted;) {
      // A sleeping agent would not answer, and connections to it would pile up until it wakes.
      const agent = isAsleep() ? undefined : endpoint()
      if (!agent) {
        await sleep(ABSENT_MS, signal)
        continue
      }
      const before = this.#last
      try {
        await this.#load()
        await this.#listen(agent, signal, false)
      } catch (err) {
        if (signal.aborted) return
        log.debug({ err, browser: this.id }, 'the telemetry of a session cannot be read at the moment')
      }
      waitMs = this.#last > before ? RETRY_MS : Math.min(2 * waitMs, LAST_RETRY_MS)
      await sleep(waitMs, signal)
    }
  }

  /**
   * One connection. Resolves when the agent has ended it, after the last event. `isRest`: the last read of a session, which may send as much as an agent keeps,
   * and no more.
   */
  async #listen(agent: Endpoint, signal: AbortSignal, isRest: boolean): Promise<void> {
    const left = new AbortController()
    let bytes = 0
    let rest = 0
    const options = {
      signal: AbortSignal.any([signal, left.signal]),
      maxLineBytes: MAX_LINE,
      maxValues: MAX_VALUES,
      onBytes: (more: number) => void (bytes += more),
    }
    try {
      const feed = await within('the feed of telemetry', OPEN_MS, openLines(agent, FEED, { query: { after: this.#last } }, options), signal)
      for (;;) {
        const { value, done } = await this.#received(feed.next(), signal)
        if (done) return
        for (const one of value) {
          const { data: line } = FeedLine.safeParse(one)
          if (!line) this.#leaveOut(one)
          else if ('seq' in line) this.#take(line)
        }
        const cost = bytes + value.length * EVENT_COST
        bytes = 0
        if (!isRest) await this.#pause(cost, signal)
        else if ((rest += cost) > SESSION_RATE.atOnce) throw new Error('it sends more than an agent keeps')
      }
    } finally {
      // Ends the connection in any case.
      left.abort(new Error('the reader has gone'))
    }
  }

  /** Waits when events come too fast, or when there is no room for more. */
  async #pause(cost: number, signal: AbortSignal): Promise<void> {
    const { taken, total } = this.#settings
    const ms = Math.max(this.#rate.take(this.#full ? cost * FULL_FACTOR : cost), total.take(cost))
    await taken(signal)
    if (ms > 0) await sleep(Math.min(ms, SILENCE_MS), signal)
  }

  /** The next lines. A sleeping session sends nothing, so it does not time out. */
  async #received<T>(next: Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await within('a line of telemetry', SILENCE_MS, next, signal)
      } catch (error) {
        if (!(error instanceof WaitTimeout) || !this.#settings.isAsleep()) throw error
      }
    }
  }

  #leaveOut(value: unknown): void {
    this.#hasLeftOut = true
    if (this.#hasReportedBadLines) return
    this.#hasReportedBadLines = true
    const text = isWithin(value, MAX_DEPTH) ? JSON.stringify(value).slice(0, 300) : 'too many levels'
    this.#settings.log.warn({ browser: this.id, line: text }, "a line of a session's telemetry is none")
  }

  /** Takes the next event. The agent reports gaps in its numbers, except for lines that were invalid here. @throws when its number is too large */
  #take({ seq, event }: Envelope): void {
    if (seq <= this.#last) return
    if (seq > MAX_SEQ) throw new Error(`an event has the number ${seq}`)
    const missing = seq - this.#last - 1
    if (missing > 0) this.#settings.meter.lost(Math.min(missing, MAX_COUNTED))
    if (missing > 0 && this.#hasLeftOut) {
      this.#hasLeftOut = false
      this.#add(lossEvent(this.#last + 1, this.#lastTs, { reason: 'not_kept', count: missing, first_seq: this.#last + 1, last_seq: seq - 1 }))
    }
    const ts = Math.max(this.#lastTs, Math.min(event.ts, Date.now() * 1000 + MAX_AHEAD_US))
    const whole: TelemetryEvent = { ...event, category: TYPES[event.type], ts }
    this.#add({ seq, event: isWithin(event.data, MAX_DEPTH) ? whole : withoutData(whole) })
  }

  #add(envelope: Envelope): void {
    const { seq, event } = envelope
    this.#last = seq
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

  /** The archive of the session was deleted, in full or in part: `stored` bytes are left. */
  recount(stored: number): void {
    const left = stored + this.#runs.reduce((sum, { bytes }) => sum + bytes, 0)
    if (left < this.#bytes) this.#counted *= left / this.#bytes
    this.#bytes = left
    if (!this.#full || this.#isAtLimit) return
    this.#tellDropped()
    this.#full = undefined
  }

  get #isAtLimit(): boolean {
    return this.#counted >= this.#settings.maxBytes
  }

  /** Reports dropped events, with the number and the time of the last one. The first dropped event has made its own report. */
  #tellDropped(): void {
    const { dropped = 0 } = this.#full ?? {}
    if (dropped < 2) return
    this.#full!.dropped = 0
    this.#push(lossEvent(this.#last, this.#lastTs, { reason: 'archive_limit', count: dropped, last_seq: this.#last }))
  }

  /** Packs all waiting events. Returns the runs to store. */
  async runs(): Promise<readonly Segment[]> {
    const waiting = this.#lines
    this.#lines = []
    for (const run of grouped(waiting, ({ bytes }) => bytes, RUN_BYTES)) {
      const segment = await pack(this.id, run)
      this.#runs.push(segment)
      this.#bytes += segment.bytes
      this.#counted += Math.max(segment.bytes, run.reduce((sum, { bytes }) => sum + bytes, 0) / RAW_TIMES)
    }
    this.#waiting = this.#runs.reduce((sum, { bytes }) => sum + bytes, 0) + this.#lines.reduce((sum, { bytes }) => sum + bytes, 0)
    if (!this.#full && this.#isAtLimit) this.#full = { dropped: 0, isReported: false }
    return [...this.#runs]
  }

  /** Removes runs that are stored now. */
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

/** An event about the capture itself, made by the service. */
const lossEvent = (seq: number, ts: number, data: { reason: LossReason; count?: number; first_seq?: number; last_seq?: number }): Envelope => ({
  seq,
  event: { type: 'monitor_events_lost', category: 'monitor', ts, source: { kind: 'kernel_api' }, data },
})

/** An event with only the fields that every event has. */
const withoutData = ({ type, category, ts, source: { kind } }: TelemetryEvent): TelemetryEvent => ({ type, category, ts, source: { kind }, truncated: true })

/** Whether a JSON value has at most `levels` levels. */
export function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((one) => isWithin(one, levels - 1))
}
