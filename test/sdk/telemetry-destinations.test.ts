// Destinations of telemetry, by a release of the published Python SDK: the one for Node does not have them yet.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { dataPaths, PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { startCollector } from '../support/otlp.ts'
import { say } from '../support/kept-telemetry.ts'

/** The first of those that are tried that has them. */
const RELEASE = '0.131.0'
const PROGRAM_MS = 60_000
const SOON_MS = 25_000

test('it manages destinations, and a browser exports to one with its headers', async () => {
  await using collector = await startCollector()
  await using cloud = await startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })
  const python = join(PACKAGE_DIR, '.cob/python')
  const { stdout } = await promisify(execFile)(join(python, 'venv/bin/python'), [join(PACKAGE_DIR, 'test/data/python/destinations.py'), collector.url], {
    env: {
      PATH: process.env.PATH,
      PYTHONPATH: join(python, RELEASE),
      PYTHONDONTWRITEBYTECODE: '1',
      KERNEL_API_KEY: cloud.key,
      KERNEL_BASE_URL: cloud.url,
    },
    timeout: PROGRAM_MS,
  })
  const [id, destination] = stdout.trim().split(' ') as [string, string]
  await say(dataPaths(cloud.dataDir), id, 0, 5)
  await until('the records', SOON_MS, () => collector.logs(id).length === 5, { everyMs: 20 })
  expect([collector.taken[0]!.headers['x-api-key'], collector.wrong]).toEqual(['three', []])
  await cloud.remove(id)
  expect((await cloud.fetch(`/telemetry/destinations/${destination}`, { method: 'DELETE' })).status).toBe(204)
})
