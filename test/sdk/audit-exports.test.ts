// The newest release of the published Python SDK manages export destinations of the audit log.
import { expect, test } from 'vitest'
import { exportsTo } from '../support/audit-exports.ts'
import { startFastCloud } from '../support/fast-cloud.ts'
import { runPython } from '../support/python.ts'
import { s3Server } from '../support/s3.ts'

test('kernel 0.131.0 for Python makes every call', async () => {
  await using s3 = await s3Server()
  await using cloud = await startFastCloud(exportsTo(s3))
  await runPython(cloud, '0.131.0', ['exports.py'])
  // The export includes the requests of this program.
  expect(s3.exported('logs', 'python/2').flat()).toEqual(
    expect.arrayContaining([expect.objectContaining({ user_agent: expect.stringContaining('Kernel/Python 0.131.0') })]),
  )
})
