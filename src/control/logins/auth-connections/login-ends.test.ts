// The effects of a login on its connection, and concurrent reads and changes of callers. A function of the test acts as the engine.
import pg from 'pg'
import { expect, test } from 'vitest'
import { until } from '../../../base/wait.ts'
import type { Connection } from './contract.ts'
import { INPUT_MS } from './engine/person.ts'
import { json, LEARNED, pauseOf, serviceWithWorker } from './worker.suite.ts'

const WAIT_MS = 20_000
const { cloud, worker, create, read, begin, submit, succeed } = await serviceWithWorker()

const credential = async (name: string) =>
  (await json<{ id: string }>(await cloud.send('POST', '/credentials', { name, domain: 'site.test', values: { username: 'kim', password: 'x' } }))).id

test('a credential that the connection gets while its login runs stays, and one that was made of what was typed is linked where there is none', async () => {
  const kept = await credential('kept')
  await credential('chosen')
  const end = async (flow: string) =>
    expect(await worker.flows.finish(flow, { state: 'SUCCESS', postLoginUrl: undefined, learned: LEARNED, credentialId: kept })).toBe(true)
  const first = await create()
  await end((await begin(first.id)).id)
  expect(await read(first.id)).toMatchObject({ status: 'AUTHENTICATED', credential: { name: 'kept' } })
  const second = await create()
  const { id: flow } = await begin(second.id)
  expect((await cloud.send('PATCH', `/auth/connections/${second.id}`, { credential: { name: 'chosen' } })).status).toBe(200)
  await end(flow)
  expect(await read(second.id)).toMatchObject({ status: 'AUTHENTICATED', credential: { name: 'chosen' } })
})

test('an answer that was accepted stays until it is taken, whatever the login wanted to do next', async () => {
  const { id } = await create()
  const { id: flow } = await begin(id)
  const inputUntil = new Date(Date.now() + INPUT_MS)
  const { flows } = worker
  expect(await flows.ask(flow, pauseOf('i1'), 'AWAITING_INPUT', inputUntil)).toBe(true)
  const answered = await submit(id, { fields: { email: 'kim@site.test', password: 'hush' } })
  expect([answered.status, await json(answered)]).toEqual([202, { accepted: true }])
  expect([await flows.submitting(flow), await flows.discovering(flow), await flows.ask(flow, pauseOf('i2'), 'AWAITING_INPUT', inputUntil)]).toEqual([
    false,
    false,
    false,
  ])
  expect(await flows.takeAnswer(flow)).toMatchObject({ interactionId: 'i1', values: { f1: 'kim@site.test', f2: 'hush' } })
  expect([await flows.submitting(flow), await flows.ask(flow, pauseOf('i2'), 'AWAITING_INPUT', inputUntil)]).toEqual([true, true])
})

const WHOLE = 'https://db.test/?server=a&username=CANARY-user'
const SHOWN = 'https://db.test/'
const stored = async () =>
  (await cloud.query<{ row: string }>('select to_jsonb(c)::text as row from auth_connections c union all select to_jsonb(f)::text from auth_flows f'))
    .map(({ row }) => row)
    .join('\n')

test('a value in the address after a login is in no answer and no column, and the next login and checks get the address whole', async () => {
  const { id } = await create({ domain: 'db.test' })
  const flow = await begin(id)
  expect(await worker.flows.keepAddress(flow.id, WHOLE)).toBe(true)
  // Before the flow ends, the connection has no address.
  expect((await worker.flows.connectionOf(flow))!.post_login_url).toBeNull()
  await succeed(flow.id, SHOWN)
  const answers = await Promise.all(['', '/events', '/timeline'].map(async (path) => (await cloud.fetch(`/auth/connections/${id}${path}`)).text()))
  expect(answers[0]).toContain(`"post_login_url":"${SHOWN}"`)
  for (const text of [...answers, await stored()]) expect(text).not.toContain('CANARY')
  expect((await worker.flows.connectionOf(flow))!.post_login_url).toBe(WHOLE)
  // The flow's copy is removed.
  expect(await cloud.query('select id from auth_flows where landing is not null')).toEqual([])

  const failed = await begin(id)
  await worker.flows.keepAddress(failed.id, `${WHOLE}-other`)
  await worker.flows.finish(failed.id, { state: 'FAILED', errorCode: 'browser_error', errorMessage: 'not saved' })
  expect((await worker.flows.connectionOf(failed))!.post_login_url).toBe(WHOLE)
  expect(await cloud.query('select id from auth_flows where landing is not null')).toEqual([])

  const plain = await begin(id)
  await succeed(plain.id, 'https://db.test/home')
  expect((await worker.flows.connectionOf(plain))!.post_login_url).toBe('https://db.test/home')
})

test.each(['/auth/connections/', '/auth/connections?query='])('GET %s never shows a success beside a connection that is not logged in', async (path) => {
  const { id } = await create()
  const flow = await begin(id)
  const readAt = async () => {
    const answer = (await (await cloud.fetch(path + id)).json()) as Connection | Connection[]
    const { status, flow_status: flowStatus } = Array.isArray(answer) ? answer[0]! : answer
    return `${status} ${flowStatus}`
  }
  const ending = new pg.Client({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await ending.connect()
  try {
    await ending.query('begin')
    await ending.query('lock table auth_flows in access exclusive mode')
    // A reader of the connection waits for the end of its login.
    const meanwhile = readAt()
    await until('a reader to wait', WAIT_MS, async () => {
      const waiting = await cloud.query(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%lateral%auth_flows%'`)
      return waiting.length > 0
    })
    await ending.query(`update auth_flows set state = 'SUCCESS', step = 'COMPLETED', finished_at = now() where id = $1`, [flow.id])
    await ending.query(`update auth_connections set status = 'AUTHENTICATED' where id = $1`, [id])
    await ending.query('commit')
    expect(await meanwhile).toBe('NEEDS_AUTH IN_PROGRESS')
    expect(await readAt()).toBe('AUTHENTICATED SUCCESS')
  } finally {
    await ending.end()
  }
})
