// Widely used releases of the published Python SDK, sync and async: each makes every call below a session.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'

const PYTHON = join(PACKAGE_DIR, '.cob/python')
const RELEASES = readFileSync(join(PACKAGE_DIR, 'test/data/python/releases.txt'), 'utf8').trim().split('\n')
/** All path prefixes that a caller can configure to be sent directly to `base_url`; no release sends all of them by default. */
const ALL_ROUTED = 'curl,telemetry/stream,computer,playwright,process,fs,logs,replays'
const PROGRAM_MS = 100_000

let cloud: Cloud
beforeAll(async () => {
  cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  for (let i = 0; i < 2; i++) await cloud.client.browsers.create({ tags: { kept: 'yes' }, headless: true, timeout_seconds: 600 })
})
afterAll(() => cloud[Symbol.asyncDispose]())

/** Runs the program with one release. @throws with its output when it fails */
async function run(release: string, mode: 'sync' | 'async', env: Record<string, string> = {}): Promise<void> {
  const library = join(PYTHON, release)
  if (!existsSync(library)) throw new Error(`${library} is missing: run COB_SETUP_TEST=1 script/setup`)
  await promisify(execFile)(
    join(PYTHON, 'venv/bin/python'),
    [join(PACKAGE_DIR, 'test/data/python/session.py'), mode, `http://host.cob.internal:${new URL(cloud.url).port}/health`],
    {
      env: { PATH: process.env.PATH, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1', KERNEL_API_KEY: cloud.key, KERNEL_BASE_URL: cloud.url, ...env },
      timeout: PROGRAM_MS,
    },
  )
}

describe.concurrent.each(RELEASES)('kernel %s for Python', (release) => {
  test('gets answers to every call of a session, and can still use its key for other calls', () => run(release, 'sync'))

  test('gets answers with the token alone if it sends all calls to base_url, async', () =>
    run(release, 'async', { KERNEL_BROWSER_ROUTING_SUBRESOURCES: ALL_ROUTED }))
})
