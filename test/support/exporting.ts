// A service in this process that exports the telemetry of its fake browsers to a collector, for the tests of a file.
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { until } from '../../src/base/wait.ts'
import type { TelemetryDestination } from '../../src/control/sessions/telemetry/destinations/contract.ts'
import { startFastCloud, type FastCloud } from './fast-cloud.ts'
import { EVERYTHING } from './kept-telemetry.ts'
import { startCollector, type Collector } from './otlp.ts'

export const SOON_MS = 25_000
export const PATH = '/telemetry/destinations'

/** What there is for the test that runs now. */
export let cloud: FastCloud
export let collector: Collector
export let destination: TelemetryDestination

/** Starts the service before the tests of a file, and a collector with a destination before each. */
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
