// Limits of projects: valid values, and that exactly as many sessions and runs fit, however many callers and replicas there are.
import { afterEach, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud, startFastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { type ReplicaCalls } from '../../../../test/support/replicas.ts'
import { twoReplicas, type FastReplica } from '../../../../test/support/two-replicas.ts'
import { until } from '../../../base/wait.ts'
import { calling, deploy } from '../../apps/invocations/deployed.suite.ts'
import { makeCaps } from './limits.ts'
import { DEFAULT_PROJECT } from './resolve.ts'

/** A limit that another replica has set applies after two seconds. */
const HOLDS_MS = 10_000
const MAX_BROWSERS = 30
const MANY = 200
const LIMIT = 20

type Calls = Pick<ReplicaCalls, 'fetch' | 'send'>
const json = async (response: Response) => (await response.json()) as Record<string, unknown>
const limit = (calls: Calls, limits: object, project = DEFAULT_PROJECT) => calls.send('PATCH', `/org/projects/${project}/limits`, limits)
const remove = (calls: Calls, id: string) => calls.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })
const running = async (calls: Calls) => ((await (await calls.fetch('/browsers?limit=100')).json()) as Session[]).map(({ session_id }) => session_id)

test('that a project has no limit is asked for once in two seconds, however many callers there are, and nothing is counted', async () => {
  await using cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  const { db } = cloud
  let statements = 0
  const counting = db.withPlugin({
    transformQuery({ node }) {
      statements++
      return node
    },
    transformResult: async ({ result }) => result,
  })
  let counts = 0
  const count = async () => ++counts
  const caps = makeCaps(counting, { sessions: count, invocations: count })
  for (let round = 0; round < 3; round++)
    expect(await Promise.all(Array.from({ length: 50 }, () => caps.sessions(DEFAULT_PROJECT)))).toEqual(Array.from({ length: 50 }, () => undefined))
  expect([await caps.invocations(DEFAULT_PROJECT), counts]).toEqual([undefined, 0])
  expect(statements).toBe(1)
})

describe('one service', () => {
  const cloud = fastCloud({ COB_WARM_BROWSERS: '1', COB_MAX_BROWSERS: String(MAX_BROWSERS) })
  afterEach(async () => {
    await cloud.query('update projects set max_concurrent_sessions = null, max_concurrent_invocations = null')
    await limit(cloud, { max_concurrent_sessions: 0 })
    await cloud.send('PATCH', '/org/limits', { default_project_max_concurrent_sessions: 0 })
    await Promise.all((await running(cloud)).map((id) => remove(cloud, id)))
  })

  const create = (project?: string) =>
    cloud.fetch('/browsers', { method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ...(project && { 'x-kernel-project': project }) } })

  test('a limit is kept when it is left out, and removed by 0; null is as left out', async () => {
    const path = `/org/projects/${DEFAULT_PROJECT}/limits`
    const none = { max_concurrent_sessions: null, max_concurrent_invocations: null, max_pooled_sessions: null }
    expect(await json(await cloud.fetch(path))).toEqual(none)
    const both = await json(await limit(cloud, { max_concurrent_sessions: 3, max_concurrent_invocations: 4 }))
    conforms('ProjectLimits', both)
    expect(both).toEqual({ ...none, max_concurrent_sessions: 3, max_concurrent_invocations: 4 })
    expect(await json(await limit(cloud, {}))).toEqual(both)
    expect(await json(await limit(cloud, { max_concurrent_sessions: null, max_pooled_sessions: null }))).toEqual(both)
    expect(await json(await limit(cloud, { max_concurrent_sessions: 0 }))).toEqual({ ...both, max_concurrent_sessions: null })
    expect(await json(await cloud.fetch('/org/projects/DEFAULT/limits'))).toEqual({ ...both, max_concurrent_sessions: null })
    for (const wrong of [
      { max_pooled_sessions: 1 },
      { max_pooled_sessions: 0 },
      { max_concurrent_sessions: -1 },
      { max_concurrent_sessions: 1.5 },
      { other: 1 },
    ])
      expect([wrong, (await limit(cloud, wrong)).status]).toEqual([wrong, 400])
    expect((await limit(cloud, {}, 'nonesuch')).status).toBe(404)
  })

  test("the organization's limits: the service's own is shown, the default of projects can be set up to it", async () => {
    const set = (most: unknown) => cloud.send('PATCH', '/org/limits', { default_project_max_concurrent_sessions: most })
    const shown = await json(await cloud.fetch('/org/limits'))
    conforms('OrgLimits', shown)
    expect(shown).toMatchObject({
      max_concurrent_sessions: MAX_BROWSERS,
      default_project_max_concurrent_sessions: null,
      concurrent_sessions_used: 0,
      concurrent_sessions_available: MAX_BROWSERS,
    })
    for (const most of [MAX_BROWSERS, null]) expect((await json(await set(most))).default_project_max_concurrent_sessions).toBe(MAX_BROWSERS)
    for (const wrong of [MAX_BROWSERS + 1, -1, 'x']) expect((await set(wrong)).status).toBe(400)
    expect((await cloud.send('PATCH', '/org/limits', { max_concurrent_sessions: 5 })).status).toBe(400)
    expect((await json(await set(0))).default_project_max_concurrent_sessions).toBe(null)
  })

  test('the default holds for projects without a limit of their own, and each project counts for itself', async () => {
    await cloud.query(`insert into projects (id, name) values ('anotherproject0000000000', 'Another') on conflict do nothing`)
    await cloud.send('PATCH', '/org/limits', { default_project_max_concurrent_sessions: 1 })
    expect([(await create()).status, (await create('Another')).status]).toEqual([200, 200])
    expect([(await create()).status, (await create('Another')).status]).toEqual([429, 429])
    await limit(cloud, { max_concurrent_sessions: 2 })
    expect([(await create()).status, (await create()).status, (await create('Another')).status]).toEqual([200, 429, 429])
    for (const { id } of await cloud.query<{ id: string }>(`select id from browsers where project_id = 'anotherproject0000000000' and deleted_at is null`))
      await cloud.fetch(`/browsers/${id}`, { method: 'DELETE', headers: { 'x-kernel-project': 'Another' } })
  })

  test('the refusal names the limit of the project, and when to ask again', async () => {
    await limit(cloud, { max_concurrent_sessions: 1 })
    expect((await create()).status).toBe(200)
    const refused = await create()
    const body = await json(refused)
    conforms('ErrorModel', body)
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0, body]).toEqual([
      429,
      true,
      {
        code: 'too_many_requests',
        message: 'this project may run 1 browsers (max_concurrent_sessions), and there is no room for 1 more; a pool counts with its whole size',
      },
    ])
  })

  test(`${MANY} creates at once with room for ${LIMIT}: so many are made, and after one has been deleted one more`, { timeout: 60_000 }, async () => {
    await limit(cloud, { max_concurrent_sessions: LIMIT })
    const answers = await Promise.all(Array.from({ length: MANY }, () => create()))
    const statuses = answers.map(({ status }) => status)
    expect([statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 429).length]).toEqual([LIMIT, MANY - LIMIT])
    // The project's limit refuses all of them: callers that wait for its seats take none of the service.
    for (const refused of answers.filter(({ status }) => status === 429)) expect((await json(refused)).message).toContain('this project')
    const [first] = await running(cloud)
    // The create waits for the seat of a session that is ending.
    expect((await cloud.fetch(`/browsers/${first}`, { method: 'DELETE' })).status).toBe(204)
    const again = await Promise.all([create(), create(), create()])
    expect(again.map(({ status }) => status).toSorted()).toEqual([200, 429, 429])
    expect(await running(cloud)).toHaveLength(LIMIT)
  })

  test('many callers of a full project do not keep out those of another one', { timeout: 60_000 }, async () => {
    await cloud.query(`insert into projects (id, name) values ('anotherproject0000000000', 'Another') on conflict do nothing`)
    await limit(cloud, { max_concurrent_sessions: 1 }, 'Another')
    const crowd = Array.from({ length: MANY }, () => create('Another'))
    const others = await Promise.all(Array.from({ length: MAX_BROWSERS - 1 }, () => create()))
    expect(others.map(({ status }) => status)).toEqual(others.map(() => 200))
    expect((await Promise.all(crowd)).filter(({ status }) => status === 200)).toHaveLength(1)
    for (const { id } of await cloud.query<{ id: string }>(`select id from browsers where project_id = 'anotherproject0000000000' and deleted_at is null`))
      await cloud.fetch(`/browsers/${id}`, { method: 'DELETE', headers: { 'x-kernel-project': 'Another' } })
  })

  test('a lowered limit ends nothing, and holds for what comes next; a removed one lets in at once', async () => {
    for (let count = 0; count < 3; count++) expect((await create()).status).toBe(200)
    await limit(cloud, { max_concurrent_sessions: 2 })
    expect([(await create()).status, (await running(cloud)).length]).toEqual([429, 3])
    await remove(cloud, (await running(cloud))[0]!)
    expect((await create()).status).toBe(429)
    await remove(cloud, (await running(cloud))[0]!)
    expect([(await create()).status, (await create()).status]).toEqual([200, 429])
    await limit(cloud, { max_concurrent_sessions: 0 })
    expect((await create()).status).toBe(200)
  })

  test('of browsers with a screen of their own, the same', async () => {
    await limit(cloud, { max_concurrent_sessions: 2 })
    const large = () => cloud.send('POST', '/browsers', { viewport: { width: 6000, height: 4000, refresh_rate: 10 } })
    const answers = await Promise.all(Array.from({ length: 8 }, (_, at) => (at % 2 === 0 ? large() : create())))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 429, 429, 429, 429, 429, 429])
  })
})

describe('two replicas', { timeout: 60_000 }, () => {
  const { shared, one, two } = twoReplicas({
    COB_WARM_BROWSERS: '1',
    COB_WARM_BROWSERS_MAX: '1',
    COB_MAX_BROWSERS: String(MAX_BROWSERS),
    COB_MAX_INVOCATIONS: '6',
  })

  const create = (replica: FastReplica) => replica.send('POST', '/browsers', {})

  test(`of ${MANY} creates at once, ${LIMIT} find room; after one has been deleted one more`, async () => {
    // The other replica still has "no limit" in its cache.
    expect((await create(two)).status).toBe(200)
    await limit(one, { max_concurrent_sessions: 1 })
    await until('the limit to hold at the other replica', HOLDS_MS, async () => {
      const answer = await create(two)
      if (answer.status === 200) await remove(two, ((await answer.json()) as Session).session_id)
      return answer.status === 429
    })
    await Promise.all((await running(one)).map((id) => remove(one, id)))
    // A raised limit applies at once.
    await limit(one, { max_concurrent_sessions: LIMIT })
    const answers = await Promise.all(Array.from({ length: MANY }, (_, at) => create(at % 2 === 0 ? one : two)))
    const statuses = answers.map(({ status }) => status)
    expect([statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 429).length]).toEqual([LIMIT, MANY - LIMIT])
    await remove(two, (await running(one))[0]!)
    const again = await Promise.all([create(one), create(two), create(one), create(two)])
    expect(again.map(({ status }) => status).toSorted()).toEqual([200, 429, 429, 429])
    expect(await running(two)).toHaveLength(LIMIT)
    await limit(two, { max_concurrent_sessions: 0 })
    await Promise.all((await running(one)).map((id) => remove(one, id)))
  })
  test('of many runs that begin at once, as many as the limit allows find room; after one has ended one more', async () => {
    const as = (replica: FastReplica) => calling({ ...replica, query: shared.query })
    await deploy({ ...one, query: shared.query })
    await limit(one, { max_concurrent_invocations: 2 })
    // "No limit" is cached for two seconds. End the runs that started meanwhile.
    const end = async (id: string) => void (await as(one).patch(id, { status: 'failed' }))
    await until('the limit to hold at both', HOLDS_MS, async () => {
      const answers = await Promise.all([one, two].flatMap((replica) => [0, 1, 2].map(() => as(replica).post('hang', { async: true }))))
      const begun = answers.filter(({ status }) => status === 202)
      for (const answer of begun) await end((await json(answer)).id as string)
      return begun.length === 2
    })
    const answers = await Promise.all(Array.from({ length: 24 }, (_, at) => as(at % 2 === 0 ? one : two).post('hang', { async: true })))
    const ids = await Promise.all(answers.filter(({ status }) => status === 202).map(async (answer) => (await json(answer)).id as string))
    const refused = answers.filter(({ status }) => status === 429)
    expect([ids.length, refused.length]).toEqual([2, 22])
    // No replica's own limit refuses any of them: callers who wait for a seat of their project take none of the replica.
    for (const answer of refused)
      expect([Number(answer.headers.get('retry-after')) > 0, (await json(answer)).message]).toEqual([
        true,
        '2 runs are under way already, the limit of this project (max_concurrent_invocations)',
      ])
    await end(ids[0]!)
    const again = await Promise.all([one, two, one].map((replica) => as(replica).post('hang', { async: true })))
    expect(again.map(({ status }) => status).toSorted()).toEqual([202, 429, 429])
    await limit(one, { max_concurrent_invocations: 0 })
    for (const answer of again) if (answer.status === 202) await end((await json(answer)).id as string)
    await end(ids[1]!)
  })
})
