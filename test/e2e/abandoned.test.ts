// Sessions end by themselves when their service never comes back.
import { execFile } from 'node:child_process'
import { renameSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { isAlive } from '../../src/base/processes.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { processesOf } from '../support/inside.ts'

const GRACE_SECONDS = 4
const TIMEOUT_SECONDS = 10
/** Extra time after a deadline, for a loaded machine. */
const LATE_MS = 30_000

// The two tests mostly wait, so they run concurrently.
test.concurrent('a session without a service ends itself after its timeout and the grace period, a warm browser after the grace period', async () => {
  await using cloud = await startCloud({ COB_ABANDONED_GRACE_SECONDS: String(GRACE_SECONDS) })
  await cloud.warm()
  const { session_id: id } = await cloud.client.browsers.create({ timeout_seconds: TIMEOUT_SECONDS })
  await cloud.warm()
  const [{ id: warm } = { id: '' }] = await cloud.query<{ id: string }>(`select id from browsers where state = 'warm'`)
  const [session, reserve] = [processesOf(cloud, id), processesOf(cloud, warm)]
  expect(Math.min(session.length, reserve.length)).toBeGreaterThan(5)
  // The boot of the warm browser may have used a part of the session's time. A call restarts the timeout.
  await cloud.client.browsers.computer.getMousePosition(id)
  // While the service watches the session, the grace period does not begin.
  await sleep((GRACE_SECONDS + 1) * 1000)
  // The processes of the network and of the sandbox. Chromium's processes start and end all the time, so they are not included.
  const outer = [...session.slice(0, 2), ...reserve.slice(0, 2)]
  expect(outer.every(isAlive)).toBe(true)
  await cloud.kill()
  const killed = performance.now()
  await until('the warm browser to end', LATE_MS, () => !reserve.some(isAlive), { everyMs: 100 })
  expect(session.slice(0, 2).every(isAlive)).toBe(true)
  await until('the session to end', TIMEOUT_SECONDS * 1000 + LATE_MS, () => !session.some(isAlive), { everyMs: 100 })
  expect(performance.now() - killed).toBeGreaterThanOrEqual((TIMEOUT_SECONDS + GRACE_SECONDS) * 1000)
  // The next start removes the remaining files.
  await cloud.start()
})

test.concurrent('cob doctor lists sandboxes without a service, ends them on request, and does not list those of a running service', async () => {
  await using cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  const { session_id: id } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const processes = processesOf(cloud, id)
  const line = async (...options: string[]) => (await doctor(...options)).split('\n').find((text) => text.includes(id))
  const longAgo = new Date(Date.now() - 3_600_000)
  const presence = join(cloud.dataDir, 'service.sock')
  utimesSync(presence, longAgo, longAgo)
  expect(await line('--end-orphans')).toBeUndefined()
  await cloud.kill()
  utimesSync(presence, new Date(), new Date())
  expect(await line('--end-orphans')).toBeUndefined()
  renameSync(cloud.dataDir, `${cloud.dataDir}.away`)
  try {
    expect(await line()).toContain('its data directory is gone (cob doctor --end-orphans ends it)')
  } finally {
    renameSync(`${cloud.dataDir}.away`, cloud.dataDir)
  }
  utimesSync(presence, longAgo, longAgo)
  expect(await line()).toMatch(/processes of user id \d+: no service has worked with its data directory for 36\d\d s \(cob/)
  expect(processes.slice(0, 2).every(isAlive)).toBe(true)
  expect(await line('--end-orphans')).toMatch(/; ended$/)
  expect(processes.filter(isAlive)).toEqual([])
  expect(await line()).toBeUndefined()
  await cloud.start()
})

async function doctor(...options: string[]): Promise<string> {
  const args = ['--disable-warning=ExperimentalWarning', join(PACKAGE_DIR, 'src/cli/main.ts'), 'doctor', ...options]
  return (await promisify(execFile)(process.execPath, args, { timeout: LATE_MS })).stdout
}
