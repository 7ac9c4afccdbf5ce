// The export of telemetry with several replicas: one replica exports all sessions, and another one continues when it stops.
import { expect, test } from 'vitest'
import { forTests } from '../../../../../test/support/for-tests.ts'
import { startCollector } from '../../../../../test/support/otlp.ts'
import { twoReplicas } from '../../../../../test/support/two-replicas.ts'
import { EVERYTHING, say } from '../../../../../test/support/kept-telemetry.ts'
import { until } from '../../../../base/wait.ts'

const SOON_MS = 25_000

const collector = forTests(startCollector)
const { shared, one, two } = twoReplicas({ COB_ALLOW_HOST_LOOPBACK: '1' }, { overTls: false })

const exporter = async () =>
  (await shared.query<{ replica: string }>(`select replica from leases where duty = 'telemetry_exports' and until > now()`))[0]?.replica
const texts = (id: string) => collector.logs(id).map(({ attributes }) => attributes['cob.event.data.text'])
const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`)
const got = (id: string, count: number) => until(`${count} records`, SOON_MS, () => new Set(texts(id)).size >= count, { everyMs: 20 })

test('sessions of all replicas are exported once, also when the replica that exports has stopped', { timeout: 90_000 }, async () => {
  const made = await one.send('POST', '/telemetry/destinations', { name: 'collector', endpoint: collector.url })
  expect(made.status).toBe(201)
  const telemetry = { ...EVERYTHING, export: { otlp: { destination: { name: 'collector' } } } }
  const sessions = await Promise.all([one, two].map(async (replica) => (await replica.create({ telemetry, timeout_seconds: 600 })).session_id))
  for (const id of sessions) await say(shared.paths, id, 0, 50)
  for (const id of sessions) await got(id, 50)
  for (const id of sessions) expect(texts(id)).toEqual(lines(50))
  const first = await exporter()
  // The first replica took every duty while it was alone.
  await one.stop()
  for (const id of sessions) await say(shared.paths, id, 50, 50)
  for (const id of sessions) await got(id, 100)
  expect([first === undefined, (await exporter()) === first, collector.wrong]).toEqual([false, false, []])
  for (const id of sessions) await two.fetch(`/browsers/${id}`, { method: 'DELETE' })
})
