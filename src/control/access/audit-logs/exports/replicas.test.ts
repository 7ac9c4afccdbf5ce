// Exports with several replicas: one replica exports the entries of all, and another one continues when it stops.
import { expect, test } from 'vitest'
import { twoReplicas, type FastReplica } from '../../../../../test/support/two-replicas.ts'
import { forTests } from '../../../../../test/support/for-tests.ts'
import { exportsTo, PATH, wanted } from '../../../../../test/support/audit-exports.ts'
import { s3Server } from '../../../../../test/support/s3.ts'
import { newId } from '../../../../base/ids.ts'
import { until } from '../../../../base/wait.ts'

const SOON_MS = 20_000

const s3 = forTests(s3Server)
const { shared, one, two } = twoReplicas(() => exportsTo(s3))

const exporter = async () => (await shared.query<{ replica: string }>(`select replica from leases where duty = 'exports' and until > now()`))[0]?.replica

test('what every replica has noted is exported once, also when the replica that exports has stopped', { timeout: 60_000 }, async () => {
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
  // The first replica took every duty while it was alone.
  await one.stop()
  await got(await mark(two))
  expect([first === undefined, (await exporter()) === first]).toEqual([false, false])
})
