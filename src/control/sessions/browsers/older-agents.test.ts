// Sessions whose agents were started by an older version of Cob: they work, except for calls and settings that their agents lack.
import { beforeAll, expect, test } from 'vitest'
import type { Driver, Instance } from '../../../instances/driver.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'

const older = { version: '0.0.9', lacks: ['clickMouse', 'fitSession.viewport', 'startRecording'] }

const asOlder = (instance: Instance): Instance =>
  Object.assign(Object.create(instance) as Instance, { agent: { ...instance.agent, older }, exited: instance.exited })

const drive = (paths: Parameters<typeof fakeDriver>[0]): Driver => {
  const driver = fakeDriver(paths)
  return Object.assign(Object.create(driver) as Driver, { start: async (...given: Parameters<Driver['start']>) => asOlder(await driver.start(...given)) })
}

let session: Session
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' }, drive)
beforeAll(async () => {
  session = await cloud.create()
})

const refusal = async (response: Response) => ({ status: response.status, message: ((await response.json()) as { message: string }).message })

test('what its agent has is served', async () => {
  expect((await cloud.fetch(`/browsers/${session.session_id}/computer/screenshot`, { method: 'POST' })).status).toBe(200)
})

test.each([
  ['a call', 'clickMouse', (id: string) => cloud.send('POST', `/browsers/${id}/computer/click_mouse`, { x: 1, y: 1 })],
  ['a setting', 'fitSession.viewport', (id: string) => cloud.send('PATCH', `/browsers/${id}`, { viewport: { width: 800, height: 600 } })],
  ['a recording', 'startRecording', (id: string) => cloud.send('POST', `/browsers/${id}/replays`, {})],
])('%s that its agent does not have is refused by name, and nothing changes', async (_what, name, ask) => {
  const state = async () => ({ ...((await (await cloud.fetch(`/browsers/${session.session_id}`)).json()) as object), usage: undefined })
  const before = await state()
  const { status, message } = await refusal(await ask(session.session_id))
  expect({ status, message }).toEqual({ status: 409, message: expect.stringMatching(`version 0.0.9 .* does not have ${name}`) as string })
  expect(await state()).toEqual(before)
})
