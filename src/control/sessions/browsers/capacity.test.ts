// How many sessions one machine takes (COB_MAX_BROWSERS). Warm browsers are not claimed, so they do not count as sessions.
import { describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { amount } from '../../../../test/support/long.ts'
import { sleep, until } from '../../../base/wait.ts'

const WARM_MS = 10_000
/** A start with the fake driver takes a few milliseconds. The second create comes at most this long after the first. */
const LATEST_MS = 15
const ROUNDS = amount(20, 60)
const create = (cloud: FastCloud) => cloud.send('POST', '/browsers', {})
const warm = (cloud: FastCloud) => until('a warm browser', WARM_MS, async () => (await cloud.query(`select 1 from browsers where state = 'warm'`)).length > 0)

describe('a machine with room for two sessions', () => {
  test('refuses the third with 429 and Retry-After; deleting one makes room', async () => {
    await using cloud = await startFastCloud({ COB_MAX_BROWSERS: '2', COB_WARM_BROWSERS: '0' })
    const first = await cloud.create()
    await cloud.create()
    const refused = await create(cloud)
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0, ((await refused.json()) as { code: string }).code]).toEqual([
      429,
      true,
      'too_many_requests',
    ])
    await cloud.fetch(`/browsers/${first.session_id}`, { method: 'DELETE' })
    expect((await create(cloud)).status).toBe(200)
  })

  test('accepts two, also while it keeps a warm browser', async () => {
    await using cloud = await startFastCloud({ COB_MAX_BROWSERS: '2', COB_WARM_BROWSERS: '1' })
    await warm(cloud)
    expect((await create(cloud)).status).toBe(200)
    await warm(cloud)
    expect((await create(cloud)).status).toBe(200)
    expect((await create(cloud)).status).toBe(429)
  })

  test('accepts two of many concurrent creates', async () => {
    await using cloud = await startFastCloud({ COB_MAX_BROWSERS: '2', COB_WARM_BROWSERS: '0' })
    const answers = await Promise.all(Array.from({ length: 8 }, () => create(cloud)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 429, 429, 429, 429, 429, 429])
  })

  test('accepts two, whenever the second create arrives during the first', async () => {
    await using cloud = await startFastCloud({ COB_MAX_BROWSERS: '2', COB_WARM_BROWSERS: '0' })
    for (let round = 0; round < ROUNDS; round++) {
      const first = create(cloud)
      await sleep((round * LATEST_MS) / ROUNDS)
      const answers = await Promise.all([first, create(cloud)])
      expect([round, answers.map(({ status }) => status)]).toEqual([round, [200, 200]])
      for (const answer of answers) await cloud.fetch(`/browsers/${((await answer.json()) as Session).session_id}`, { method: 'DELETE' })
    }
  })
})
