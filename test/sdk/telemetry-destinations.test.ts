// Telemetry destinations through a release of the published Python SDK. The Node SDK does not have them yet.
import { expect, test } from 'vitest'
import { dataPaths } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { startCollector } from '../support/otlp.ts'
import { say } from '../support/kept-telemetry.ts'
import { runPython } from '../support/python.ts'

/** The first of the tested releases that has destinations. */
const RELEASE = '0.131.0'
const SOON_MS = 25_000

test('it manages destinations, and a browser exports to one with its headers', async () => {
  await using collector = await startCollector()
  await using cloud = await startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })
  const stdout = await runPython(cloud, RELEASE, ['destinations.py', collector.url])
  const [id, destination] = stdout.trim().split(' ') as [string, string]
  await say(dataPaths(cloud.dataDir), id, 0, 5)
  await until('the records', SOON_MS, () => collector.logs(id).length === 5, { everyMs: 20 })
  expect([collector.taken[0]!.headers['x-api-key'], collector.wrong]).toEqual(['three', []])
  await cloud.remove(id)
  expect((await cloud.fetch(`/telemetry/destinations/${destination}`, { method: 'DELETE' })).status).toBe(204)
})
