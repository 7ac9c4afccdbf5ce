// Kills the service, or a session's agent, while the session sends events. The archive has every event that survived, and an event says that others may be missing.
import { beforeAll, expect, test } from 'vitest'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { allOf, EVERYTHING, say, texts } from '../support/kept-telemetry.ts'

const KILLS = amount(4, 25)
const STORED_MS = 60_000
/** The most that a kill may lose, from docs/telemetry.md. */
const LOST_MS = 1_000
/** The test may record the time of a line this much after the agent received it. */
const NOTED_MS = 250
const TALK_MS = 3_000

let paths: DataPaths
const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  paths = dataPaths(cloud.dataDir)
})

const create = async () => (await cloud.client.browsers.create({ telemetry: EVERYTHING, headless: true, timeout_seconds: 3600 })).session_id
const numbers = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`)
const lines = async (id: string) => texts(await allOf(cloud.fetch, id, 'since=1h&limit=100&type=console_log')).filter((text) => text.startsWith('line '))

/** Sends an event to the session every few milliseconds, until it is stopped or the agent has ended. `count` is the number of events, `sentAt` the time of each. */
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

/** Checks an ended session: it has all lines from the first on, except those of the last moment before the kill, and says that these may be missing. */
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
  await talker.stop().catch(() => {}) // the agent has ended, so the last line fails
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
  await talker.stop().catch(() => {}) // the agent has ended, so the last line fails
  await ended
  await cloud.start()
  await lacksTheLastMoment(id, talker, killedAt)
})
