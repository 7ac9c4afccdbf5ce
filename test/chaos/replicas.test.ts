// Replicas that are killed at random while clients use their sessions and a run: nothing is lost, nothing is there twice, and every duty is taken over.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { LEASE_MS } from '../../src/store/leases.ts'
import { sleep, until, within } from '../../src/base/wait.ts'
import { zipOf } from '../support/apps.ts'
import { startBalancer } from '../support/fake-host/balancer.ts'
import { callers, cdpLine } from '../support/fake-host/callers.ts'
import type { Session } from '../support/fast-cloud.ts'
import { amount } from '../support/long.ts'
import { replicaProcesses } from '../support/replica-processes.ts'
import { takenOver } from '../support/replicas.ts'
import { seeded } from '../support/seeded.ts'

const KILLS = amount(6, 200)
const REPLICAS = 3
const SESSIONS = 2
/** A call that has no answer from any replica for so long is a failure. A takeover takes 5 s at most on an idle machine. */
const CALL_MS = 60_000
/** Lines of the run that goes on meanwhile, one each 200 ms. */
const LINES = KILLS * 10
const BUILD_MS = 180_000

const { shared, replicas, key } = replicaProcesses(REPLICAS, {
  COB_DRIVER: 'local-tls',
  COB_WARM_BROWSERS: '1',
  COB_WARM_BROWSERS_MAX: '1',
  COB_ALLOW_HOST_LOOPBACK: '1',
  COB_APP_MEMORY_MB: '512',
})

const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000)
const random = seeded(seed)
const any = () => replicas[Math.floor(random() * REPLICAS)]!

/** A call to any replica; to another one when that one is dead or not ready. @throws when none answers in time, or with the answer that none should give */
async function call(method: string, path: string, body?: object): Promise<Response> {
  return until(
    `an answer to ${method} ${path}`,
    CALL_MS,
    async () => {
      const init = body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
      const response = await any()
        .fetch(path, { method, ...init, signal: AbortSignal.timeout(CALL_MS) })
        .catch(() => undefined)
      if (!response || response.status === 503) return false
      if (response.status >= 400) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
      return response
    },
    { everyMs: 50 },
  )
}

/** Evaluates in the session's page over CDP, by any replica, on a connection of its own. */
async function evaluate({ cdp_ws_url: url }: Session, expression: string): Promise<unknown> {
  return until(
    'an answer over CDP',
    CALL_MS,
    async () => {
      const socket = new WebSocket(url.replace(/^(\w+:\/\/)[^/]+/, `$1${new URL(any().url).host}`))
      let why = 0
      socket.on('close', (code) => (why = code)).on('error', () => {})
      try {
        await within('a connection', 10_000, once(socket, 'open'))
        let id = 0
        const send = async (method: string, params: object, sessionId?: string): Promise<Record<string, never>> => {
          const mine = ++id
          const answer = new Promise<Record<string, never>>((resolve, reject) => {
            socket.on('close', () => reject(new Error('closed')))
            socket.on('message', (data: Buffer) => {
              const message = JSON.parse(data.toString()) as { id?: number; result?: Record<string, never> }
              if (message.id === mine) resolve(message.result!)
            })
          })
          socket.send(JSON.stringify({ id: mine, method, params, ...(sessionId && { sessionId }) }))
          return within(method, 10_000, answer)
        }
        const { targetInfos } = (await send('Target.getTargets', {})) as unknown as { targetInfos: { type: string; targetId: string }[] }
        const { targetId } = targetInfos.find(({ type }) => type === 'page')!
        const { sessionId } = (await send('Target.attachToTarget', { targetId, flatten: true })) as unknown as { sessionId: string }
        const { result } = (await send('Runtime.evaluate', { expression }, sessionId)) as unknown as { result: { value: unknown } }
        return { value: result.value }
      } catch (error) {
        // Told that its session has ended: it was lost.
        if (why >= 4000) throw new Error(`the session has ended: ${why}`, { cause: error })
        return false
      } finally {
        socket.terminate()
      }
    },
    { everyMs: 50 },
  ).then(({ value }) => value)
}

test(
  `${KILLS} times a replica of ${REPLICAS} is killed, or frozen for a time, under load: no session or line is lost or doubled, and each duty is taken over`,
  { timeout: 40 * 60_000 },
  async () => {
    // A run that goes on all the time, and tells what it does.
    const source = `
    import Kernel from '@onkernel/sdk'
    new Kernel().app('steady').action('count', async (ctx, { lines }) => {
      for (let i = 0; i < lines; i++) { console.log('line ' + i); await new Promise((done) => setTimeout(done, 200)) }
      return lines
    })`
    const manifest = JSON.stringify({ name: 'steady', private: true, type: 'module', dependencies: { '@onkernel/sdk': '0.84.0' } })
    const form = new FormData()
    form.set('file', new Blob([await zipOf({ 'package.json': manifest, 'index.js': source })]), 'app.zip')
    form.set('entrypoint_rel_path', 'index.js')
    const { id: deployment } = (await (await replicas[0].fetch('/deployments', { method: 'POST', body: form })).json()) as { id: string }
    const stateOf = async (path: string) => ((await (await call('GET', path)).json()) as { status: string }).status
    const endOf = async (path: string) => {
      const { status, status_reason: reason } = (await (await call('GET', path)).json()) as { status: string; status_reason?: string | null }
      return [status, reason]
    }
    await until('the app to run', BUILD_MS, async () => (await stateOf(`/deployments/${deployment}`)) === 'running', { everyMs: 200 })
    const asked = {
      app_name: 'steady',
      version: 'latest',
      action_name: 'count',
      async: true,
      async_timeout_seconds: 3600,
      payload: JSON.stringify({ lines: LINES }),
    }
    const { id: run } = (await (await call('POST', '/invocations', asked)).json()) as { id: string }

    const sessions: Session[] = []
    for (let index = 0; index < SESSIONS; index++) sessions.push((await (await call('POST', '/browsers', { timeout_seconds: 600 })).json()) as Session)
    for (const [index, session] of sessions.entries())
      await evaluate(session, `window.mark = ${index}; window.clicks = 0; addEventListener('mousedown', () => window.clicks++)`)

    const stop = new AbortController()
    let calls = 0
    const use = async (session: Session, index: number) => {
      while (!stop.signal.aborted) {
        await call('POST', `/browsers/${session.session_id}/computer/move_mouse`, { x: 100 + (calls % 100), y: 300 })
        expect(await evaluate(session, 'window.mark')).toBe(index)
        calls += 2
        await sleep(20)
      }
    }
    const load = Promise.all(sessions.map(use))
    load.catch(() => {})

    const took: number[] = []
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        const victims = replicas.filter((replica) => replica.isRunning()).toSorted(() => random() - 0.5)
        // Mostly one, sometimes two at once.
        const dying = victims.slice(0, random() < 0.2 ? 2 : 1)
        await sleep(random() * 700)
        // Sometimes one is only frozen, for longer than its leases last: it goes on as if it still had them.
        if (kill % 5 === 2) {
          await victims[0]!.freeze(LEASE_MS + 1_500 + random() * 2_000)
          continue
        }
        const dead = dying.map((replica) => replica.replica())
        await Promise.all(dying.map((replica) => replica.kill()))
        const restarted = Promise.all(dying.map((replica) => replica.start()))
        took.push(await takenOver(shared, dead))
        await restarted
      }
    } finally {
      stop.abort()
    }
    await load
    const sorted = took.toSorted((a, b) => a - b)
    process.stderr.write(
      `CHAOS_SEED=${seed}: ${calls} calls; duties taken over after ms: p50 ${Math.round(sorted[sorted.length >> 1]!)}, most ${Math.round(sorted.at(-1)!)}\n`,
    )

    const rows = await shared.query<{ id: string; state: string }>(`select id, state from browsers where created_at is not null`)
    expect(rows.toSorted((a, b) => a.id.localeCompare(b.id))).toEqual(
      sessions.map(({ session_id: id }) => ({ id, state: 'running' })).toSorted((a, b) => a.id.localeCompare(b.id)),
    )
    await until('the run to end', CALL_MS + LINES * 300, async () => (await stateOf(`/invocations/${run}`)) !== 'running', { everyMs: 500 })
    const lines = await shared.query<{ line: string }>(`select line from app_events where invocation_id = $1 and kind = 'log' order by id`, [run])
    expect([await endOf(`/invocations/${run}`), lines.map(({ line }) => line)]).toEqual([
      ['succeeded', undefined],
      Array.from({ length: LINES }, (_, index) => `line ${index}`),
    ])
    for (const { session_id: id } of sessions) await call('DELETE', `/browsers/${id}`)
  },
)

test(
  'replicas are replaced one after the other, the first by a version with more columns: sessions, their connections and a recording go on',
  { timeout: 5 * 60_000 },
  async () => {
    await using balancer = await startBalancer(replicas.map(({ url }) => Number(new URL(url).port)))
    using balanced = callers([balancer.url], key, { fresh: true })
    const { id, cdpUrl } = await balanced.create({ timeout_seconds: 600 })
    using line = cdpLine(cdpUrl)
    await line.roundTrip()
    const session = { cdp_ws_url: cdpUrl } as Session
    await evaluate(session, 'window.mark = "kept"')
    const { replay_id: replay } = JSON.parse((await balanced.call('POST', `/browsers/${id}/replays`, {})).text) as { replay_id: string }
    const begun = Date.now()

    const stop = new AbortController()
    const statuses = new Set<number>()
    let trips = 0
    const use = async () => {
      while (!stop.signal.aborted) {
        statuses.add((await balanced.call('POST', `/browsers/${id}/computer/move_mouse`, { x: 100, y: 300 })).status)
        await line.roundTrip()
        trips++
        await sleep(50)
      }
    }
    const load = use()
    load.catch(() => {})
    try {
      // What a newer version does before it serves.
      await shared.query('alter table browsers add column of_a_later_version text')
      for (const replica of replicas) {
        const name = replica.replica()
        expect(await replica.stop()).toBe(0)
        await takenOver(shared, [name])
        await replica.start()
        expect(await evaluate(session, 'window.mark')).toBe('kept')
      }
    } finally {
      stop.abort()
      await shared.query('alter table browsers drop column if exists of_a_later_version')
    }
    await load
    const lasted = Date.now() - begun
    expect([statuses, trips > 0, line.opened > 1]).toEqual([new Set([200]), true, true])

    expect((await balanced.call('POST', `/browsers/${id}/replays/${replay}/stop`)).status).toBe(200)
    const film = () => balanced.call('GET', `/browsers/${id}/replays/${replay}`)
    await until('the film', CALL_MS, async () => (await film()).status === 200, { everyMs: 100 }).catch(async (error: unknown) => {
      const { status } = await film()
      const rows = await shared.query('select r.*, b.state as browser, b.replica from replays r join browsers b on b.id = r.browser_id where r.id = $1', [
        replay,
      ])
      const said = replicas.flatMap((replica) => [replica.replica(), ...replica.log().split('\n').filter((line) => /replay|recording|taken over|adopted|lease/.test(line))]) // prettier-ignore
      throw new Error(`the film is answered with ${status}: ${JSON.stringify(rows)}\n${said.join('\n')}`, { cause: error })
    })
    const found = JSON.parse((await balanced.call('GET', `/browsers/${id}/replays`)).text) as { replay_id: string; started_at: string; finished_at: string }[]
    const { started_at: from, finished_at: to } = found.find((one) => one.replay_id === replay)!
    expect(Date.parse(to) - Date.parse(from)).toBeGreaterThanOrEqual(lasted)
    expect(await shared.query('select end_reason from replays where id = $1', [replay])).toEqual([{ end_reason: 'stopped' }])
    expect((await balanced.call('DELETE', `/browsers/${id}`)).status).toBe(204)
  },
)
