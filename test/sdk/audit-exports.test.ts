// The newest release of the published Python SDK manages export destinations of the audit log.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { exportsTo } from '../support/audit-exports.ts'
import { startFastCloud } from '../support/fast-cloud.ts'
import { s3Server } from '../support/s3.ts'

const PROGRAM_MS = 100_000

test('kernel 0.131.0 for Python makes every call', async () => {
  await using s3 = await s3Server()
  await using cloud = await startFastCloud(exportsTo(s3))
  const python = join(PACKAGE_DIR, '.cob/python')
  await promisify(execFile)(join(python, 'venv/bin/python'), [join(PACKAGE_DIR, 'test/data/python/exports.py')], {
    env: { PATH: process.env.PATH, PYTHONPATH: join(python, '0.131.0'), PYTHONDONTWRITEBYTECODE: '1', KERNEL_API_KEY: cloud.key, KERNEL_BASE_URL: cloud.url },
    timeout: PROGRAM_MS,
  })
  // What it has read is in the export as well.
  expect(s3.exported('logs', 'python/2').flat()).toEqual(
    expect.arrayContaining([expect.objectContaining({ user_agent: expect.stringContaining('Kernel/Python 0.131.0') })]),
  )
})
