// The events of a session for people who watch it: the stream of its agent as lines of a list. It costs nothing until somebody opens the list.
import { MAX_SCREENSHOT_EVENT, telemetry, type Envelope } from '../../../agent/telemetry/contract.ts'
import { Bucket, type Rate } from '../../../base/bucket.ts'
import { sleep } from '../../../base/wait.ts'
import { CallFailed, openEvents } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import type { EventDetails, EventLine, EventsShown } from '../telemetry/shown/contract.ts'
import { detailsOf, lineOf } from '../telemetry/shown/shown.ts'

/** Most lists of one session that are open at the same time. Each reads a stream of the agent. */
const MAX_OPEN = 10
const FULL_RETRY_SECONDS = 5
/** Limit on the number of JSON values in the events that arrive at once. A full event has few; a header is one value. */
const MAX_VALUES = 200_000
/** Events in one message to the page. */
const AT_ONCE = 200
/**
 * Events that one list gets at once, and in each second after that. A page may make thousands of events a second, which nobody can read. Making lines of them
 * takes CPU time of the service, which all callers share. The first number is more than an agent keeps, so a list begins with all events.
 */
const [MOST_AT_ONCE, MOST_A_SECOND] = [10_000, 1_000]

/**
 * Bytes that one list reads at once, and in each second after that: more than an agent keeps, and less than a page may cause. The rest stays with the agent,
 * which drops the oldest events.
 */
const BYTES = { perSecond: 2 * 1024 * 1024, atOnce: 20 * 1024 * 1024 }

/** A message to the page: the captured categories when it opens the list; then events, oldest first, or how many were skipped because there were too many. */
export type LiveEvents = { categories: string[] } | { skipped: number } | { events: { line: EventLine; details: Omit<EventDetails, 'png'> }[] }

interface Watched {
  id: string
  /** What the session captures. */
  categories: readonly string[]
  endpoint: Endpoint
  shown: Exclude<EventsShown, 'none'>
}

/** The messages for one viewer, from the oldest event that the stream still has, until the session ends or `signal` aborts. @throws 429 */
type OpenList = (watched: Watched, signal: AbortSignal) => AsyncGenerator<LiveEvents, void>

export function liveEventLists(rate: Rate = BYTES): OpenList {
  const counts = new Map<string, number>()
  return (watched, signal) => {
    const { id } = watched
    const count = counts.get(id) ?? 0
    if (count >= MAX_OPEN) throw fault.tooMany(`${MAX_OPEN} people look at the events of this session already, its limit`, FULL_RETRY_SECONDS)
    counts.set(id, count + 1)
    let isOpen = true
    const leave = () => {
      if (!isOpen) return
      isOpen = false
      const left = counts.get(id)! - 1
      if (left === 0) counts.delete(id)
      else counts.set(id, left)
    }
    // If a viewer leaves before the first message is requested, the generator never starts, so its own cleanup does not run.
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    return messages(watched, rate, signal, leave)
  }
}

/** Number of events that a list may show now. */
export class EventShare {
  #room = MOST_AT_ONCE
  #at: number

  /** `now`: in milliseconds, as in {@link take}. */
  constructor(now: number) {
    this.#at = now
  }

  /** How many of `count` events it may show. */
  take(count: number, now: number): number {
    this.#room = Math.min(MOST_AT_ONCE, this.#room + ((now - this.#at) / 1000) * MOST_A_SECOND)
    this.#at = now
    const taken = Math.min(count, Math.floor(this.#room))
    this.#room -= taken
    return taken
  }
}

async function* messages({ categories, endpoint, shown }: Watched, rate: Rate, signal: AbortSignal, leave: () => void): AsyncGenerator<LiveEvents, void> {
  try {
    yield { categories: [...categories] }
    const bytes = new Bucket(rate)
    let [pauseMs, last, wasBehind] = [0, 0, false]
    const onBytes = (length: number) => void (pauseMs = bytes.take(length))
    const options = { signal, maxLineBytes: 2 * MAX_SCREENSHOT_EVENT, maxValues: MAX_VALUES, onBytes }
    const share = new EventShare(performance.now())
    for await (const envelopes of await openEvents(endpoint, telemetry.streamTelemetry, { query: { replay: 'all' } }, options)) {
      if (envelopes.length > 0) {
        // While this list paused, the agent may have dropped some events.
        const first = envelopes[0]!.seq
        if (wasBehind && first > last + 1) yield { skipped: first - last - 1 }
        last = envelopes.at(-1)!.seq
        const fitting = envelopes.slice(0, share.take(envelopes.length, performance.now()))
        for (let from = 0; from < fitting.length; from += AT_ONCE) yield { events: fitting.slice(from, from + AT_ONCE).map((one) => message(one, shown)) }
        if (fitting.length < envelopes.length) yield { skipped: envelopes.length - fitting.length }
        wasBehind = false
      }
      if (pauseMs > 0) {
        wasBehind = true
        await sleep(pauseMs, signal)
      }
    }
  } catch (error) {
    signal.throwIfAborted()
    // When the session ends, its agent ends, too. The page then asks again and gets the reason.
    if (!(error instanceof CallFailed)) throw error
    throw fault.unavailable('the events of this session cannot be read now', error)
  } finally {
    leave()
  }
}

function message(envelope: Envelope, shown: Watched['shown']): { line: EventLine; details: Omit<EventDetails, 'png'> } {
  // The page shows the picture separately.
  const { png: _, ...details } = detailsOf(envelope, shown)
  return { line: lineOf(envelope, shown), details }
}
