// Two replicas: a login that one of them starts is answered, followed and ended at the other.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { twoReplicas, type FastReplica } from '../../../../test/support/two-replicas.ts'
import { until } from '../../../base/wait.ts'
import type { Connection, LoginBegun } from './contract.ts'
import { INPUT_MS } from './engine/person.ts'
import { LEARNED, pauseOf, startWorker, type Worker } from './worker.suite.ts'

const WAIT_MS = 20_000

const { shared, one, two } = twoReplicas({ COB_MAX_LOGINS: '2' })
let worker: Worker
beforeAll(() => void (worker = startWorker(shared.paths)))
afterAll(() => worker[Symbol.asyncDispose]())

const json = async <T>(response: Response) => (await response.json()) as T
let made = 0
const create = async (at: FastReplica) =>
  (await json<Connection>(await at.send('POST', '/auth/connections', { domain: 'site.test', profile_name: `profile-${++made}` }))).id
const login = (at: FastReplica, id: string) => at.send('POST', `/auth/connections/${id}/login`, {})

test('a login begun at one is answered, exchanged, followed and ended at the other', async () => {
  const id = await create(one)
  const begun = await json<LoginBegun>(await login(one, id))
  const following = two.fetch(`/auth/connections/${id}/events`).then((response) => response.text())
  const flow = await worker.claim(id)
  await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', new Date(Date.now() + INPUT_MS))
  const { jwt } = await json<{ jwt: string }>(await two.send('POST', `/auth/connections/${id}/exchange`, { code: begun.handoff_code }))
  expect((await one.fetch(`/auth/connections/${id}`, { headers: { authorization: `Bearer ${jwt}` } })).status).toBe(200)
  const both = await Promise.all([one, two].map((at) => at.send('POST', `/auth/connections/${id}/submit`, { selected_choice_id: 'c1' })))
  expect(both.map(({ status }) => status).toSorted()).toEqual([202, 409])
  expect((await until('the answer', WAIT_MS, () => worker.flows.takeAnswer(flow.id))).choice).toBe('c1')
  await worker.flows.finish(flow.id, { state: 'SUCCESS', postLoginUrl: undefined, learned: LEARNED })
  expect(await following).toContain('SUCCESS')
})

test('begin one login of a connection, and no more at all than the setting says', async () => {
  const ids = await Promise.all([one, two, one, two].map(create))
  const same = await Promise.all([one, two, one, two].map((at) => login(at, ids[0]!)))
  expect(same.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409])
  const others = await Promise.all(ids.slice(1).map((id, at) => login(at % 2 ? one : two, id)))
  expect(others.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
  const codes = await Promise.all(others.filter(({ status }) => status === 409).map((answer) => json<{ code: string }>(answer)))
  expect(codes.map(({ code }) => code)).toEqual(['too_many_pending_sessions', 'too_many_pending_sessions'])
})

test('check a connection once when it is due', async () => {
  const id = await create(one)
  await shared.query(`update auth_connections set next_check_at = now() where id = $1`, [id])
  const check = await worker.claim(id)
  expect(check.type).toBe('health_check')
  await worker.flows.finish(check.id, { state: 'AUTHENTICATED' })
  const rows = await shared.query<{ count: number }>(`select count(*)::int as count from auth_flows where connection_id = $1`, [id])
  expect(rows[0]!.count).toBe(1)
})
