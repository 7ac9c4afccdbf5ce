// What a caller changes or answers while a login runs is not undone by the login; a function of the test plays the engine.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import type { Connection } from './contract.ts'
import { LEARNED, startWorker, type Worker } from './worker.suite.ts'

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
