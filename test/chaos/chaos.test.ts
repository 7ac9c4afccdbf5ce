// Rounds of killing things at random: no call hangs or gets a wrong answer, and nothing is left at the end.
import { APIError, NotFoundError } from '@onkernel/sdk'
import { expect, test } from 'vitest'
import { sleep } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf, chromiumOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { seeded } from '../support/seeded.ts'

const ROUNDS = amount(8, 50)
/** A call without an answer after this long counts as hanging. A cold start on an overloaded machine is slow. */
const CALL_MS = 60_000

/** Errors that callers may get when something dies during their call: 404, 503, or a lost connection. */
function expected(error: unknown): boolean {
  if (!(error instanceof APIError)) return false
  return error.status === undefined || error.status === 404 || error.status === 503
}

const victims = {
  service: async (cloud: OwnCloud) => {
    await cloud.kill(true)
    return async () => cloud.start()
  },
  agent: async (cloud: OwnCloud, id: string) => {
    process.kill(agentOf(cloud, id), 'SIGKILL')
    return async () => {}
  },
  chromium: async (cloud: OwnCloud, id: string) => {
    process.kill(chromiumOf(cloud, id), 'SIGKILL')
    return async () => {}
  },
}
const actions = {
  create: (cloud: OwnCloud) => cloud.client.browsers.create({ timeout_seconds: 120 }),
  drag: (cloud: OwnCloud, id: string) =>
    cloud.client.browsers.computer.dragMouse(id, {
      path: [
        [100, 300],
        [900, 600],
      ],
      duration_ms: 400,
      hold_keys: ['Shift_L'],
    }),
  screenshot: (cloud: OwnCloud, id: string) => cloud.client.browsers.computer.captureScreenshot(id),
  delete: (cloud: OwnCloud, id: string) => cloud.client.browsers.deleteByID(id),
}
const pick = <T>(random: () => number, items: readonly T[]): T => items[Math.floor(random() * items.length)]!

test(
  `service, agent and Chromium are killed at random points of create, drag, screenshot and delete, ${ROUNDS} rounds: nothing is left behind`,
  { timeout: 600_000 },
  async () => {
    const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000)
    const random = seeded(seed)
    const story: string[] = [`CHAOS_SEED=${seed}`]
    try {
      await using cloud = await startCloud()
      const live = async () => (await cloud.query<{ id: string }>(`select id from browsers where state = 'running'`)).map(({ id }) => id)
      for (let round = 0; round < ROUNDS; round++) {
        let [id] = await live()
        id ??= (await cloud.client.browsers.create({ timeout_seconds: 120 })).session_id
        const [victim, action, afterMs] = [
          pick(random, ['service', 'agent', 'chromium'] as const),
          pick(random, ['create', 'drag', 'screenshot', 'delete'] as const),
          Math.floor(random() * 300),
        ]
        story.push(`${round}: ${victim} dies ${afterMs} ms into ${action}`)
        const call = Promise.race([
          actions[action](cloud, id).then(
            () => 'done',
            (error: unknown) => error,
          ),
          sleep(CALL_MS).then(() => new Error('hangs')),
        ])
        await sleep(afterMs)
        // The victim may have ended already: the action deleted its session, or it died with its session.
        const restart = await victims[victim](cloud, id).catch(() => async () => {})
        const outcome = await call
        if (outcome !== 'done') expect([outcome, expected(outcome)]).toEqual([outcome, true])
        await restart()
        expect((await fetch(`${cloud.url}/health`)).status).toBe(200)
      }
      // The session may end by itself before the delete.
      const unlessGone = (error: unknown) => {
        if (!(error instanceof NotFoundError)) throw error
      }
      for (const id of await live()) await cloud.client.browsers.deleteByID(id).catch(unlessGone)
    } catch (error) {
      throw new Error(story.join('\n'), { cause: error })
    }
  },
)
