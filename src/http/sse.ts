// Server-sent events: JSON objects, one per frame. A comment is sent at intervals, so that proxies and readers do not take a quiet stream for a dead one.
import { Readable } from 'node:stream'
import type { Log } from '../base/log.ts'
import { resultWithin } from '../base/wait.ts'
import { asFault } from './fault.ts'

export const SSE_TYPE = 'text/event-stream'

/**
 * The name of the property that holds an event's id. It is sent as the SSE id and not as data: a reader that reconnects with `Last-Event-ID`
 * continues after that event.
 */
export const EVENT_ID = Symbol('event id')

/**
 * The name of the property with an event's JSON, if it was encoded before. It is sent in place of the event. When it is empty, the frame has only its id, which
 * moves a reader that reconnects past unwanted events.
 */
export const EVENT_JSON = Symbol('event json')

/**
 * The name of the property that holds the name of an event, for readers that choose by the SSE name, as the official React component for logins does. Readers
 * with `EventSource.onmessage` do not get events with a name.
 */
export const EVENT_NAME = Symbol('event name')

/** Proxies commonly close a connection after 30-60 s of silence. */
const HEARTBEAT_MS = 15_000

/**
 * The frames of `events`, until they end or `signal` aborts. An error on the way, or the reason of the abort, becomes a last frame, `{event: "error"}`, because
 * the status has been sent by then. Events are read as fast as the reader takes them, so a slow reader delays only itself.
 */
export function eventStream(events: AsyncIterable<object>, signal: AbortSignal, log: Log): Readable {
  return Readable.from(frames(events, signal, log), { objectMode: false, highWaterMark: 64 * 1024 })
}

interface Framed {
  [EVENT_ID]?: number
  [EVENT_NAME]?: string
  [EVENT_JSON]?: string
}

async function* frames(events: AsyncIterable<object>, signal: AbortSignal, log: Log): AsyncGenerator<string> {
  const iterator = events[Symbol.asyncIterator]()
  // The head of the answer goes out with the first bytes. A reader waits for it before it counts the stream as open.
  yield ': open\n\n'
  try {
    let next = iterator.next()
    next.catch(() => {})
    while (!signal.aborted) {
      const result = await resultWithin(HEARTBEAT_MS, next, signal)
      if (result === undefined) {
        if (!signal.aborted) yield ': still here\n\n'
      } else if (result.done) return
      else {
        const { [EVENT_ID]: id, [EVENT_NAME]: name, [EVENT_JSON]: json = JSON.stringify(result.value) } = result.value as Framed
        yield `${name === undefined ? '' : `event: ${name}\n`}${id === undefined ? '' : `id: ${id}\n`}${json === '' ? '' : `data: ${json}\n`}\n`
        next = iterator.next()
        next.catch(() => {})
      }
    }
    throw signal.reason
  } catch (error) {
    const fault = asFault(signal.aborted ? signal.reason : error)
    if (fault.code === 'client_closed_request') return
    if (fault.code === 'internal_error') log.error({ err: error }, 'an event stream failed')
    yield `data: ${JSON.stringify({ event: 'error', error: fault.body(), timestamp: new Date().toISOString() })}\n\n`
  } finally {
    // Not awaited: the signal ends a source that waits for its next event.
    void Promise.resolve(iterator.return?.()).catch(() => {})
  }
}
