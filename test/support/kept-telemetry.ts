// Telemetry of fake browsers: their agents' event buffers are real, and tests write into them as the agent's tools do.
import { join } from 'node:path'
import { telemetryFeed, type Envelope } from '../../src/agent/telemetry/contract.ts'
import type { DataPaths } from '../../src/base/paths.ts'
import { call } from '../../src/http/client.ts'

/** The categories that tests write. `platform` is off, because the service's own calls to the agent would add its events. */
export const EVERYTHING = {
  enabled: true,
  browser: Object.fromEntries(['console', 'network', 'page', 'interaction', 'screenshot'].map((name) => [name, { enabled: true }])),
}

type Type = Envelope['event']['type']

/** Writes events into the event buffer of a fake browser. */
export async function emit(paths: DataPaths, id: string, ...events: [type: Type, data: Record<string, unknown>][]): Promise<void> {
  const agent = { socketPath: join(paths.instance(id), 'agent.sock') }
  for (const [type, data] of events)
    await call(agent, telemetryFeed.addTelemetry, { body: { type, source: { kind: 'cdp' }, data } }, { signal: AbortSignal.timeout(10_000) })
}

/** Writes console lines with the texts `line <number>`. */
export const say = (paths: DataPaths, id: string, from: number, count: number): Promise<void> =>
  emit(paths, id, ...Array.from({ length: count }, (_, at): [Type, Record<string, unknown>] => ['console_log', { text: `line ${from + at}` }]))

export interface EventsPage {
  status: number
  items: Envelope[]
  hasMore: boolean
  next: number
}

type Fetch = (path: string, init?: RequestInit) => Promise<Response>

export async function pageOf(fetch: Fetch, id: string, query = ''): Promise<EventsPage> {
  const response = await fetch(`/browsers/${id}/telemetry/events?${query}`)
  const items = (await response.json()) as Envelope[]
  return { status: response.status, items, hasMore: response.headers.get('x-has-more') === 'true', next: Number(response.headers.get('x-next-offset')) }
}

/** All pages of the archive, as clients read them: up to the first page that is empty or has no next page. */
export async function allOf(fetch: Fetch, id: string, query = 'since=1h&limit=100'): Promise<Envelope[]> {
  const all: Envelope[] = []
  const offsets = new Set<number>()
  for (let page = await pageOf(fetch, id, query); ; page = await pageOf(fetch, id, `${query}&offset=${page.next}`)) {
    if (page.status !== 200) throw new Error(`the archive answered ${page.status}: ${JSON.stringify(page.items)}`)
    all.push(...page.items)
    if (!page.hasMore || page.items.length === 0) return all
    if (offsets.has(page.next)) throw new Error(`the archive asks twice for the page at ${page.next}`)
    offsets.add(page.next)
  }
}

export const texts = (events: readonly Envelope[]): string[] => events.flatMap(({ event }) => (typeof event.data?.text === 'string' ? [event.data.text] : []))
