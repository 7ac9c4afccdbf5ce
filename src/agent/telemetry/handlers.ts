// The calls of telemetry, answered by the event buffer.
import { fault } from '../../http/fault.ts'
import type { Handlers } from '../../http/route.ts'
import type { telemetry, telemetryFeed } from './contract.ts'
import type { EventBuffer } from './event-buffer.ts'
import { feed } from './feed.ts'

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
    feedTelemetry: ({ query: { after }, signal }) => feed(buffer, after, signal),
    addTelemetry({ body }) {
      buffer.emit(body as Parameters<EventBuffer['emit']>[0])
    },
    endTelemetry: () => buffer.close(),
  }
}
