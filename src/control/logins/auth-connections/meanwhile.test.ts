// What a caller changes or answers while a login runs is not undone by the login; a function of the test plays the engine.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import type { Connection } from './contract.ts'
import { INPUT_MS } from './flows.ts'
import { LEARNED, pauseOf, startWorker, type Worker } from './worker.suite.ts'

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let worker: Worker
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0' }))
  worker = scope.use(startWorker(cloud.paths))
}, 60_000)
afterAll(() => scope.disposeAsync())

let made = 0
const json = async <T>(response: Response) => (await response.json()) as T
async function begin(more: object = {}) {
  const { id } = await json<Connection>(await cloud.send('POST', '/auth/connections', { domain: 'site.test', profile_name: `profile-${++made}`, ...more }))
  expect((await cloud.send('POST', `/auth/connections/${id}/login`, {})).status).toBe(200)
  return { id, flow: (await worker.claim(id)).id }
}
const read = async (id: string) => json<Connection>(await cloud.fetch(`/auth/connections/${id}`))
const credential = async (name: string) =>
  (await json<{ id: string }>(await cloud.send('POST', '/credentials', { name, domain: 'site.test', values: { username: 'kim', password: 'x' } }))).id

test('a credential that the connection gets while its login runs stays, and one that was made of what was typed is linked where there is none', async () => {
  const kept = await credential('kept')
  await credential('chosen')
  const succeed = async (flow: string) =>
    expect(await worker.flows.finish(flow, { state: 'SUCCESS', postLoginUrl: undefined, learned: LEARNED, credentialId: kept })).toBe(true)
  const first = await begin()
  await succeed(first.flow)
  expect(await read(first.id)).toMatchObject({ status: 'AUTHENTICATED', credential: { name: 'kept' } })
  const second = await begin()
  expect((await cloud.send('PATCH', `/auth/connections/${second.id}`, { credential: { name: 'chosen' } })).status).toBe(200)
  await succeed(second.flow)
  expect(await read(second.id)).toMatchObject({ status: 'AUTHENTICATED', credential: { name: 'chosen' } })
})

test('an answer that was accepted stays until it is taken, whatever the login wanted to do next', async () => {
  const { id, flow } = await begin()
  const until = new Date(Date.now() + INPUT_MS)
  const { flows } = worker
  expect(await flows.ask(flow, pauseOf('i1'), 'AWAITING_INPUT', until)).toBe(true)
  const answered = await cloud.send('POST', `/auth/connections/${id}/submit`, { fields: { email: 'kim@site.test', password: 'hush' } })
  expect([answered.status, await json(answered)]).toEqual([202, { accepted: true }])
  expect([await flows.submitting(flow), await flows.discovering(flow), await flows.ask(flow, pauseOf('i2'), 'AWAITING_INPUT', until)]).toEqual([
    false,
    false,
    false,
  ])
  expect(await flows.takeAnswer(flow)).toMatchObject({ interactionId: 'i1', values: { f1: 'kim@site.test', f2: 'hush' } })
  expect([await flows.submitting(flow), await flows.ask(flow, pauseOf('i2'), 'AWAITING_INPUT', until)]).toEqual([true, true])
})
