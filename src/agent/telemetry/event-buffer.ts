// The live telemetry of the session: gives each event its number and time, and stores the last ones for readers. It never waits for a reader.
import { Notifier } from '../../base/notifier.ts'
import { EVENT_ID, EVENT_JSON } from '../../http/sse.ts'
import {
  CDP_CATEGORIES,
  MAX_EVENT,
  MAX_SCREENSHOT_EVENT,
  TYPES,
  type Category,
  type Envelope,
  type EventType,
  type SettableCategory,
  type TelemetryFit,
} from './contract.ts'
import { KeptEvents, type Kept, type KeptLimits } from './kept.ts'
import type { NewEvent, Telemetry } from './telemetry.ts'
import { A_SECOND, KEPT, SKIPPED_MS, WINDOW_MS } from './limits.ts'

/** Options for tests. */
export interface EventBufferOptions {
  kept?: Partial<KeptLimits>
  aSecond?: Partial<typeof A_SECOND>
  now?: () => number
}

const FROM_PAGES: readonly Category[] = CDP_CATEGORIES
/** Types that pages can also cause: by not answering, and by making too many events. */
const BY_PAGES: readonly EventType[] = ['monitor_init_failed', 'monitor_events_lost']
/** Whether no page can cause it. */
const isOwnEvent = (type: EventType): boolean => !FROM_PAGES.includes(TYPES[type]) && !BY_PAGES.includes(type)

export class EventBuffer implements Telemetry {
  readonly #notifier = new Notifier()
  readonly #kept: KeptEvents
  readonly #clock: () => number
  readonly #listeners = new Set<(captured: TelemetryFit) => unknown>()
  #captured: ReadonlySet<Category> = new Set()
  #excluded: ReadonlySet<string> = new Set()
  #last = 0
  #lastTs = 0
  /** Streams do not show events up to this number: they belong to an earlier caller. */
  #floor = 0
  #windowEnd = 0
  readonly #aSecond: typeof A_SECOND
  /** What may still be added in this second: of events that pages can cause, and of others. Lengths are in characters of JSON. */
  #left = { pages: { events: 0, length: 0 }, own: { events: 0, length: 0 } }
  #lost = { count: 0, from: 0, until: 0 }
  #telling: NodeJS.Timeout | undefined
  #isRinging = false
  #isClosed = false
  readonly #closing = new AbortController()
  #callers = 0

  constructor({ kept, aSecond, now = steadyClock() }: EventBufferOptions = {}) {
    this.#kept = new KeptEvents({ ...KEPT, ...kept })
    this.#aSecond = { ...A_SECOND, ...aSecond }
    this.#clock = now
  }

  captures(category: Category): boolean {
    return this.#captured.has(category) && !this.#withheld.has(category)
  }

  /** One entry for each caller of `withhold`. */
  readonly #withholding = new Set<readonly Category[]>()
  #withheld: ReadonlySet<Category> = new Set()

  /** Drops events of these categories until the returned function is called. For the agent's own work with secrets. */
  withhold(categories: readonly Category[]): () => void {
    const mine = [...categories]
    const change = () => (this.#withheld = new Set([...this.#withholding].flat()))
    this.#withholding.add(mine)
    change()
    return () => {
      this.#withholding.delete(mine)
      change()
    }
  }

  get excluded(): ReadonlySet<string> {
    return this.#excluded
  }

  /** The number of the last event; 0 when there was none. */
  get last(): number {
    return this.#last
  }

  /** The session's clock: microseconds since 1970, never running backwards. */
  now(): number {
    return Math.max(this.#clock(), this.#lastTs)
  }

  onChange(listener: (captured: TelemetryFit) => unknown): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Changes the captured categories. Resolves when the capture has followed, within its own limits. */
  async capture(wanted: TelemetryFit): Promise<void> {
    const hasCdp = wanted.categories.some((category) => (CDP_CATEGORIES as readonly SettableCategory[]).includes(category))
    this.#captured = new Set<Category>([...wanted.categories, ...(hasCdp ? (['monitor'] as const) : [])])
    this.#excluded = new Set(wanted.excluded_methods)
    await Promise.all([...this.#listeners].map((listener) => listener(wanted)))
  }

  /** Hides all earlier events from the next caller of the browser. */
  hideFromNext(): void {
    this.#floor = this.#last
    this.#callers++
  }

  get floor(): number {
    return this.#callers
  }

  emit({ type, source, data, truncated }: NewEvent): void {
    const category = TYPES[type]
    const isLoss = type === 'monitor_events_lost'
    if (this.#isClosed || (isLoss ? this.#captured.size === 0 : !this.captures(category))) return
    const ts = (this.#lastTs = this.now())
    if (!isLoss) this.#nextWindow(ts)
    const seq = ++this.#last
    const isOwn = isOwnEvent(type)
    const left = isOwn ? this.#left.own : this.#left.pages
    // Do not serialize an event that is dropped anyway.
    if (!isLoss && left.events === 0) return this.#lose(seq)
    const event = { type, category, ts, source, ...(data && { data }), ...(truncated && { truncated }) }
    let json = JSON.stringify({ seq, event })
    const isPicture = category === 'screenshot'
    if (json.length > (isPicture ? MAX_SCREENSHOT_EVENT : MAX_EVENT))
      json = JSON.stringify({ seq, event: { type, category, ts, source: { kind: source.kind }, truncated: true } })
    // An event about lost events is not dropped itself.
    if (!isLoss) {
      if (json.length > left.length) return this.#lose(seq)
      left.events--
      left.length -= json.length
    }
    const brief = isPicture && data && JSON.stringify({ seq, event: { type, category, ts, source, truncated: true } })
    this.#keep({ seq, type, json, ...(brief && { brief }) }, isOwn)
  }

  #nextWindow(ts: number): void {
    if (ts < this.#windowEnd) return
    this.#windowEnd = ts + WINDOW_MS * 1000
    const { events, length, ownEvents, ownLength } = this.#aSecond
    this.#left = { pages: { events, length }, own: { events: ownEvents, length: ownLength } }
    this.#tellLost()
  }

  #lose(seq: number): void {
    const lost = this.#lost
    if (lost.count === 0) lost.from = seq
    lost.until = seq
    lost.count++
    this.#telling ??= setTimeout(() => this.#tellLost(), WINDOW_MS).unref()
  }

  #tellLost(): void {
    clearTimeout(this.#telling)
    this.#telling = undefined
    const { count, from, until } = this.#lost
    if (count === 0) return
    this.#lost.count = 0
    this.emit({ type: 'monitor_events_lost', source: { kind: 'local_process' }, data: { reason: 'too_many', count, first_seq: from, last_seq: until } })
  }

  #keep(kept: Kept, isOwn: boolean): void {
    this.#kept.add(kept, isOwn)
    if (this.#isRinging) return
    // Once for all events of a turn.
    this.#isRinging = true
    setImmediate(() => {
      this.#isRinging = false
      this.#notifier.notify()
    })
  }

  /**
   * The stored events after `seq` as lines of JSON, up to about `length` characters, and the number of the last one; undefined when there is none. If events
   * are missing before the first one, an event in their place has their number.
   */
  linesAfter(seq: number, length: number): { text: string; last: number } | undefined {
    let text = ''
    let last = seq
    for (let kept = this.#kept.next(seq); kept && text.length < length; kept = this.#kept.next(last)) {
      if (kept.seq > last + 1 && this.#kept.forgotten > last) text += `${notKept(last + 1, kept)}\n`
      text += `${kept.json}\n`
      last = kept.seq
    }
    return last === seq ? undefined : { text, last }
  }

  /** Resolves at the next event, when its readers are woken, or when the buffer is closed. @throws the signal's reason */
  changed(signal: AbortSignal): Promise<void> {
    return this.#notifier.next(signal)
  }

  /** Wakes all waiting readers, although there is no new event. */
  wake(): void {
    this.#notifier.notify()
  }

  /** Aborts when there will be no more events. */
  get closed(): AbortSignal {
    return this.#closing.signal
  }

  /** The start of a stream: after the event `lastId` if its reader names one, otherwise with the oldest or the next event. */
  begin(lastId: number | undefined, all: boolean): number {
    if (lastId === undefined) return all ? this.#floor : this.#last
    // If no event has this number yet, the reader begins with the next one, so that nothing is hidden from it.
    return Math.max(Math.min(lastId, this.#last), this.#floor)
  }

  /**
   * Frames of a stream: the stored events after one, and each new one, until the buffer is closed; of `types`, or all. From time to time also the number of the
   * last event that was filtered out.
   */
  async *stream(after: number, types: ReadonlySet<string> | undefined, signal: AbortSignal): AsyncGenerator<Envelope> {
    let skipped = 0
    let sentAt = performance.now()
    const timer = types && setInterval(() => this.#notifier.notify(), SKIPPED_MS).unref()
    try {
      for (let seq = after; !signal.aborted;) {
        const next = this.#kept.next(seq)
        seq = next?.seq ?? seq
        if (next && (!types || types.has(next.type))) {
          skipped = 0
          yield frame(seq, next.json)
          continue
        }
        if (next) skipped = seq
        const isOver = !next && this.#isClosed
        if (skipped > 0 && (isOver || performance.now() - sentAt >= SKIPPED_MS)) {
          yield frame(skipped, '')
          skipped = 0
          sentAt = performance.now()
        } else if (isOver) return
        else if (!next) await this.#notifier.next(signal)
      }
    } finally {
      clearInterval(timer)
    }
  }

  /** Ends all readers after their unread events. */
  close(): void {
    this.#tellLost()
    this.#isClosed = true
    this.#closing.abort()
    this.#notifier.notify()
  }
}

function notKept(first: number, next: Kept): string {
  const { ts } = (JSON.parse(next.json) as Envelope).event
  const data = { reason: 'not_kept', count: next.seq - first, first_seq: first, last_seq: next.seq - 1 }
  return JSON.stringify({ seq: first, event: { type: 'monitor_events_lost', category: 'monitor', ts, source: { kind: 'local_process' }, data } })
}

/** A frame of an event stream from existing JSON; without it, only the number. */
const frame = (seq: number, json: string): Envelope => ({ [EVENT_ID]: seq, [EVENT_JSON]: json }) as unknown as Envelope

/** The time of day at its first call; later times are counted by the monotonic clock. */
function steadyClock(): () => number {
  const start = Date.now() * 1000 - performance.now() * 1000
  return () => Math.round(start + performance.now() * 1000)
}
