// Logins of one profile at several sites: each saves the whole profile, so they run one after the other. A function of the test acts as the engine.
import { expect, test } from 'vitest'
import { until } from '../../../base/wait.ts'
import type { FlowRow } from './flow-rows.ts'
import type { Flows } from './flows.ts'
import { LEARNED, serviceWithWorker } from './worker.suite.ts'

const WAIT_MS = 20_000

const { cloud, worker, create, login } = await serviceWithWorker()
const other = worker.as('another')

let made = 0
/** Connections of one new profile, each with a login, in this order. */
async function logins(count: number): Promise<string[]> {
  const ids: string[] = []
  const profile = `shared-${++made}`
  for (let at = 0; at < count; at++) {
    const { id } = await create({ domain: `site-${at}.test`, profile_name: profile })
    expect((await login(id)).status).toBe(200)
    ids.push(id)
  }
  return ids
}
const claimedBy = async (flows: Flows): Promise<FlowRow[]> => {
  const found: FlowRow[] = []
  for (let flow = await flows.claimNext(); flow; flow = await flows.claimNext()) found.push(flow)
  return found
}
const ofAll = async () => [...(await claimedBy(worker.flows)), ...(await claimedBy(other))].map((flow) => flow.connection_id)
const endOf = async (id: string, how: 'SUCCESS' | 'EXPIRED'): Promise<void> => {
  const { id: flow } = (await cloud.query<{ id: string }>(`select id from auth_flows where connection_id = $1 and state = 'IN_PROGRESS'`, [id]))[0]!
  const end = how === 'SUCCESS' ? ({ state: how, postLoginUrl: undefined, learned: LEARNED } as const) : ({ state: how, errorMessage: 'over' } as const)
  expect((await worker.flows.finish(flow, end)) || (await other.finish(flow, end))).toBe(true)
}

test('begin one after the other, in their order, whoever works on them and however they end', async () => {
  const [first, second, third] = await logins(3)
  expect(await ofAll()).toEqual([first])
  await endOf(first!, 'SUCCESS')
  expect(await ofAll()).toEqual([second])
  await endOf(second!, 'EXPIRED')
  expect(await ofAll()).toEqual([third])
  await endOf(third!, 'SUCCESS')
})

test('are begun once by many who claim at the same time', async () => {
  const ids = await logins(4)
  const claimers = Array.from({ length: 8 }, (_, at) => worker.as(`claimer-${at}`))
  const claimed = (await Promise.all(claimers.map((flows) => flows.claimNext()))).filter((flow) => flow !== undefined)
  expect(claimed.map((flow) => flow.connection_id)).toEqual([ids[0]])
  await Promise.all(ids.map((id) => cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })))
})

test('do not wait for other profiles, nor for a health check, which saves nothing', async () => {
  const [first, second] = await logins(2)
  const [elsewhere] = await logins(1)
  expect(new Set(await ofAll())).toEqual(new Set([first, elsewhere]))
  await endOf(first!, 'SUCCESS')
  await cloud.query('update auth_connections set next_check_at = now() where id = $1', [first])
  // The check starts, and also the login that has waited for the first one.
  const claimed: FlowRow[] = []
  await until('a health check and a login', WAIT_MS, async () => claimed.push(...(await claimedBy(worker.flows))) === 2)
  const check = claimed.find((flow) => flow.connection_id === first)!
  expect(claimed.map((flow) => [flow.connection_id, flow.type]).toSorted()).toEqual(
    [
      [first, 'health_check'],
      [second, 'login'],
    ].toSorted(),
  )
  await endOf(second!, 'SUCCESS')
  await worker.flows.finish(check.id, { state: 'AUTHENTICATED' })
  await endOf(elsewhere!, 'SUCCESS')
})

test('whose time ends while they are saved go on, at another replica too, and the next ones wait for them', async () => {
  const [first, second] = await logins(2)
  const dead = worker.as('dead')
  const { id } = (await dead.claimNext())!
  await dead.remember(id, { success: { isSaved: false } })
  const late = (by: string) => cloud.query(`update auth_flows set expires_at = now() - $2::interval where id = $1`, [id, by])
  await late('14 minutes')
  expect(await worker.flows.expireDue()).toBe(0)
  expect((await login(first!)).status).toBe(409)
  expect(await ofAll()).toEqual([first])
  await endOf(first!, 'SUCCESS')
  expect(await ofAll()).toEqual([second])
  await endOf(second!, 'SUCCESS')
})

test.each([
  { what: 'were not let in in time', memory: {}, by: '1 second' },
  { what: 'are not saved within the time for it', memory: { success: { isSaved: false } }, by: '16 minutes' },
])('that $what expire', async ({ memory, by }) => {
  const [first] = await logins(1)
  const { id } = (await worker.flows.claimNext())!
  await worker.flows.remember(id, memory)
  await cloud.query(`update auth_flows set expires_at = now() - $2::interval where id = $1`, [id, by])
  const state = async () => (await worker.flows.get(id))!.state
  await until('it expires', WAIT_MS, async () => (await state()) === 'EXPIRED')
  expect((await login(first!)).status).toBe(200)
  expect(await ofAll()).toEqual([first])
  await endOf(first!, 'SUCCESS')
})

test('that had begun go on at another replica before those that wait, and those whose time is over are waited for no longer', async () => {
  const [first, second] = await logins(2)
  const dead = worker.as('dead')
  const begun = (await dead.claimNext())!
  expect(begun.connection_id).toBe(first)
  expect(await ofAll()).toEqual([first])
  await cloud.query(`update auth_flows set expires_at = now() - interval '1 second' where id = $1`, [begun.id])
  expect(await ofAll()).toEqual([second])
  await endOf(second!, 'SUCCESS')
})
