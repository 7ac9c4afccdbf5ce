// Sessions that sleep, with two services (replicas): the one that watches a session puts it to sleep, the other one wakes it.
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { sleep } from '../../src/base/wait.ts'
import { newKey } from '../../src/control/access/keys.ts'
import { processesNow } from '../support/leaks.ts'
import { endReplicas, replicaProcess, share, type ReplicaProcess, type Shared } from '../support/replicas.ts'
import { asleep, isAsleep } from '../support/standby.ts'

/** Longer than it takes until a session sleeps that no replica uses. */
const LONG_MS = 6_000

const before = processesNow()
const key = newKey()
let shared: Shared
let replicas: [ReplicaProcess, ReplicaProcess]
beforeAll(async () => {
  shared = await share({ COB_WARM_BROWSERS: '0', COB_STANDBY_AFTER_SECONDS: '1', COB_STANDBY_CONNECTED_AFTER_SECONDS: '1' })
  replicas = [await replicaProcess(shared, key), await replicaProcess(shared, key)]
  await Promise.all(replicas.map((replica) => replica.start()))
}, 120_000)
afterAll(async () => expect(await endReplicas(shared, replicas, key, before)).toEqual([]), 120_000)

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
  // A use at the other replica that lasts keeps it awake.
  await asleep(place, id)
  const slow = second.send('POST', `/browsers/${id}/playwright/execute`, { code: `await new Promise((done) => setTimeout(done, ${LONG_MS}))`, timeout_sec: 60 })
  await sleep(1_000)
  const end = performance.now() + LONG_MS - 2_000
  while (performance.now() < end) {
    expect(isAsleep(place, id)).toBe(false)
    await sleep(20)
  }
  expect(await (await slow).json()).toMatchObject({ success: true })
  // Its watcher knows that it has been woken by the other one, and puts it to sleep again.
  await asleep(place, id)
  expect((await first.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
})
