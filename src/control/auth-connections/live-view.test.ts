// The live view of a login: its viewer acts while a person has to act, and watches while the login acts by itself.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readFileSync } from 'node:fs'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { LIVE_PATH, liveLinks } from '../live/links.ts'
import type { Connection } from './contract.ts'
import { INPUT_MS } from './flows.ts'
import { pauseOf, startWorker, type Worker } from './worker.suite.ts'

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let worker: Worker
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0' }))
  worker = scope.use(startWorker(cloud.paths))
}, 60_000)
afterAll(() => scope.disposeAsync())

test('gives control only while a person has to act elsewhere', async () => {
  const made = await cloud.send('POST', '/auth/connections', { domain: 'site.test', profile_name: 'viewed' })
  const { id } = (await made.json()) as Connection
  expect((await cloud.send('POST', `/auth/connections/${id}/login`, {})).status).toBe(200)
  const flow = await worker.claim(id)
  const session = await cloud.create()
  await worker.flows.bind(flow.id, { browserId: session.session_id })
  const links = liveLinks(Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex'))
  const access = async () => {
    const { flow_step: step, live_view_url: url } = (await (await cloud.fetch(`/auth/connections/${id}`)).json()) as Connection
    const told = url === null ? undefined : links.read(new URL(url).pathname.slice(LIVE_PATH.length + 1))
    expect(told?.id).toBe(url === null ? undefined : session.session_id)
    return `${step} ${told?.access}`
  }
  const until = new Date(Date.now() + INPUT_MS)
  expect(await access()).toBe('DISCOVERING watch')
  await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', until)
  expect(await access()).toBe('AWAITING_INPUT watch')
  await worker.flows.submitting(flow.id)
  expect(await access()).toBe('SUBMITTING watch')
  await worker.flows.ask(flow.id, { ...pauseOf('i2'), external: { action: 'captcha', message: 'Solve it.' } }, 'AWAITING_EXTERNAL_ACTION', until)
  expect(await access()).toBe('AWAITING_EXTERNAL_ACTION control')
  await worker.flows.finish(flow.id, { state: 'CANCELED', errorMessage: 'over' })
  expect(await access()).toBe('COMPLETED undefined')
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
})
