// Exports telemetry from a service that is killed again and again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dataPaths } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { amount } from '../support/long.ts'
import { startCollector, type Collector } from '../support/otlp.ts'
import { allOf, EVERYTHING, say } from '../support/kept-telemetry.ts'

const KILLS = amount(4, 60)
/** The delay of the collector's answer. A kill takes less time. */
const LATE_MS = 500
const LINES = 100
/** The limit for the last events to be exported, on a busy machine. */
const SOON_MS = 60_000

let collector: Collector
let cloud: OwnCloud
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  collector = ended.use(await startCollector())
  cloud = ended.use(await startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' }))
})
afterAll(() => ended.disposeAsync())

test('kill -9 at any moment loses no event that is stored, and the collector gets nothing else', async () => {
  const send = async <T>(method: string, path: string, body: object): Promise<T> =>
    (await (await cloud.fetch(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json()) as T
  const { id: destination } = await send<{ id: string }>('POST', '/telemetry/destinations', { name: 'collector', endpoint: collector.url })
  const telemetry = { ...EVERYTHING, export: { otlp: { destination: { id: destination } } } }
  const ids: string[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    const { session_id: id } = await send<{ session_id: string }>('POST', '/browsers', { telemetry, timeout_seconds: 600 })
    ids.push(id)
    // Even rounds kill while a request is under way, so the request is lost. Odd rounds kill soon after it, before, while or after the service records it.
    const isOnItsWay = kill % 2 === 0
    collector.trouble = isOnItsWay ? { ms: LATE_MS, status: 503 } : {}
    await say(dataPaths(cloud.dataDir), id, 0, LINES)
    const isStored = 'select from telemetry_segments where session_id = $1'
    await until('stored events', SOON_MS, async () => (await cloud.query(isStored, [id])).length > 0, { everyMs: 5 })
    if (isOnItsWay) await sleep(10 * kill)
    else await until('a request', SOON_MS, () => collector.logs(id).length > 0, { everyMs: 1 })
    await cloud.kill()
    await cloud.start()
  }
  collector.trouble = {}
  const missing = async () => {
    const left = await Promise.all(
      ids.map(async (id) => {
        const has = new Set(collector.logs(id).map(({ attributes }) => attributes['cob.event.seq']))
        return (await allOf(cloud.fetch, id)).filter(({ seq }) => !has.has(seq)).length
      }),
    )
    return left.reduce((sum, count) => sum + count, 0)
  }
  await expect.poll(missing, { timeout: SOON_MS, interval: 500 }).toBe(0)
  for (const id of ids) {
    const stored = new Map((await allOf(cloud.fetch, id)).map(({ seq, event }) => [seq, event]))
    expect(stored.size).toBeGreaterThan(0)
    for (const { attributes, record } of collector.logs(id)) expect(record.timeUnixNano).toBe(`${stored.get(attributes['cob.event.seq'] as number)?.ts}000`)
  }
  expect(collector.wrong).toEqual([])
})
