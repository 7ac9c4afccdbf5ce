// The feed: all events of a buffer in their order, for the service.
import { setTimeout as delay } from 'node:timers/promises'
import { EncodedLines } from '../../http/ndjson.ts'
import type { FeedLine } from './contract.ts'
import type { EventBuffer } from './event-buffer.ts'
import { FEED_BEAT_MS, FEED_GATHER_MS, FEED_LENGTH } from './limits.ts'

/** The lines of the feed. A single event is sent at once. */
export async function* feed(buffer: EventBuffer, after: number, signal: AbortSignal): AsyncGenerator<FeedLine | EncodedLines> {
  yield { last: buffer.last }
  let sentAt = performance.now()
  const beat = setInterval(() => buffer.wake(), FEED_BEAT_MS).unref()
  try {
    for (let seq = after; !signal.aborted;) {
      const lines = buffer.linesAfter(seq, FEED_LENGTH)
      if (lines) {
        seq = lines.last
        yield new EncodedLines(lines.text)
        if (lines.text.length < FEED_LENGTH) await delay(FEED_GATHER_MS, undefined, { signal: buffer.closed, ref: false }).catch(() => {})
      } else if (buffer.closed.aborted) return
      // Another reader may have woken this one.
      else if (performance.now() - sentAt >= FEED_BEAT_MS / 2) {
        sentAt = performance.now()
        yield { last: buffer.last }
      } else await buffer.changed(signal)
    }
  } finally {
    clearInterval(beat)
  }
}
