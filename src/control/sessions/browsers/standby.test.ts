// Which calls count as a use of a session, and races between a use and falling asleep. Fake browsers only set a mark when they sleep.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { fastCloud, startFastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { readConfig } from '../../../base/config.ts'
import { silentLog } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { sleepers } from '../../../instances/fake/standby.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Standby } from '../../../instances/driver.ts'
import { sleepWhenUnused, type Sleep } from './standby.ts'

const AFTER_MS = 1_000
const ASLEEP_MS = 10_000
/** Longer than it takes until an unused session sleeps. */
const LONG_MS = AFTER_MS + 1_500

describe('a service with sessions that sleep', () => {
  const cloud = fastCloud({ COB_STANDBY_AFTER_SECONDS: '1', COB_STANDBY_CONNECTED_AFTER_SECONDS: '1' })

  const isAsleep = ({ session_id: id }: Session) => sleepers.has(id)
  const asleep = (session: Session) => until('the session to sleep', ASLEEP_MS, () => isAsleep(session), { everyMs: 10 })
  const create = () => cloud.create({ timeout_seconds: 3600 })
  const call = ({ session_id: id }: Session) => cloud.fetch(`/browsers/${id}/computer/get_mouse_position`, { method: 'POST' })

  test.concurrent.each<[string, (session: Session) => Promise<unknown>]>([
    ['a call', call],
    ['a change', ({ session_id: id }) => cloud.send('PATCH', `/browsers/${id}`, { viewport: { width: 800, height: 600 } })],
    ['the list of its pages', ({ session_id: id }) => cloud.fetch(`/browsers/${id}/cdp/json/version`)],
    [
      'a new CDP connection',
      async ({ cdp_ws_url: url }) => {
        const socket = new WebSocket(url)
        await once(socket, 'open')
        socket.terminate()
      },
    ],
    [
      'a viewer',
      async ({ browser_live_view_url: url }) => {
        const socket = new WebSocket(`${String(url).replace(/^http/, 'ws')}/socket`)
        await once(socket, 'open')
        socket.terminate()
      },
    ],
  ])('an unused session sleeps, and is awake when it is reached by %s', async (_what, use) => {
    const session = await create()
    await asleep(session)
    await use(session)
    expect(isAsleep(session)).toBe(false)
    await asleep(session)
  })

  test.concurrent('questions that the service answers by itself do not wake a session', async () => {
    const session = await create()
    await asleep(session)
    expect((await cloud.fetch(`/browsers/${session.session_id}`)).status).toBe(200)
    expect((await cloud.fetch('/browsers')).status).toBe(200)
    expect(isAsleep(session)).toBe(true)
  })

  test.concurrent('a connection that says nothing lets its session sleep; the next message of either side finds it awake', async () => {
    const session = await create()
    const socket = new WebSocket(session.cdp_ws_url)
    await once(socket, 'open')
    await asleep(session)
    const answer = once(socket, 'message')
    socket.send(JSON.stringify({ id: 1, method: 'Browser.getVersion' }))
    await answer
    expect(isAsleep(session)).toBe(false)
    expect(socket.readyState).toBe(WebSocket.OPEN)
    await asleep(session)
    socket.terminate()
  })

  test.concurrent('a viewer, and a recording, keep a session awake; without them it sleeps', async () => {
    const [viewed, recorded] = [await create(), await create()]
    const viewer = new WebSocket(`${String(viewed.browser_live_view_url).replace(/^http/, 'ws')}/socket`)
    await once(viewer, 'open')
    const { replay_id } = (await (await cloud.send('POST', `/browsers/${recorded.session_id}/replays`, {})).json()) as { replay_id: string }
    const end = performance.now() + LONG_MS
    while (performance.now() < end) {
      expect(isAsleep(viewed) || isAsleep(recorded)).toBe(false)
      await sleep(10)
    }
    viewer.terminate()
    await cloud.fetch(`/browsers/${recorded.session_id}/replays/${replay_id}/stop`, { method: 'POST' })
    await Promise.all([asleep(viewed), asleep(recorded)])
  })

  test.concurrent('a session is awake while it is ended, and is forgotten then', async () => {
    const session = await create()
    await asleep(session)
    expect((await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })).status).toBe(204)
    expect(isAsleep(session)).toBe(false)
    await sleep(LONG_MS)
    expect(isAsleep(session)).toBe(false)
  })

  test.concurrent('the figures say how many sessions sleep', async () => {
    await asleep(await create())
    const asleepNow = Number(/^cob_browsers_asleep (\d+)/m.exec(await (await cloud.fetch('/metrics')).text())![1])
    expect(asleepNow).toBeGreaterThan(0)
  })

  test.concurrent('a sleeping session times out as any other', async () => {
    const session = await create()
    await asleep(session)
    await cloud.query(`update browsers set last_active_at = now() - interval '2 hours' where id = $1`, [session.session_id])
    await until('the session to end', ASLEEP_MS, async () => (await cloud.fetch(`/browsers/${session.session_id}`)).status === 404)
  })
})

test.each([
  ['COB_STANDBY_AFTER_SECONDS is 0', { COB_STANDBY_AFTER_SECONDS: '0' }, true],
  ['the driver cannot stop instances', { COB_STANDBY_AFTER_SECONDS: '1' }, false],
])('no session sleeps when %s', async (_when, env, canSleep) => {
  await using cloud = await startFastCloud(env, (paths) => {
    const { standby, ...driver } = fakeDriver(paths)
    return { ...driver, ...(canSleep && { standby }) }
  })
  const { session_id: id } = await cloud.create()
  await sleep(LONG_MS)
  expect(sleepers.has(id)).toBe(false)
  expect((await cloud.fetch(`/browsers/${id}/computer/get_mouse_position`, { method: 'POST' })).status).toBe(200)
})

describe('the way into sleep', () => {
  const ID = 'session'
  /** The work that the agent reports as running. */
  let running: string[] = []
  let asked = 0
  let agent: Server
  const socketPath = join(scratchDir('cob-standby-'), 'agent.sock')
  beforeAll(async () => {
    agent = createServer((_request, reply) => {
      asked++
      reply.setHeader('content-type', 'application/json').end(JSON.stringify({ running }))
    }).listen(socketPath)
    await once(agent, 'listening')
  })
  afterAll(() => void agent.close())

  /** The calls that the rules make to a driver, in order. Its sleep takes until `proceed` is called. */
  function follow(endpoint: Endpoint = { socketPath }) {
    const did: string[] = []
    let isStill = false
    const sleeping = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const standby: Standby = {
      async sleep(_id, _unusedMs, signal) {
        did.push('sleep')
        sleeping.resolve()
        await gate.promise
        if (signal.aborted) return false
        isStill = true
        did.push('still')
        return true
      },
      wake() {
        isStill = false
        did.push('wake')
      },
      isAsleep: () => isStill,
      reclaim: async () => {},
    }
    const config = { ...readConfig({}), standbyAfterSeconds: 0.2, standbyConnectedAfterSeconds: 0.2 }
    const sleep: Sleep = sleepWhenUnused({ standby, config, sessions: () => [{ id: ID, endpoint }], isHere: (id) => id === ID, log: silentLog })
    return { did, sleep, standby, sleeping: sleeping.promise, proceed: gate.resolve, isStill: () => isStill, stir: () => (isStill = false) }
  }

  test('a use that comes while a session is being stopped wins: the session is awake before the use goes on', async () => {
    const { did, sleep: rules, sleeping, proceed, isStill } = follow()
    await using _ = rules
    await sleeping
    const release = rules.hold(ID)
    expect(did).toEqual(['sleep', 'wake'])
    proceed()
    await setImmediate()
    expect(isStill()).toBe(false)
    expect(rules.asleep).toBe(0)
    await sleep(1_200)
    expect(did).toEqual(['sleep', 'wake'])
    release()
  })

  test('a use that comes in the moment in which a session stands still wakes it', async () => {
    const { did, sleep: rules, sleeping, proceed, isStill } = follow()
    await using _ = rules
    await sleeping
    proceed()
    // After the driver's answer, before the rules handle it.
    await Promise.resolve()
    rules.hold(ID)
    await setImmediate()
    expect(did.at(-1)).toBe('wake')
    expect([isStill(), rules.asleep]).toEqual([false, 0])
  })

  test('a session that its driver has woken by itself is put to sleep again when it is unused', async () => {
    const { did, sleep: rules, sleeping, proceed, isStill, stir } = follow()
    await using _ = rules
    await sleeping
    proceed()
    await until('it to sleep', ASLEEP_MS, () => rules.asleep === 1, { everyMs: 10 })
    stir()
    await until('it to sleep again', ASLEEP_MS, () => did.filter((what) => what === 'still').length === 2, { everyMs: 10 })
    expect(isStill()).toBe(true)
  })

  test('a command without an answer keeps its session awake', async () => {
    const { did, sleep: rules, proceed } = follow()
    await using _ = rules
    proceed()
    using connection = rules.connect(ID)
    connection.sent(Buffer.concat([Buffer.from([0x81, 0x80 + 8, 0, 0, 0, 0]), Buffer.from('{"id":1}')]))
    await sleep(1_200)
    expect(did).toEqual([])
    connection.received(Buffer.concat([Buffer.from([0x81, 8]), Buffer.from('{"id":1}')]))
    await until('it to sleep', ASLEEP_MS, () => rules.asleep === 1, { everyMs: 10 })
  })

  test('what goes on inside keeps a session awake, and it is asked for again', async () => {
    running = ['process']
    asked = 0
    const { did, sleep: rules, proceed } = follow()
    await using _ = rules
    proceed()
    await until('the agent to be asked again', ASLEEP_MS, () => asked >= 2, { everyMs: 10 })
    expect(did).toEqual([])
    running = []
    await until('it to sleep', ASLEEP_MS, () => rules.asleep === 1, { everyMs: 10 })
  })

  test('an agent of an older version, which cannot say what goes on, is left awake', async () => {
    asked = 0
    const { did, sleep: rules } = follow({ socketPath, older: { version: '0', lacks: ['sessionActivity'] } })
    await using _ = rules
    await sleep(1_200)
    expect([asked, did]).toEqual([0, []])
  })

  test('with other replicas, the first use in a second is told, and a use that lasts is told every second', async () => {
    const { did, sleep: rules, proceed } = follow()
    await using _ = rules
    proceed()
    for (let i = 0; i < 10; i++) rules.hold('elsewhere')()
    expect(did.filter((what) => what === 'wake')).toEqual(['wake'])
    const release = rules.hold('elsewhere')
    await sleep(2_600)
    release()
    const told = did.filter((what) => what === 'wake').length
    expect(told).toBeGreaterThanOrEqual(2)
    expect(told).toBeLessThanOrEqual(4)
  })
})
