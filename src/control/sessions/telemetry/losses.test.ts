// Services that are killed, agents that lose events or never answer, limits that are reached: the events that are stored then, and reports of missing ones.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { line, pretendFeed, type PretendFeed } from '../../../../test/support/telemetry-feed.ts'
import type { Envelope } from '../../../agent/telemetry/contract.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { until } from '../../../base/wait.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { alone } from '../../../store/leases.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import { Followers } from './followers.ts'
import { readEvents } from './read.ts'
import { removeSegments } from './rows.ts'

const STORED_MS = 20_000
const { signal } = new AbortController()
const REPLICA = 'mine'

let cloud: FastCloud
let db: Db
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
})
afterAll(async () => {
  await db.destroy()
  await cloud[Symbol.asyncDispose]()
})

let dir: string
let feed: PretendFeed
let id: string
let cleanup: AsyncDisposableStack
beforeEach(async () => {
  cleanup = new AsyncDisposableStack()
  dir = mkdtempSync(join(tmpdir(), 'cob-feed-'))
  cleanup.defer(() => rmSync(dir, { recursive: true, force: true }))
  feed = cleanup.use(await pretendFeed(dir))
  id = newId()
  await cloud.query(
    `insert into browsers (id, scope, state, replica, options, tags, timeout_seconds, created_at) values ($1, 'elsewhere', 'running', $2, '{"telemetry":{"categories":["console"]}}', '{}', 60, now())`,
    [id, REPLICA],
  )
})
afterEach(async () => {
  await cleanup.disposeAsync()
  await cloud.query(`update browsers set state = 'deleted' where id = $1`, [id])
})

interface Service {
  archive: Followers
  lost: () => number
  /** After this, it stores nothing any more. */
  kill(): Promise<void>
}

/** A service that reads the session. */
async function service(
  options: { isAdopting?: boolean; maxBytes?: number; fullDisk?: () => string | undefined; isAsleep?: () => boolean; hasAgent?: () => boolean } = {},
): Promise<Service> {
  const { isAdopting = true, maxBytes = 1024 * 1024, fullDisk = () => undefined, isAsleep = () => false, hasAgent = () => true } = options
  let isAlive = true
  let lost = 0
  const endpoint = () => (hasAgent() ? feed.endpoint : undefined)
  const archive = new Followers({
    db,
    scope: 'elsewhere',
    leases: {
      ...alone(REPLICA),
      get isAlive() {
        return isAlive
      },
    },
    endpointOf: endpoint,
    agentOf: endpoint,
    isIdle: () => false,
    isAsleep,
    tellWatcher: async () => false,
    fullDisk,
    maxBytes,
    meter: { stored() {}, lost: (count) => void (lost += count) },
    log: silentLog,
  })
  const kill = async () => {
    isAlive = false
    await archive[Symbol.asyncDispose]()
  }
  cleanup.defer(kill)
  if (isAdopting) await archive.adopt()
  return { archive, lost: () => lost, kill }
}

const read = async (isForwards = true): Promise<Envelope[]> => {
  const all: Envelope[] = []
  for await (const one of readEvents({ db, objects: fileObjects(join(dir, 'objects')) }, id, {}, isForwards, signal)) all.push(one)
  return all
}
const seqs = async (isForwards = true) => (await read(isForwards)).map(({ seq }) => seq)
const reaches = (seq: number) => until(`event ${seq}`, STORED_MS, async () => (await seqs(false))[0] === seq, { everyMs: 20 })
const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => at + first)
const lines = (last: number, first = 1) => upTo(last, first).map((seq) => line(seq))
const losses = async () => (await read()).filter(({ event }) => event.type === 'monitor_events_lost').map(({ seq, event }) => ({ seq, ...event.data }))
const end = (one: Service) => one.archive.step.run({ id, reason: 'deleted' }, AbortSignal.timeout(10_000), () => {})

test('a session that several look for at once is read once', async () => {
  const { archive } = await service()
  archive.lookSoon()
  await archive.adopt()
  archive.lookSoon()
  archive.noted({ id, isOn: true })
  await archive.adopt()
  feed.push(...lines(3))
  await reaches(3)
  expect([feed.asked(), archive.followed, await seqs()]).toEqual([1, 1, upTo(3)])
})

test('what the agent itself has dropped is told once, by it', async () => {
  await service()
  feed.push(...lines(5))
  feed.push(line(9, { type: 'monitor_events_lost', category: 'monitor', data: { reason: 'too_many', count: 3 } }), ...lines(12, 10))
  await reaches(12)
  feed.cut()
  feed.push(line(20, { type: 'monitor_events_lost', category: 'monitor', data: { reason: 'too_many', count: 7 } }))
  await reaches(20)
  expect(await losses()).toEqual([
    { seq: 9, reason: 'too_many', count: 3 },
    { seq: 20, reason: 'too_many', count: 7 },
  ])
})

test('two services that store the same events for a while lose none, and none is there twice', async () => {
  const [a, b] = [await service(), await service()]
  for (let seq = 1; seq <= 200; seq += 7) {
    feed.push(...lines(Math.min(200, seq + 6), seq))
    await (seq % 3 === 0 ? a : b).archive.flush(id)
  }
  await a.kill()
  const late = await service()
  feed.push(...lines(220, 201))
  await reaches(220)
  expect(await seqs()).toEqual(upTo(220))
  expect(await seqs(false)).toEqual(upTo(220).toReversed())
  await late.kill()
})

test('a connection that breaks loses nothing', async () => {
  const { lost } = await service()
  for (let round = 0; round < 5; round++) {
    feed.push(...lines(20 * (round + 1), 20 * round + 1))
    feed.cut()
  }
  await reaches(100)
  expect([await seqs(), await losses(), lost()]).toEqual([upTo(100), [], 0])
})

test.each([
  ['none of ours', '{"seq":6,"event":{"type":"other"}}\n{"seq":"x"}\n[]\n5\n'],
  ['no JSON', 'hello\n'],
  ['longer than any event', `{"seq":6,"event":"${'x'.repeat(1_200_000)}"}\n`],
  ['of a number that no event has', `${JSON.stringify(line(2 ** 53 - 1))}\n`],
  ['many values at once', `{"seq":6,"a":[${'0,'.repeat(250_000)}0]}\n`],
])('a line that is %s does not keep others from being stored', async (_, text) => {
  await service()
  feed.push(...lines(5))
  await reaches(5)
  feed.send(text)
  feed.push(...lines(9, 7))
  await reaches(9)
  expect(await seqs()).toEqual(expect.arrayContaining([...upTo(5), ...upTo(9, 7)]))
})

test('times never run backwards, and never far ahead', async () => {
  await service()
  const now = Date.now() * 1000
  feed.push(line(1, { ts: now }), line(2, { ts: 5 }), line(3, { ts: now * 3 }), line(4, { ts: now + 7 }))
  await reaches(4)
  const times = (await read()).map(({ event }) => event.ts)
  expect(times).toEqual(times.toSorted((x, y) => x - y))
  expect(times.every((ts) => ts >= now && ts < now + 120_000_000)).toBe(true)
})

test('an event that is too deep, or longer than its kind may be, is stored without what it tells; times begin when the session is first read', async () => {
  await service()
  const deep = JSON.parse(`${'{"a":'.repeat(1000)}1${'}'.repeat(1000)}`) as Record<string, unknown>
  const long = { text: 'x'.repeat(100_000) }
  feed.push(
    line(2 ** 40, { ts: 1, data: deep }),
    line(2 ** 40 + 1, { data: long }),
    line(2 ** 40 + 2, { type: 'monitor_screenshot', data: { png: long.text } }),
  )
  feed.push(line(2 ** 40 + 3))
  await reaches(2 ** 40 + 3)
  const found = (await read()).slice(-4)
  expect(found.map(({ event }) => [event.truncated, event.data && Object.keys(event.data)])).toEqual([
    [true, undefined],
    [true, undefined],
    [undefined, ['png']],
    [undefined, ['text']],
  ])
  expect(found[0]!.event.ts).toBeGreaterThan(Date.now() * 1000 - 2 * 3600_000_000)
})

test('the category of an event is that of its type, whatever the agent says', async () => {
  await service()
  feed.push(line(1, { category: 'system' }))
  await reaches(1)
  expect((await read())[0]!.event.category).toBe('console')
})

test('the end of a session whose instance is gone says once that something may be missing, also when two services end it', async () => {
  let isThere = true
  const first = await service({ hasAgent: () => isThere })
  feed.push(...lines(3))
  await reaches(3)
  isThere = false
  feed.cut()
  await end(first)
  expect(await losses()).toEqual([{ seq: 4, reason: 'instance_ended' }])
  expect(first.archive.followed).toBe(0)
  await first.kill()
  await end(await service({ hasAgent: () => false }))
  expect(await losses()).toEqual([{ seq: 4, reason: 'instance_ended' }])
})

test('above the limit of a session its archive stops, says so and how much it has left out; after a deletion it begins anew', async () => {
  const one = await service({ maxBytes: 500 })
  let seq = 0
  await until('the limit', STORED_MS, async () => {
    feed.push(line(++seq, { data: { text: newId() + newId() } }))
    return (await losses()).length > 0
  })
  const stopped = (await losses())[0]!
  expect(stopped).toEqual({ seq: stopped.seq, reason: 'archive_limit', first_seq: stopped.seq })
  feed.push(...lines(seq + 10, seq + 1))
  seq += 10
  await until('the count', STORED_MS, () => one.lost() >= seq - stopped.seq, { everyMs: 20 })
  expect((await seqs(false))[0]).toBe(stopped.seq)

  await removeSegments(db, id, true)
  one.archive.deleted(id)
  feed.push(...lines(seq + 3, seq + 1))
  await reaches(seq + 3)
  // Events from before are not stored again, neither by this service nor by the next.
  expect(await seqs()).toEqual(upTo(seq + 3, seq))
  expect((await losses())[0]).toMatchObject({ seq, reason: 'archive_limit' })
  await one.kill()
  await service({ maxBytes: 500 })
  feed.push(line(seq + 4))
  await reaches(seq + 4)
  expect(await seqs()).toEqual(upTo(seq + 4, seq))
})

test('what is easily compressed is limited as well', async () => {
  const one = await service({ maxBytes: 20_000 })
  for (let seq = 1; seq <= 10; seq++) feed.push(line(seq, { data: { text: 'x'.repeat(20_000) } }))
  await reaches(10)
  feed.push(line(11), line(12))
  await until('the limit', STORED_MS, async () => (await losses()).length > 0)
  expect(await losses()).toEqual([{ seq: 11, reason: 'archive_limit', first_seq: 11 }])
  await removeSegments(db, id, true)
  one.archive.deleted(id)
  feed.push(line(13))
  await reaches(13)
})

test('the end of a session that is above its limit says how many events were left out', async () => {
  const one = await service({ maxBytes: 10 })
  feed.push(...lines(2))
  await reaches(2)
  feed.push(...lines(42, 3))
  await end(one)
  expect(await losses()).toEqual([
    { seq: 3, reason: 'archive_limit', first_seq: 3 },
    { seq: 42, reason: 'archive_limit', count: 40, last_seq: 42 },
  ])
})

test('nothing is stored while the disk is full; what came meanwhile is stored afterwards', async () => {
  let problem: string | undefined = 'full'
  const { archive } = await service({ fullDisk: () => problem })
  feed.push(...lines(30))
  await expect(until('a failure', STORED_MS, () => archive.flush(id).then(() => false))).rejects.toThrow('full')
  expect([await seqs(), archive.lagSeconds > 0]).toEqual([[], true])
  problem = undefined
  await reaches(30)
  expect([await seqs(), archive.lagSeconds]).toEqual([upTo(30), 0])
})

test('a session that sleeps is not asked; it is when it has woken', async () => {
  let isAsleep = true
  await service({ isAsleep: () => isAsleep })
  feed.push(...lines(3))
  expect(feed.asked()).toBe(0)
  isAsleep = false
  await reaches(3)
})
