// Reads the telemetry of one session from its agent, for as long as the session lasts.
import { z } from 'zod'
import { FeedLine, MAX_SCREENSHOT_EVENT, telemetryFeed } from '../../../agent/telemetry/contract.ts'
import { Bucket } from '../../../base/bucket.ts'
import type { Log } from '../../../base/log.ts'
import { sleep, within, WaitTimeout } from '../../../base/wait.ts'
import { openLines } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { lines } from '../../../http/route.ts'
import { isWithin, MAX_DEPTH, type Intake } from './intake.ts'

/** The agent sends something every second. */
const SILENCE_MS = 15_000
const OPEN_MS = 10_000
/** Wait between two attempts to reach an agent: doubled up to the last. */
const [RETRY_MS, LAST_RETRY_MS] = [250, 10_000]
/** How often it is looked whether a session has woken. */
const ASLEEP_MS = 1_000
/** How long the end of a session waits for the rest. */
const REST_MS = 2_000
/** Limit on one line: the longest event, in an envelope. */
const MAX_LINE = MAX_SCREENSHOT_EVENT + 4096
/** Limit on the values of the lines that come at once: one for eight bytes. */
const MAX_VALUES = (MAX_LINE + 256 * 1024) / 8
/**
 * What is read of a session. At first as much as its agent tells of in a second (event-buffer.ts), for some seconds; then its ring keeps what comes for some more. One that was taken
 * over must not make the service busy.
 */
const BYTES = { perSecond: 2 * 1024 * 1024, atOnce: 32 * 1024 * 1024 }
const EVENTS = { perSecond: 2_000, atOnce: 20_000 }
/** What is read of all sessions together: what comes of many at once waits, in the rings of their agents. */
const ALL_BYTES = { perSecond: 24 * 1024 * 1024, atOnce: 96 * 1024 * 1024 }
const ALL_EVENTS = { perSecond: 16_000, atOnce: 48_000 }
/** What is read of one of which nothing more is stored. */
const FULL_BYTES = { perSecond: 64 * 1024, atOnce: 256 * 1024 }

/** The limits on all sessions together. */
export class Budget {
  readonly bytes = new Bucket(ALL_BYTES)
  readonly events = new Bucket(ALL_EVENTS)
}

/** Its lines one by one: one that is none of ours is left out, and does not keep those after it. */
const FEED = { ...telemetryFeed.feedTelemetry, reply: lines(z.unknown()) }

interface FeedSettings {
  intake: Intake
  endpoint: Endpoint
  /** Called after events have come. Resolves when there is room for more. */
  taken: (signal: AbortSignal) => Promise<void>
  isAsleep: () => boolean
  /** None for the rest of a session that ends, which is limited in time. */
  budget: Budget | undefined
  log: Log
}

/** Reads connections to one agent. */
class Feed {
  readonly #settings: FeedSettings
  readonly #bytes = new Bucket(BYTES)
  readonly #events = new Bucket(EVENTS)
  readonly #fullBytes = new Bucket(FULL_BYTES)
  #pauseMs = 0
  /** Whether it had to wait since it has last read all: the agent may not have kept what came meanwhile. */
  #isBehind = false
  #hasReportedBadLines = false

  constructor(settings: FeedSettings) {
    this.#settings = settings
  }

  /**
   * One connection. Resolves when nothing more is wanted and all that the agent had is read: with "rest" if nothing more was wanted when it began, else with "over":
   * the agent may have told of more meanwhile.
   */
  async listen(signal: AbortSignal, isOver: () => boolean): Promise<'rest' | 'over' | 'closed'> {
    const { intake, endpoint } = this.#settings
    const wasOver = isOver()
    using left = new AbortOnDispose()
    const options = {
      signal: AbortSignal.any([signal, left.signal]),
      maxLineBytes: MAX_LINE,
      maxValues: MAX_VALUES,
      onBytes: (bytes: number) => this.#note(bytes),
    }
    const feed = await within('the feed of telemetry', OPEN_MS, openLines(endpoint, FEED, { query: { after: intake.last } }, options), signal)
    let isFirst = true
    /** The last event that the agent knew of when it was last heard. */
    let known: number | undefined
    /** The agent says this at first, and then when it has told of all that it has. */
    let beats = 0
    for (;;) {
      const next = await this.#received(feed.next(), signal)
      if (next.done) return 'closed'
      for (const value of next.value) {
        const { data: line } = FeedLine.safeParse(value)
        if (!line) this.#leaveOut(value)
        else if ('last' in line) {
          known = line.last
          beats++
          if (line.last <= intake.last) this.#isBehind = false
        } else {
          intake.take(line, isFirst || this.#isBehind)
          isFirst = false
        }
      }
      if (known !== undefined && (intake.last >= known || beats > 1) && isOver()) {
        await this.#settings.taken(signal)
        return wasOver ? 'rest' : 'over'
      }
      await this.#pause(next.value.length, signal)
    }
  }

  #note(bytes: number): void {
    const { budget, intake } = this.#settings
    const full = budget && intake.isFull ? this.#fullBytes.take(bytes) : 0
    this.#pauseMs = Math.max(this.#bytes.take(bytes), budget?.bytes.take(bytes) ?? 0, full)
  }

  /** A bad line. What it should have told of is missing then, which is told when the next one comes. */
  #leaveOut(value: unknown): void {
    this.#isBehind = true
    if (this.#hasReportedBadLines) return
    this.#hasReportedBadLines = true
    const { intake, log } = this.#settings
    const text = isWithin(value, MAX_DEPTH) ? JSON.stringify(value).slice(0, 300) : 'too many levels'
    log.warn({ browser: intake.id, line: text }, "a line of a session's telemetry is none")
  }

  /** Waits when too much came, or when there is no room for more. */
  async #pause(count: number, signal: AbortSignal): Promise<void> {
    const ms = Math.max(this.#pauseMs, this.#events.take(count), this.#settings.budget?.events.take(count) ?? 0)
    this.#pauseMs = 0
    const before = performance.now()
    await this.#settings.taken(signal)
    if (ms > 0) await sleep(Math.min(ms, SILENCE_MS), signal)
    if (performance.now() - before > RETRY_MS) this.#isBehind = true
  }

  /** The next lines. A session that sleeps says nothing. */
  async #received<T>(next: Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await within('a line of telemetry', SILENCE_MS, next, signal)
      } catch (error) {
        if (!(error instanceof WaitTimeout) || !this.#settings.isAsleep()) throw error
      }
    }
  }
}

interface FollowerSettings extends FeedSettings {
  /** Whether nothing is captured any more. Then it ends when all is read. */
  isOver: () => boolean
}

export class Follower {
  /** Resolves when it has ended. Never rejects. */
  readonly done: Promise<void>
  readonly #settings: FollowerSettings
  readonly #feed: Feed
  readonly #stop = new AbortController()

  constructor(settings: FollowerSettings) {
    this.#settings = settings
    this.#feed = new Feed(settings)
    this.done = this.#run().catch((err: unknown) => {
      if (!this.#stop.signal.aborted) settings.log.error({ err, browser: settings.intake.id }, 'the telemetry of a session is not read any more')
    })
  }

  /** Ends it; resolves when nothing more comes. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('its telemetry is not followed any more'))
    await this.done
  }

  async #run(): Promise<void> {
    const { intake, isAsleep, isOver, log } = this.#settings
    const { signal } = this.#stop
    for (let waitMs = RETRY_MS; !signal.aborted;) {
      // It would not answer, and its connections would wait inside until it wakes.
      if (isAsleep()) {
        await sleep(ASLEEP_MS, signal)
        continue
      }
      const before = intake.last
      try {
        const end = await this.#feed.listen(signal, isOver)
        if (end === 'rest') return
        if (end === 'over') continue
      } catch (err) {
        if (signal.aborted) return
        log.debug({ err, browser: intake.id }, 'the telemetry of a session cannot be read at the moment')
      }
      waitMs = intake.last > before ? RETRY_MS : Math.min(2 * waitMs, LAST_RETRY_MS)
      await sleep(waitMs, signal)
    }
  }
}

/** Reads what is there now of a session that ends. @throws when that does not work in time */
export async function readRest(settings: Pick<FeedSettings, 'intake' | 'endpoint' | 'log'>, signal: AbortSignal): Promise<void> {
  const feed = new Feed({ ...settings, taken: async () => {}, isAsleep: () => false, budget: undefined })
  const late = AbortSignal.any([signal, AbortSignal.timeout(REST_MS)])
  if ((await feed.listen(late, () => true)) !== 'rest') throw new Error('the agent has closed its feed of telemetry')
}

/** Ends the connection whatever happens to its reader. */
class AbortOnDispose extends AbortController {
  [Symbol.dispose](): void {
    this.abort(new Error('the reader has gone'))
  }
}
