// A service with its own scope loses it: its database has failed over, and another process was first to take the lock there.
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { replicaCalls, replicaProcess, share, type Shared } from '../../../test/support/replicas.ts'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import { fakeDriver } from '../../instances/fake/fake.ts'
import { startControlPlane } from '../main.ts'

const START_MS = 60_000
/** The service checks the lock every second. */
const NOTICE_MS = 10_000

let shared: Shared
let other: pg.Client
beforeEach(async () => {
  shared = await share({ COB_REPLICAS: '0', COB_WARM_BROWSERS: '0', COB_WARM_BROWSERS_MAX: '0' })
  other = new pg.Client({ host: shared.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await other.connect()
}, START_MS)
afterEach(async () => {
  await other.end()
  await shared[Symbol.asyncDispose]()
})

/** Takes the lock as soon as the database session of the service that holds it is broken. */
async function takeScope(): Promise<void> {
  const holder = `from pg_locks where locktype = 'advisory' and granted and objsubid = 1`
  const [held] = (await other.query<{ key: string; pid: number }>(`select ((classid::bigint << 32) | objid::bigint)::text as key, pid ${holder}`)).rows
  const taken = other.query('select pg_advisory_lock($1)', [held!.key])
  await until('the other one to wait', NOTICE_MS, async () => (await shared.query('select from pg_locks where not granted')).length === 1)
  await shared.query('select pg_terminate_backend($1)', [held!.pid])
  await taken
}

test.each([{ noticed: true }, { noticed: false }])('it leaves its sessions to the other one (stopped after it has noticed: $noticed)', async ({ noticed }) => {
  const config = readConfig({ COB_DRIVER: 'fake', ...shared.env })
  const plane = await startControlPlane(config, silentLog, AbortSignal.timeout(START_MS))
  const { session_id: id } = await replicaCalls(plane.url, plane.key.value).create()
  await takeScope()
  if (noticed) await until('it to notice', NOTICE_MS, () => plane.lost.aborted)
  await plane[Symbol.asyncDispose]()
  const driver = fakeDriver(shared.paths)
  const rows = await shared.query<{ state: string }>('select state from browsers where id = $1', [id])
  expect([plane.lost.aborted, (await driver.found()).map((found) => found.id), rows]).toEqual([true, [id], [{ state: 'running' }]])
  await (await driver.adopt(id))![Symbol.asyncDispose]()
})

test('its process ends with an exit code that says so', async () => {
  const replica = await replicaProcess({ env: { ...shared.env, COB_DRIVER: 'fake' } }, 'a-key-of-this-test')
  await replica.start()
  await takeScope()
  await until('its end', NOTICE_MS, () => !replica.isRunning())
  expect(await replica.stop()).toBe(1)
  expect(replica.log()).toContain('the scope was lost to another process')
})
