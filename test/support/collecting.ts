// One target of a fake Chromium for tests of telemetry's collectors, and the events that they emit.
import type { Collector, Context } from '../../src/agent/telemetry/capture/collector.ts'
import type { NewEvent, Teller } from '../../src/agent/telemetry/telemetry.ts'
import { fakeCdp, type FakeCdp } from './fake-cdp.ts'

export interface Collecting {
  chromium: FakeCdp
  /** The events so far. */
  received: (NewEvent & { data: Record<string, unknown> })[]
  types(): string[]
  of(type: string): Record<string, unknown>[]
  /** Sends an event of Chromium for this target. */
  emit(method: string, params: object): void
  /** The names of the commands that Chromium received. */
  commands(): string[]
  stop(): Promise<void>
  /** Removes the target. */
  vanish(): void
}

/** Starts a collector on a target. `replayed` has the events, by name, that Chromium sends when its Runtime domain is enabled. */
export async function collecting(
  collector: Collector,
  type: Context['target_type'] = 'page',
  replies: FakeCdp['replies'] = {},
  replayed: Record<string, object[]> = {},
): Promise<Collecting> {
  const chromium = fakeCdp(replies)
  replies['Runtime.enable'] ??= () => {
    for (const [method, events] of Object.entries(replayed)) for (const event of events) chromium.emit(method, event, 'session-1')
    return {}
  }
  const received: Collecting['received'] = []
  const session = await chromium.cdp.session('TARGET')
  const telemetry: Teller = {
    captures: () => true,
    emit: (event) => void received.push(structuredClone(event) as Collecting['received'][number]),
  }
  const context: Context = { target_id: 'TARGET', target_type: type, session_id: 'session-1', nav_seq: 1, url: 'https://page.test/' }
  const target = { session, type, signal: session.detached, context: (more?: Partial<Context>) => ({ ...context, ...more }) }
  const stop = await collector.watch(target, telemetry)
  return {
    chromium,
    received,
    stop,
    types: () => received.map((event) => event.type),
    of: (name) => received.filter((event) => event.type === name).map(({ data }) => data),
    emit: (method, params) => chromium.emit(method, params, 'session-1'),
    commands: () => chromium.sent.map(({ method }) => method),
    vanish: () => session.drop(),
  }
}
