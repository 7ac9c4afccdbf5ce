// Exports of the audit log by a service that is killed again and again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { amount } from '../support/long.ts'
import { exportsTo, PATH, wanted } from '../support/audit-exports.ts'
import { s3Server, type S3Server } from '../support/s3.ts'

const KILLS = amount(4, 60)
/** The delay of the server's answer to an object. A kill takes less time. */
const LATE_MS = 500
/** With fewer entries the test would show nothing. */
const SOME = 20
/** The limit for the last entries to be exported, on a busy machine. */
const SOON_MS = 60_000

let s3: S3Server
let cloud: OwnCloud
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  s3 = ended.use(await s3Server())
  cloud = ended.use(await startCloud({ ...exportsTo(s3), COB_DRIVER: 'fake' }))
})
afterAll(() => ended.disposeAsync())

test('kill -9 at any moment loses no entry of an export, and all entries are those of the log', async () => {
  const send = (method: string, path: string, body: object) =>
    cloud.fetch(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  const { id } = (await (await send('POST', PATH, wanted({ prefix: 'killed' }))).json()) as { id: string }
  expect((await send('PATCH', `${PATH}/${id}`, { status: 'active' })).status).toBe(200)
  let isOver = false
  let calls = 0
  const callers = [0, 1].map(async (caller) => {
    while (!isOver) {
      const answered = await cloud.fetch(`/org/projects/${caller}-${calls++}`, { method: calls % 2 ? 'GET' : 'DELETE' }).then(
        (response) => response.text(),
        () => undefined,
      )
      await sleep(answered === undefined ? 50 : 5)
    }
  })
  for (let kill = 0; kill < KILLS; kill++) {
    // Even rounds kill while an upload is under way, so the object is lost. Odd rounds kill soon after the upload, before, while or after the service records it.
    const isOnItsWay = kill % 2 === 0
    s3.trouble = isOnItsWay ? { ms: LATE_MS } : {}
    const { begun, puts } = s3.counts
    await until('an object', SOON_MS, () => (isOnItsWay ? s3.counts.begun > begun : s3.counts.puts > puts), { everyMs: 1 })
    if (!isOnItsWay) await sleep(kill)
    await cloud.kill()
    await cloud.start()
  }
  isOver = true
  await Promise.all(callers)
  s3.trouble = {}
  const over = new Date().toISOString()
  const missing = async () => {
    const has = new Set(s3.exported('logs', 'killed').flatMap((entries) => entries.map(({ event_id }) => event_id)))
    // Calls that a kill interrupted have no result (status 0); the service exports them later.
    const rows = await cloud.query<{ event_id: string }>(
      'select event_id from audit_log l join audit_log_destinations d on d.active @> l.at where l.status <> 0 and l.at < $1',
      [over],
    )
    return [rows.length > SOME, rows.filter(({ event_id }) => !has.has(event_id)).length]
  }
  await expect.poll(missing, { timeout: SOON_MS, interval: 500 }).toEqual([true, 0])
  const rows = new Map((await cloud.query<{ event_id: string; path: string; status: number }>('select * from audit_log')).map((row) => [row.event_id, row]))
  for (const { event_id, path: its, status } of s3.exported('logs', 'killed').flat()) expect(rows.get(event_id)).toMatchObject({ path: its, status })
})
