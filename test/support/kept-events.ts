// Stores events of sessions as if they had happened at the times that the test gives.
import { TYPES, type Envelope, type EventType } from '../../src/agent/telemetry/contract.ts'
import { lineOf, pack } from '../../src/control/sessions/telemetry/segments.ts'

/** An event of a test: its type, its time in microseconds, and its data. */
export type Received = [type: EventType, ts: number, data?: Record<string, unknown>]

export const envelope = ([type, ts, data]: Received, seq: number): Envelope => ({
  seq,
  event: { type, category: TYPES[type], ts, source: { kind: 'cdp' }, ...(data && { data }) },
})

/** Stores events of a session, numbered from `first` on, as the service does: in compressed runs. */
export async function keepEvents(
  cloud: { query(text: string, values?: unknown[]): Promise<unknown> },
  sessionId: string,
  received: readonly Received[],
  { first = 1, atOnce = 1_000 }: { first?: number; atOnce?: number } = {},
): Promise<void> {
  for (let from = 0; from < received.length; from += atOnce) {
    const run = received.slice(from, from + atOnce).map((one, at) => envelope(one, first + from + at))
    const { session_id, first_seq, last_seq, first_ts, last_ts, events, types, bytes, data } = await pack(sessionId, run.map(lineOf))
    await cloud.query(
      `insert into telemetry_segments (session_id, first_seq, last_seq, first_ts, last_ts, events, types, bytes, data) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      [session_id, first_seq, last_seq, first_ts, last_ts, events, types, bytes, data],
    )
  }
}
