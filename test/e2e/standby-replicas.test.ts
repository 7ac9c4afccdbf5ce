// Standby with two replicas of the service: the one that watches a session puts it to sleep, and the other one wakes it.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { sleep } from '../../src/base/wait.ts'
import { replicaProcesses } from '../support/replica-processes.ts'
import { asleep, isAsleep } from '../support/standby.ts'

/** Longer than an unused session takes to go to sleep. */
const LONG_MS = 6_000

const { shared, replicas } = replicaProcesses(2, {
  COB_WARM_BROWSERS: '0',
  COB_STANDBY_AFTER_SECONDS: '1',
  COB_STANDBY_CONNECTED_AFTER_SECONDS: '1',
})

test('a session sleeps when no replica uses it, and is woken by a call and by a message through the one that does not watch it', async () => {
  const [first, second] = replicas
  const place = { dataDir: shared.paths.root }
  const { session_id: id, cdp_ws_url: url } = await first.create({ timeout_seconds: 300 })
  const socket = new WebSocket(url.replace(/^(\w+:\/\/)[^/]+/, `$1${new URL(second.url).host}`))
  await once(socket, 'open')
  await asleep(place, id)
  expect((await second.fetch(`/browsers/${id}/computer/get_mouse_position`, { method: 'POST' })).status).toBe(200)
  expect(isAsleep(place, id)).toBe(false)
  await asleep(place, id)
  const answer = once(socket, 'message')
  socket.send(JSON.stringify({ id: 1, method: 'Browser.getVersion' }))
  expect(JSON.parse(String((await answer)[0] as Buffer))).toMatchObject({ id: 1, result: {} })
  socket.terminate()
  // A long call at the other replica keeps the session awake.
  await asleep(place, id)
  const slow = second.send('POST', `/browsers/${id}/playwright/execute`, { code: `await new Promise((done) => setTimeout(done, ${LONG_MS}))`, timeout_sec: 60 })
  await sleep(1_000)
  const end = performance.now() + LONG_MS - 2_000
  while (performance.now() < end) {
    expect(isAsleep(place, id)).toBe(false)
    await sleep(20)
  }
  expect(await (await slow).json()).toMatchObject({ success: true })
  // The watching replica notices that the other one woke the session, and puts it to sleep again.
  await asleep(place, id)
  expect((await first.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
})
