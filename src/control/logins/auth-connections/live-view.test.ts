// The live view of a login: its viewer acts while a person has to act, and only watches while the login acts.
import { expect, test } from 'vitest'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { LIVE_PATH, liveLinks } from '../../sessions/live/links.ts'
import { INPUT_MS } from './engine/person.ts'
import { pauseOf, serviceWithWorker } from './worker.suite.ts'

const { cloud, worker, create, read, begin } = await serviceWithWorker()

test('gives control only while a person has to act elsewhere', async () => {
  const { id } = await create()
  const flow = await begin(id)
  const session = await cloud.create()
  await worker.flows.bind(flow.id, { browserId: session.session_id })
  const links = liveLinks(Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex'))
  const access = async () => {
    const { flow_step: step, live_view_url: url } = await read(id)
    const claims = url === null ? undefined : links.read(new URL(url).pathname.slice(LIVE_PATH.length + 1))
    expect(claims?.id).toBe(url === null ? undefined : session.session_id)
    return `${step} ${claims?.access}`
  }
  const until = new Date(Date.now() + INPUT_MS)
  expect(await access()).toBe('DISCOVERING watch')
  await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', until)
  expect(await access()).toBe('AWAITING_INPUT watch')
  await worker.flows.submitting(flow.id)
  expect(await access()).toBe('SUBMITTING watch')
  await worker.flows.ask(flow.id, { ...pauseOf('i2'), external: { action: 'captcha', message: 'Solve it.' } }, 'AWAITING_EXTERNAL_ACTION', until)
  expect(await access()).toBe('AWAITING_EXTERNAL_ACTION act')
  await worker.flows.finish(flow.id, { state: 'CANCELED', errorMessage: 'over' })
  expect(await access()).toBe('COMPLETED undefined')
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
})

/** A viewer, and whether it may act. */
async function joined(url: string): Promise<{ socket: WebSocket; control: boolean }> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`)
  const [data] = (await once(socket, 'message')) as [Buffer]
  return { socket, control: (JSON.parse(data.toString()) as { control: boolean }).control }
}

test('a link that was given while a person had to act allows that only as long as this lasts, each time', async () => {
  const { id } = await create()
  const flow = await begin(id)
  const session = await cloud.create()
  await cloud.query('update browsers set auth_flow_id = $2 where id = $1', [session.session_id, flow.id])
  await worker.flows.bind(flow.id, { browserId: session.session_id })
  const until = new Date(Date.now() + INPUT_MS)
  const waitForPerson = (name: string) =>
    worker.flows.ask(flow.id, { ...pauseOf(name), external: { action: 'captcha', message: 'Solve it.' } }, 'AWAITING_EXTERNAL_ACTION', until)
  const link = async () => (await read(id)).live_view_url!
  const watch = await link()
  await waitForPerson('i1')
  const act = await link()
  expect(act).not.toBe(watch)
  const first = await joined(act)
  const [own, looks] = [await joined(session.browser_live_view_url as string), await joined(watch)]
  expect([first.control, own.control, looks.control]).toEqual([true, true, false])
  const closed = once(first.socket, 'close')
  await worker.flows.submitting(flow.id)
  const [code, reason] = (await closed) as [number, Buffer]
  expect([code, JSON.parse(reason.toString())]).toEqual([1012, { reason: 'step_over' }])
  const second = await joined(act)
  expect(second.control).toBe(false)
  // The page stays the same: its buttons work again when the person has to act again.
  expect((await fetch(act)).status).toBe(200)
  await waitForPerson('i2')
  expect(await link()).toBe(act)
  const third = await joined(act)
  expect(third.control).toBe(true)
  const over = once(third.socket, 'close')
  await worker.flows.finish(flow.id, { state: 'CANCELED', errorMessage: 'over' })
  await over
  expect([own.socket, looks.socket, second.socket].map(({ readyState }) => readyState)).toEqual([WebSocket.OPEN, WebSocket.OPEN, WebSocket.OPEN])
  const last = await joined(act)
  expect(last.control).toBe(false)
  for (const { socket } of [own, looks, second, last]) socket.terminate()
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
})
