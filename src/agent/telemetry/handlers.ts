// The calls of telemetry, answered by the event buffer.
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { fault } from '../../http/fault.ts'
import type { Handlers } from '../../http/route.ts'
import type { FeedLine, telemetry, telemetryFeed } from './contract.ts'
import type { EventBuffer } from './event-buffer.ts'
import { FEED_BEAT_MS, FEED_GATHER_MS, FEED_LENGTH } from './limits.ts'

/** @throws 400 */
function numberOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined || header === '') return undefined
  if (typeof header !== 'string' || !/^\d{1,15}$/.test(header)) throw fault.field('Last-Event-ID', 'must be the id of an event of this stream')
  return Number(header)
}

export function telemetryHandlers(buffer: EventBuffer): Handlers<typeof telemetry> {
  return {
    streamTelemetry({ query: { replay, type }, headers, signal }) {
      const after = buffer.begin(numberOf(headers['last-event-id']), replay === 'all')
      return buffer.stream(after, type && new Set(type), signal)
    },
  }
}

export function telemetryFeedHandlers(buffer: EventBuffer): Handlers<typeof telemetryFeed> {
  return {
    feedTelemetry: ({ query: { after }, signal }) => Readable.from(feed(buffer, after, signal), { objectMode: false, highWaterMark: 256 * 1024 }),
    addTelemetry({ body }) {
      buffer.emit(body as Parameters<EventBuffer['emit']>[0])
    },
    endTelemetry: () => buffer.close(),
  }
}

/** The lines of the feed. An event that comes alone is told at once. */
async function* feed(buffer: EventBuffer, after: number, signal: AbortSignal): AsyncGenerator<string> {
  const line = (value: FeedLine) => `${JSON.stringify(value)}\n`
  yield line({ last: buffer.last })
  let sentAt = performance.now()
  const beat = setInterval(() => buffer.wake(), FEED_BEAT_MS).unref()
  try {
    for (let seq = after; !signal.aborted;) {
      const lines = buffer.linesAfter(seq, FEED_LENGTH)
      if (lines) {
        seq = lines.last
        yield lines.text
        if (lines.text.length < FEED_LENGTH) await delay(FEED_GATHER_MS, undefined, { signal: buffer.closed, ref: false }).catch(() => {})
      } else if (buffer.closed.aborted) return
      // Another reader may have woken this one.
      else if (performance.now() - sentAt >= FEED_BEAT_MS / 2) {
        sentAt = performance.now()
        yield line({ last: buffer.last })
      } else await buffer.changed(signal)
    }
  } finally {
    clearInterval(beat)
  }
}
