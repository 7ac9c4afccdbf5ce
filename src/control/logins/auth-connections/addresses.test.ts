// The address after a login that has a value in it: shown without it, stored sealed, and whole for the engine.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import type { Connection } from './contract.ts'
import { LEARNED, startWorker, type Worker } from './worker.suite.ts'

const WHOLE = 'https://db.test/?server=a&username=CANARY-user'
const SHOWN = 'https://db.test/'

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let worker: Worker
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0' }))
  worker = scope.use(startWorker(cloud.paths))
}, 60_000)
afterAll(() => scope.disposeAsync())

async function begin(id: string) {
  expect((await cloud.send('POST', `/auth/connections/${id}/login`, {})).status).toBe(200)
  return worker.claim(id)
}
const stored = async () =>
  (await cloud.query<{ row: string }>('select to_jsonb(c)::text as row from auth_connections c union all select to_jsonb(f)::text from auth_flows f'))
    .map(({ row }) => row)
    .join('\n')
const succeed = (flow: string, postLoginUrl: string) => worker.flows.finish(flow, { state: 'SUCCESS', postLoginUrl, learned: LEARNED })

test('a value in the address after a login is in no answer and no column, and the next login and checks get the address whole', async () => {
  const { id } = (await (await cloud.send('POST', '/auth/connections', { domain: 'db.test', profile_name: 'db' })).json()) as Connection
  const flow = await begin(id)
  expect(await worker.flows.keepAddress(flow.id, WHOLE)).toBe(true)
  // Before its end the connection has nothing of it.
  expect((await worker.flows.connectionOf(flow))!.post_login_url).toBeNull()
  await succeed(flow.id, SHOWN)
  const answers = await Promise.all(['', '/events', '/timeline'].map(async (path) => (await cloud.fetch(`/auth/connections/${id}${path}`)).text()))
  expect(answers[0]).toContain(`"post_login_url":"${SHOWN}"`)
  for (const text of [...answers, await stored()]) expect(text).not.toContain('CANARY')
  expect((await worker.flows.connectionOf(flow))!.post_login_url).toBe(WHOLE)
  // The flow has forgotten it.
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
