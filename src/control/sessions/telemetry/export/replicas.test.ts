// The export of telemetry by several replicas: one of them exports the sessions of all, and another one goes on when it stops.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCollector, type Collector } from '../../../../../test/support/otlp.ts'
import { endAll, share, startFastReplica, type FastReplica, type Shared } from '../../../../../test/support/replicas.ts'
import { EVERYTHING, say } from '../../../../../test/support/kept-telemetry.ts'
import { until } from '../../../../base/wait.ts'

const SOON_MS = 25_000

let collector: Collector
let shared: Shared
let replicas: FastReplica[]
beforeAll(async () => {
  collector = await startCollector()
  shared = await share({ COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })
  replicas = [await startFastReplica(shared, false), await startFastReplica(shared, false)]
}, 60_000)
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()))
  await endAll(shared, false)
  await shared[Symbol.asyncDispose]()
  await collector[Symbol.asyncDispose]()
}, 60_000)

const exporter = async () =>
  (await shared.query<{ replica: string }>(`select replica from leases where duty = 'telemetry_exports' and until > now()`))[0]?.replica
const texts = (id: string) => collector.logs(id).map(({ attributes }) => attributes['cob.event.data.text'])
const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`)
const got = (id: string, count: number) => until(`${count} records`, SOON_MS, () => new Set(texts(id)).size >= count, { everyMs: 20 })

test('sessions of all replicas are exported once, also when the replica that exports has stopped', { timeout: 90_000 }, async () => {
  const [one, two] = replicas as [FastReplica, FastReplica]
  const made = await one.send('POST', '/telemetry/destinations', { name: 'collector', endpoint: collector.url })
  expect(made.status).toBe(201)
  const telemetry = { ...EVERYTHING, export: { otlp: { destination: { name: 'collector' } } } }
  const sessions = await Promise.all(replicas.map(async (replica) => (await replica.create({ telemetry, timeout_seconds: 600 })).session_id))
  for (const id of sessions) await say(shared.paths, id, 0, 50)
  for (const id of sessions) await got(id, 50)
  for (const id of sessions) expect(texts(id)).toEqual(lines(50))
  const first = await exporter()
  // The first one took every duty when it was alone.
  await one.stop()
  for (const id of sessions) await say(shared.paths, id, 50, 50)
  for (const id of sessions) await got(id, 100)
  expect([first === undefined, (await exporter()) === first, collector.wrong]).toEqual([false, false, []])
  for (const id of sessions) await two.fetch(`/browsers/${id}`, { method: 'DELETE' })
})
