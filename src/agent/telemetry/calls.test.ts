// Which calls of the agent are told of, over the fake driver's agent: its routes are the real ones.
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { scratchDir } from '../../../test/support/scratch.ts'
import { assertEvent } from '../../../test/support/telemetry-schemas.ts'
import { newId } from '../../base/ids.ts'
import { dataPaths } from '../../base/paths.ts'
import { until } from '../../base/wait.ts'
import { call, openLines } from '../../http/client.ts'
import { fetchFrom } from '../../http/endpoint.ts'
import { USUAL_MAX_SCREEN, type Instance } from '../../instances/driver.ts'
import { fakeDriver } from '../../instances/fake/fake.ts'
import { computer } from '../computer/contract.ts'
import { session } from '../session/contract.ts'
import { telemetryFeed, type Envelope, type SettableCategory } from './contract.ts'

const TOLD_MS = 5_000
const stop = new AbortController()
const { signal } = stop
const paths = dataPaths(scratchDir('calls-'))
const driver = fakeDriver(paths)
const received: Envelope[] = []
let instance: Instance
beforeAll(async () => {
  instance = await driver.start({ id: newId(), viewport: { width: 800, height: 600, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN, apiPorts: [] }, signal)
  await capture('control', 'platform')
  const lines = await openLines(instance.agent, telemetryFeed.feedTelemetry, { query: {} }, { signal, maxLineBytes: 100_000, maxValues: 100_000 })
  void (async () => {
    for await (const batch of lines) for (const line of batch) if ('event' in line) received.push(assertEvent(line))
  })().catch(() => {})
})
afterAll(async () => {
  stop.abort()
  await instance[Symbol.asyncDispose]()
  await driver[Symbol.asyncDispose]()
  rmSync(paths.root, { recursive: true })
})

const capture = (...categories: SettableCategory[]) => call(instance.agent, session.fitSession, { body: { telemetry: { categories } } }, { signal })

/** Calls the agent as the service forwards it; resolves with the data of its event. */
async function eventOf(method: string, path: string, body?: object): Promise<Record<string, unknown> & { type: string }> {
  const id = newId()
  const headers = { 'x-request-id': id, ...(body && { 'content-type': 'application/json' }) }
  const response = await fetchFrom(instance.agent, { method, path, headers, ...(body && { body: JSON.stringify(body) }) }, signal)
  response.resume()
  const find = () => received.find(({ event }) => event.data?.request_id === id)
  await until(`the event of ${path}`, TOLD_MS, () => find() !== undefined)
  const { type, data } = find()!.event
  expect(data!.status).toBe(response.statusCode)
  return { type, ...data }
}

test('a call that drives the browser is an api_call, with the id by which the service names it', async () => {
  expect(await eventOf('POST', '/computer/move_mouse', { x: 1, y: 1 })).toMatchObject({ type: 'api_call', operation_id: 'MoveMouse', status: 200 })
  expect(await eventOf('POST', '/computer/screenshot', {})).toMatchObject({ type: 'api_call', operation_id: 'TakeScreenshot', status: 200 })
})

test('a call that manages what is around it is a platform_api_call', async () => {
  expect(await eventOf('GET', '/fs/list_files?path=/home/kernel')).toMatchObject({ type: 'platform_api_call', operation_id: 'ListFiles', status: 404 })
  expect(await eventOf('POST', '/session/fit', {})).toMatchObject({ type: 'platform_api_call', operation_id: 'FitSession' })
})

test('one that is refused is told with its status, and without what was sent', async () => {
  const event = await eventOf('POST', '/computer/type', { text: ['canary'], canary: 1 })
  expect(event).toMatchObject({ operation_id: 'TypeText', status: 400 })
  expect(JSON.stringify(event)).not.toContain('canary')
})

test("the service's own questions are not told of", async () => {
  const before = received.length
  await call(instance.agent, session.agentStatus, {}, { signal })
  await call(instance.agent, session.sessionActivity, {}, { signal })
  await call(instance.agent, session.devTools, {}, { signal })
  await eventOf('POST', '/computer/move_mouse', { x: 2, y: 2 })
  expect(received.length).toBe(before + 1)
})

test('calls of a category that is off are not told of, from the moment when it is switched off', async () => {
  await capture('platform')
  const before = received.length
  await call(instance.agent, computer.moveMouse, { body: { x: 3, y: 3 } }, { signal })
  await eventOf('POST', '/session/fit', {})
  expect(received.slice(before).map(({ event }) => event.data!.operation_id)).not.toContain('MoveMouse')
  await capture('control', 'platform')
})
