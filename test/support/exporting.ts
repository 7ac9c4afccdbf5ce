// A service in this process that exports the telemetry of its fake browsers to a collector, for the tests of one file.
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { until } from '../../src/base/wait.ts'
import type { TelemetryDestination } from '../../src/control/sessions/telemetry/destinations/contract.ts'
import { startFastCloud, type FastCloud } from './fast-cloud.ts'
import { EVERYTHING } from './kept-telemetry.ts'
import { startCollector, type Collector } from './otlp.ts'

export const SOON_MS = 25_000
export const PATH = '/telemetry/destinations'

/** The service, and the collector and the destination of the current test. */
export let cloud: FastCloud
export let collector: Collector
export let destination: TelemetryDestination

/** Starts the service before a file's tests, and a collector with a destination before each test. */
export function exporting(): void {
  beforeAll(async () => {
    cloud = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1', COB_TELEMETRY_EXPORT_BEHIND_MB: '1' })
  })
  afterAll(() => cloud[Symbol.asyncDispose]())
  beforeEach(async () => {
    collector = await startCollector()
    destination = await make(collector)
  })
  afterEach(async () => {
    expect(collector.wrong).toEqual([])
    await collector[Symbol.asyncDispose]()
  })
}

export async function make({ url }: Pick<Collector, 'url'>, more: object = {}): Promise<TelemetryDestination> {
  const answer = await cloud.send('POST', PATH, { name: `to ${newId()}`, endpoint: `${url}/otlp`, ...more })
  if (answer.status !== 201) throw new Error(await answer.text())
  return (await answer.json()) as TelemetryDestination
}
export const state = async ({ id } = destination) => (await (await cloud.fetch(`${PATH}/${id}`)).json()) as TelemetryDestination
export const create = async ({ id } = destination, more: object = {}) =>
  (await cloud.create({ telemetry: { ...EVERYTHING, export: { otlp: { destination: { id } } }, ...more }, timeout_seconds: 600 })).session_id
export const end = async (id: string) => expect((await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
export const texts = (id: string, at = collector) => at.logs(id).map(({ attributes }) => attributes['cob.event.data.text'])
export const lines = (count: number, from = 0) => Array.from({ length: count }, (_, at) => `line ${from + at}`)
export const got = (id: string, count: number, at = collector) =>
  until(`${count} records`, SOON_MS, () => new Set(texts(id, at)).size >= count, { everyMs: 20 })
export const metric = async (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(await (await cloud.fetch('/metrics')).text())?.[1])
export const failing = (at = destination) => until('a failure', SOON_MS, async () => (await state(at)).consecutive_failures > 0, { everyMs: 20 })
/** The destination's state after a success, which the service writes down after the collector has answered. */
export const succeeding = (at = destination) =>
  until(
    'a success',
    SOON_MS,
    async () => {
      const now = await state(at)
      return now.last_export_at !== undefined && now.consecutive_failures === 0 && now
    },
    { everyMs: 20 },
  )
/** Makes the collector unavailable until {@link wellAgain}. */
export const AWAY = { status: 503, headers: { 'retry-after': '300' } }
/** Makes the service try the destination at once. The collector then accepts everything, or has another trouble. */
export async function wellAgain(trouble: Collector['trouble'] = {}): Promise<void> {
  collector.trouble = trouble
  await cloud.send('PATCH', `${PATH}/${destination.id}`, { description: 'well again' })
}
/** Resolves when the archive has this many events of a session. */
export const stored = (id: string, count: number) =>
  until(
    'all in the archive',
    SOON_MS,
    async () => (await cloud.query('select from telemetry_segments where session_id = $1 having sum(events) = $2', [id, count])).length === 1,
    { everyMs: 20 },
  )
