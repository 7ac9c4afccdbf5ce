// The service, or a session's agent, is killed while the session tells of events: the archive lacks nothing that was still there, and says what may be missing.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { allOf, EVERYTHING, say, texts } from '../support/kept-telemetry.ts'

const KILLS = amount(4, 25)
const STORED_MS = 60_000
/** What a kill may cost, as docs/telemetry.md has it. */
const LOST_MS = 1_000
/** How long a talker may take to note that a line was told. */
const NOTED_MS = 250
const TALK_MS = 3_000

let cloud: OwnCloud
let paths: DataPaths
beforeAll(async () => {
  cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  paths = dataPaths(cloud.dataDir)
})
afterAll(() => cloud[Symbol.asyncDispose]())

const create = async () => (await cloud.client.browsers.create({ telemetry: EVERYTHING, headless: true, timeout_seconds: 3600 })).session_id
const numbers = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`)
const lines = async (id: string) => texts(await allOf(cloud.fetch, id, 'since=1h&limit=100&type=console_log')).filter((text) => text.startsWith('line '))

/** Has the session tell of an event every few milliseconds, until it is stopped or its agent has gone. Returns how many there were; `sentAt`: when each was sent. */
function talk(id: string): { count: () => number; sentAt: readonly number[]; stop: () => Promise<number> } {
  let count = 0
  let isOver = false
  const sentAt: number[] = []
  const talking = (async () => {
    while (!isOver) {
      await say(paths, id, count, 1)
      sentAt.push(performance.now())
      count++
      await sleep(3)
    }
  })()
  talking.catch(() => {})
  return {
    count: () => count,
    sentAt,
    async stop() {
      isOver = true
      await talking
      return count
    },
  }
}

test('a service that is killed again and again has every event in the archive once, in order, and tells of no loss', { timeout: 600_000 }, async () => {
  const id = await create()
  const talker = talk(id)
  for (let kill = 0; kill < KILLS; kill++) {
    await sleep(100 + 211 * (kill % 5))
    await cloud.kill()
    await sleep(50 * (kill % 3))
    await cloud.start()
  }
  const count = await talker.stop()
  await until('the last event in the archive', STORED_MS, async () => (await lines(id)).length >= count, { everyMs: 200 })
  expect(await lines(id)).toEqual(numbers(count))
  const all = await allOf(cloud.fetch, id, 'since=1h&limit=100')
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_, at) => at + 1))
  expect(all.filter(({ event }) => event.type === 'monitor_events_lost')).toEqual([])
  await cloud.remove(id)
  expect(await lines(id)).toEqual(numbers(count))
})

/** The session has ended: it has all lines from the first on, but for those of the last moment before it was killed, and says that these may be missing. */
async function lacksTheLastMoment(id: string, { sentAt }: ReturnType<typeof talk>, killedAt: number): Promise<void> {
  await until(
    'the end of the session',
    STORED_MS,
    async () => (await cloud.query<{ state: string }>('select state from browsers where id = $1', [id]))[0]!.state === 'deleted',
  )
  const received = await lines(id)
  expect(received).toEqual(numbers(received.length))
  const missing = sentAt[received.length]
  const age = missing === undefined ? 0 : killedAt - missing
  console.log(`of ${sentAt.length} lines ${received.length} are stored; the oldest that is missing was sent ${Math.round(age)} ms before the kill`)
  expect(age).toBeLessThan(LOST_MS + NOTED_MS)
  expect((await allOf(cloud.fetch, id)).at(-1)!.event).toMatchObject({ type: 'monitor_events_lost', data: { reason: 'instance_ended' } })
}

test('a session whose agent is killed lacks at most its last second, and is told to', { timeout: 300_000 }, async () => {
  const id = await create()
  const talker = talk(id)
  await until('some events', STORED_MS, () => talker.count() > 20)
  await sleep(TALK_MS)
  process.kill(agentOf(cloud, id), 'SIGKILL')
  const killedAt = performance.now()
  await talker.stop().catch(() => {}) // nobody listens any more
  await lacksTheLastMoment(id, talker, killedAt)
})

test('a session that is killed together with its service lacks at most its last second, and is told to', { timeout: 300_000 }, async () => {
  const id = await create()
  const talker = talk(id)
  await until('some events', STORED_MS, () => talker.count() > 20)
  await sleep(TALK_MS)
  const agent = agentOf(cloud, id)
  const ended = cloud.kill()
  process.kill(agent, 'SIGKILL')
  const killedAt = performance.now()
  await talker.stop().catch(() => {}) // nobody listens any more
  await ended
  await cloud.start()
  await lacksTheLastMoment(id, talker, killedAt)
})
