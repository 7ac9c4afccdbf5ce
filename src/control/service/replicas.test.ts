// Several replicas on one database: each of them serves any session, run and deployment, and shared objects exist once.
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import pg from 'pg'
import { WebSocket } from 'ws'
import { twoReplicas, type FastReplica } from '../../../test/support/two-replicas.ts'
import { newId } from '../../base/ids.ts'
import { sleep, until, within } from '../../base/wait.ts'
import { LEASE_MS } from '../../store/leases.ts'
import { watchersOf } from '../../instances/fake/watchers.ts'
import { calling, deploy } from '../apps/invocations/deployed.suite.ts'

/** Another replica learns of a change by a notice within milliseconds; without the notice within two seconds; by a takeover within five. */
const NOTICE_MS = 20_000
const MAX_BROWSERS = 6
const MAX_RUNS = 4

describe('replicas', { timeout: 60_000 }, () => {
  const { shared, one, two, another } = twoReplicas({
    COB_WARM_BROWSERS: '1',
    COB_WARM_BROWSERS_MAX: '1',
    COB_MAX_BROWSERS: String(MAX_BROWSERS),
    COB_MAX_INVOCATIONS: String(MAX_RUNS),
  })
  afterEach(async () => {
    for (const { id } of await shared.query<{ id: string }>(`select id from browsers where state = 'running'`))
      await one.fetch(`/browsers/${id}`, { method: 'DELETE' })
  })

  const stateOf = async (id: string) => (await shared.query<{ state: string }>('select state from browsers where id = $1', [id]))[0]?.state
  const openCdp = async (url: string) => {
    const socket = new WebSocket(url)
    const closed = once(socket, 'close') as Promise<[number]>
    await once(socket, 'open')
    return { socket, closed }
  }
  const at = (replica: FastReplica, url: string) => url.replace(/^(\w+:\/\/)[^/]+/, `$1${new URL(replica.url).host}`)

  test("replicas find each other's requests in the audit log", async () => {
    const window = new URLSearchParams({ start: new Date(Date.now() - 60_000).toISOString(), end: new Date(Date.now() + 60_000).toISOString() })
    for (const [maker, reader] of [
      [one, two],
      [two, one],
    ] as const) {
      const path = `/org/projects/${newId()}`
      expect((await maker.fetch(path)).status).toBe(404)
      expect((await maker.fetch(path, { method: 'DELETE' })).status).toBe(404)
      const seen = async (by: FastReplica): Promise<string[]> =>
        ((await (await by.fetch(`/audit-logs?${window.toString()}&search=${path}`)).json()) as { method: string; status: number }[]).map(
          ({ method, status }) => `${method} ${status}`,
        )
      await expect.poll(() => seen(reader), { timeout: NOTICE_MS, interval: 20 }).toEqual(['DELETE 404', 'GET 404'])
      // A replica finds its own objects at once.
      const own = `${path}-own`
      await maker.fetch(own, { method: 'DELETE' })
      expect(((await (await maker.fetch(`/audit-logs?${window.toString()}&search=${own}`)).json()) as object[]).length).toBe(1)
    }
  })

  test('any replica finds, changes and uses a session that another one has made', async () => {
    for (const [maker, user] of [
      [one, two],
      [two, one],
    ] as const) {
      const made = await maker.create({ name: 'shared', timeout_seconds: 300 })
      const id = made.session_id
      expect(await (await user.fetch('/browsers/shared')).json()).toMatchObject({ session_id: id })
      const changed = await user.send('PATCH', `/browsers/${id}`, { tags: { by: 'another' }, viewport: { width: 800, height: 600 } })
      expect([changed.status, await (await maker.fetch(`/browsers/${id}`)).json()]).toMatchObject([200, { tags: { by: 'another' }, viewport: { width: 800 } }])
      expect((await user.send('POST', `/browsers/${id}/computer/click_mouse`, { x: 1, y: 1 })).status).toBe(200)
      expect((await (await user.fetch(`/browsers/${id}/computer/screenshot`, { method: 'POST' })).arrayBuffer()).byteLength).toBeGreaterThan(100)
      // The session's own token works at every replica, too.
      const { socket, closed } = await openCdp(at(user, made.cdp_ws_url))
      socket.send(JSON.stringify({ id: 7, method: 'Browser.getVersion' }))
      const [answer] = (await once(socket, 'message')) as [Buffer]
      expect(JSON.parse(answer.toString())).toMatchObject({ id: 7 })
      // When one replica ends a session, it ends at both, and clients of both get the reason.
      const own = await openCdp(made.cdp_ws_url)
      expect((await user.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
      expect([await stateOf(id), (await maker.fetch(`/browsers/${id}`)).status, (await user.fetch(`/browsers/${id}`)).status]).toEqual(['deleted', 404, 404])
      const codes = await within('the ends of the connections', NOTICE_MS, Promise.all([closed, own.closed]))
      expect(codes.map(([code]) => code)).toEqual([4001, 4001])
    }
  })

  test("each replica's metrics tell of what it watches, so that their sum is the whole", async () => {
    const made = [await one.create({ timeout_seconds: 300 }), await two.create({ timeout_seconds: 300 }), await two.create({ timeout_seconds: 300 })]
    const figure = async (of: FastReplica, name: string) =>
      Number(new RegExp(`^${name}\\{state="running"\\} (\\d+)$`, 'm').exec(await (await of.fetch('/metrics')).text())?.[1] ?? 0)
    const own = [await figure(one, 'cob_browsers'), await figure(two, 'cob_browsers')]
    const rows = await shared.query<{ count: number }>(`select count(*)::int as count from browsers where state = 'running' group by replica`)
    expect(own.filter((count) => count > 0).toSorted()).toEqual(rows.map(({ count }) => count).toSorted())
    expect(own[0]! + own[1]!).toBe(made.length)
    expect([await figure(one, 'cob_all_browsers'), await figure(two, 'cob_all_browsers')]).toEqual([made.length, made.length])
  })

  test('seats are counted for all replicas together', async () => {
    const answers = await Promise.all(Array.from({ length: 4 * MAX_BROWSERS }, (_, index) => (index % 2 ? one : two).send('POST', '/browsers', {})))
    const statuses = answers.map(({ status }) => status)
    expect([statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 429).length]).toEqual([MAX_BROWSERS, 3 * MAX_BROWSERS])
  })

  test('the warm pool is kept at its number by one replica for all', async () => {
    const warm = () => shared.query<{ replica: string }>(`select replica from browsers where state = 'warm'`)
    await until('one warm browser', NOTICE_MS, async () => (await warm()).length === 1)
    const before = (await shared.query<{ id: string }>('select id from browsers')).map(({ id }) => id)
    // Both replicas take browsers from it, and it is filled again.
    for (const replica of [one, two]) {
      const { session_id: id } = await replica.create()
      expect((await shared.query<{ warm_kind: string }>('select warm_kind from browsers where id = $1', [id]))[0]!.warm_kind).toBe('usual')
      await until('one warm browser', NOTICE_MS, async () => (await warm()).length === 1)
    }
    const starts = await shared.query<{ replica: string }>(`select distinct replica from browsers where warm_kind = 'usual' and id <> all($1)`, [before])
    expect(starts).toHaveLength(1)
  })

  test('a replica that stops leaves its sessions and its warm pool to the others', async () => {
    const three = await another()
    const cold = { viewport: { width: 3000, height: 2000 } } // no ready browser serves it, so the replica that boots it watches it
    const { session_id: id } = await three.create({ ...cold, timeout_seconds: 300 })
    const watcher = async () => (await shared.query<{ replica: string }>('select replica from browsers where id = $1', [id]))[0]!.replica
    const before = await watcher()
    const { cdp_ws_url: url } = (await (await three.fetch(`/browsers/${id}`)).json()) as { cdp_ws_url: string }
    const { closed } = await openCdp(at(three, url))
    await three.stop()
    // Its client is told to reconnect. An open connection would keep the replica from stopping.
    expect((await within('the end of a connection', NOTICE_MS, closed))[0]).toBe(1012)
    expect((await one.send('POST', `/browsers/${id}/computer/click_mouse`, { x: 1, y: 1 })).status).toBe(200)
    await until('another watcher', NOTICE_MS, async () => (await watcher()) !== before)
    expect([await stateOf(id), (await two.fetch(`/browsers/${id}`)).status]).toEqual(['running', 200])
    // It times out as before.
    // The calls above are recorded within a second, as uses.
    const long = `update browsers set last_active_at = now() - interval '1 hour' where id = $1 and state = 'running'`
    await until('its timeout', NOTICE_MS, async () => (await shared.query(long, [id]), (await stateOf(id)) === 'deleted'), { everyMs: 200 })
  })

  test('any replica runs, follows and ends runs of an app that another one was given, and takes over the runs of one that stops', async () => {
    const as = (replica: FastReplica) => ({ ...replica, query: shared.query })
    await deploy(as(two))
    const [first, second] = [calling(as(one)), calling(as(two))]
    const results = await Promise.all([first, second].map((caller, index) => caller.run('echo', { payload: String(index) })))
    expect(results.map(({ status, output }) => [status, output])).toEqual([
      ['succeeded', '0'],
      ['succeeded', '1'],
    ])
    const hanging = await first.begin('hang')
    await second.becomes(hanging, 'running')
    const events = await two.fetch(`/invocations/${hanging}/events`)
    const received = events.text()
    expect(await second.patch(hanging, { status: 'failed' })).toMatchObject({ status: 'failed' })
    expect(await within('the end of the stream', NOTICE_MS, received)).toContain('"failed"')
    const [run] = await shared.query<{ runner_id: string }>('select runner_id from invocations where id = $1', [hanging])
    await until('its sandbox to go', NOTICE_MS, () => !readdirSync(shared.paths.appSandboxes).includes(run!.runner_id))

    const three = await another()
    const slow = await calling(as(three)).begin('slow', { payload: '4000' })
    const logs = await calling(as(three)).begin('logs', { payload: '300' })
    await first.becomes(slow, 'running')
    await three.stop()
    expect(await first.becomes(slow, 'succeeded')).toMatchObject({ output: '"done"' })
    await second.becomes(logs, 'succeeded')
    expect((await first.received(logs)).filter((line) => line?.startsWith('line'))).toEqual(Array.from({ length: 300 }, (_, index) => `line ${index + 1}`))
    expect(await first.received(slow)).toEqual(['running', 'succeeded'])
  })

  test('a run that another replica has taken over is watched by that one only, and goes on', async () => {
    const as = (replica: FastReplica) => ({ ...replica, query: shared.query })
    await deploy(as(one))
    const caller = calling(as(one))
    const id = await caller.begin('hang')
    await caller.becomes(id, 'running')
    const [row] = await shared.query<{ replica: string; runner_id: string }>('select replica, runner_id from invocations where id = $1', [id])
    const { replica: before, runner_id: sandbox } = row!
    const [other] = await shared.query<{ replica: string }>(`select replica from leases where starts_with(duty, 'replica ') and replica <> $1`, [before])
    expect(watchersOf(sandbox)).toEqual([before])
    await shared.query('update invocations set replica = $2 where id = $1', [id, other!.replica])
    // Three sweeps of runs, which come every 5 s: one replica leaves the run, the other misses it at the next sweep, and finds it at the third.
    await until('the other one alone to watch it', 2 * NOTICE_MS, () => watchersOf(sandbox).join() === other!.replica)
    expect(await caller.patch(id, { status: 'failed' })).toMatchObject({ status: 'failed' })
    await until('its sandbox to go', NOTICE_MS, () => !readdirSync(shared.paths.appSandboxes).includes(sandbox))
  })

  test('runs are counted for all replicas together', async () => {
    const as = (replica: FastReplica) => ({ ...replica, query: shared.query })
    await deploy(as(one))
    const all = await Promise.all(Array.from({ length: 3 * MAX_RUNS }, (_, index) => calling(as(index % 2 ? one : two)).post('hang', { async: true })))
    const accepted = all.filter(({ status }) => status < 300)
    expect([accepted.length, all.filter(({ status }) => status === 429).length]).toEqual([MAX_RUNS, 2 * MAX_RUNS])
    for (const response of accepted) await calling(as(one)).patch(((await response.json()) as { id: string }).id, { status: 'failed' })
  })

  test('a recording that another replica starts and stops becomes a film; so does one whose session another replica deletes', async () => {
    const { session_id: id } = await one.create({ viewport: { width: 3000, height: 2000 } })
    const film = async (replay: string) => [one, two].map((replica) => replica.fetch(`/browsers/${id}/replays/${replay}`))
    const start = async () => ((await (await two.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }).replay_id
    const [stopped, ended] = [await start(), await start()]
    await sleep(1_200) // a fake recording has a picture each second
    expect((await two.fetch(`/browsers/${id}/replays/${stopped}/stop`, { method: 'POST' })).status).toBe(200)
    await until('the film', NOTICE_MS, async () => (await two.fetch(`/browsers/${id}/replays/${stopped}`)).status === 200)
    for (const answer of await Promise.all(await film(stopped))) expect([answer.status, (await answer.arrayBuffer()).byteLength > 100]).toEqual([200, true])
    expect((await two.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
    await until('the film', NOTICE_MS, async () => (await two.fetch(`/browsers/${id}/replays/${ended}`)).status === 200)
    for (const answer of await Promise.all(await film(ended))) expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(100)
  })

  test('callers that ask for what does not exist do not use up the connections to the database', async () => {
    const ask = () => one.send('POST', '/invocations', { app_name: 'nobody-has-this', version: '1', action_name: 'x', async: true })
    const answers = await Promise.all(Array.from({ length: 30 }, ask))
    // Each of them holds a seat for a moment.
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404, 429]))
    expect((await one.fetch('/browsers')).status).toBe(200)
  })

  test('a caller that waits for a run at a replica that stops is told so, and finds its run at another one', async () => {
    const as = (replica: FastReplica) => ({ ...replica, query: shared.query })
    await deploy(as(one))
    const three = await another()
    const asked = calling(as(three)).post('slow', { payload: '3000' })
    const started = () => shared.query<{ id: string }>(`select id from invocations where action_name = 'slow' and state = 'running'`)
    const [run] = await until('the run', NOTICE_MS, async () => ((await started()).length === 1 ? started() : false))
    await three.stop()
    // Its connection may be closed before it gets the answer.
    expect(
      await asked.then(
        ({ status }) => status,
        () => 503,
      ),
    ).toBe(503)
    expect(await calling(as(one)).becomes(run!.id, 'succeeded')).toMatchObject({ output: '"done"' })
  })

  test('a recording survives a time in which no replica could renew its leases', async () => {
    const { session_id: id } = await one.create({ timeout_seconds: 300 })
    const { replay_id: replay } = (await (await two.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }
    const locker = new pg.Client({ host: shared.paths.postgresSocket, user: 'cob', database: 'postgres' })
    await locker.connect()
    await locker.query('begin; lock table leases in access exclusive mode')
    await sleep(LEASE_MS + 2_000)
    await locker.query('commit')
    await locker.end()
    const stateOfReplay = async () => (await shared.query<{ state: string }>('select state from replays where id = $1', [replay]))[0]!.state
    expect([await stateOfReplay(), await stateOf(id)]).toEqual(['recording', 'running'])
    await sleep(1_500)
    expect((await two.fetch(`/browsers/${id}/replays/${replay}/stop`, { method: 'POST' })).status).toBe(200)
    await until('the film', NOTICE_MS, async () => (await one.fetch(`/browsers/${id}/replays/${replay}`)).status === 200)
    expect(await shared.query('select end_reason from replays where id = $1', [replay])).toEqual([{ end_reason: 'stopped' }])
  })

  test('a session whose takeover broke off is found again by the replica that its row names', async () => {
    const { session_id: id } = await one.create({ timeout_seconds: 300 })
    const [other] = await shared.query<{ replica: string }>(
      `select replica from leases where starts_with(duty, 'replica ') and replica <> (select replica from browsers where id = $1)`,
      [id],
    )
    const before = watchersOf(id)
    await shared.query('update browsers set replica = $2 where id = $1', [id, other!.replica])
    await until('the one that has lost it to watch it no more', NOTICE_MS, () => watchersOf(id).join() === other!.replica)
    expect(before).not.toEqual([other!.replica])
    // Two sweeps of each replica, and some time more.
    await sleep(5_000)
    expect([await stateOf(id), (await one.send('POST', `/browsers/${id}/computer/click_mouse`, { x: 1, y: 1 })).status]).toEqual(['running', 200])
    expect((await two.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
    expect(await stateOf(id)).toBe('deleted')
  })

  test('a replica that is frozen while it counts seats keeps the others waiting for some seconds only', async () => {
    const [scope] = await shared.query<{ scope: string }>('select distinct scope from leases')
    // While one replica boots a warm browser, it takes a session's place from the others.
    const present = async () => (await shared.query<{ state: string }>(`select state from browsers where state <> 'deleted'`)).map(({ state }) => state)
    await until('the warm pool to be full, and nothing else', NOTICE_MS, async () => (await present()).join() === 'warm')
    const frozen = new pg.Client({ host: shared.paths.postgresSocket, user: 'cob', database: 'postgres' })
    frozen.on('error', () => {})
    await frozen.connect()
    // The statement that a replica sends.
    await frozen.query(`begin; select set_config('idle_in_transaction_session_timeout', '2000ms', true)`)
    await frozen.query(`select pg_advisory_xact_lock(hashtextextended($1, 0))`, [`cob:seats:sessions of ${scope!.scope}`])
    const creates = Array.from({ length: 14 }, () => two.send('POST', '/browsers', {}))
    // Other calls of the replica get connections meanwhile.
    expect((await two.fetch('/browsers')).status).toBe(200)
    const statuses = (await Promise.all(creates)).map(({ status }) => status).toSorted()
    expect(statuses).toEqual([...Array(MAX_BROWSERS).fill(200), ...Array(creates.length - MAX_BROWSERS).fill(429)])
    await frozen.end().catch(() => {})
  })

  test('a service that does not share its scope is refused, and so are replicas of one that does not', async () => {
    await expect(another({ COB_REPLICAS: '0' })).rejects.toThrow('another Cob runs with this data directory already')
  })
})
