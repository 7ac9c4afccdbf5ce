// Exports of several replicas: one of them exports what all have noted, and another one goes on when it stops.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { endAll, share, startFastReplica, type FastReplica, type Shared } from '../../../../../test/support/replicas.ts'
import { exportsTo, PATH, wanted } from '../../../../../test/support/audit-exports.ts'
import { s3Server, type S3Server } from '../../../../../test/support/s3.ts'
import { newId } from '../../../../base/ids.ts'
import { until } from '../../../../base/wait.ts'

const SOON_MS = 20_000

let s3: S3Server
let shared: Shared
let replicas: FastReplica[]
beforeAll(async () => {
  s3 = await s3Server()
  shared = await share(exportsTo(s3))
  replicas = [await startFastReplica(shared, true), await startFastReplica(shared, true)]
}, 60_000)
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()))
  await endAll(shared, true)
  await shared[Symbol.asyncDispose]()
  await s3[Symbol.asyncDispose]()
}, 60_000)

const exporter = async () => (await shared.query<{ replica: string }>(`select replica from leases where duty = 'exports' and until > now()`))[0]?.replica

test('what every replica has noted is exported once, also when the replica that exports has stopped', { timeout: 60_000 }, async () => {
  const [one, two] = replicas as [FastReplica, FastReplica]
  const { id } = (await (await one.send('POST', PATH, wanted())).json()) as { id: string }
  expect((await two.send('PATCH', `${PATH}/${id}`, { status: 'active' })).status).toBe(200)
  const mark = async (by: FastReplica) => {
    const path = `/org/projects/${newId()}`
    await by.fetch(path)
    return path
  }
  const entries = () => s3.exported('logs').flat()
  const got = (path: string) => until(`the export of ${path}`, SOON_MS, () => entries().some((entry) => entry.path === path), { everyMs: 20 })
  for (const by of [one, two]) await got(await mark(by))
  expect(new Set(entries().map(({ event_id }) => event_id)).size).toBe(entries().length)
  const first = await exporter()
  // The first one took every duty when it was alone.
  await one.stop()
  await got(await mark(two))
  expect([first === undefined, (await exporter()) === first]).toEqual([false, false])
})
