// The Replays group over fake browsers: what its calls promise, and what is left after the retention.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { pageData } from '../../../../test/support/page-data.ts'
import { dyingAgent } from '../../../../test/support/dying-agent.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { sleep, until, within } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import { openDb } from '../../../store/db.ts'
import { alone, type Leases } from '../../../store/leases.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import { makeSpool } from '../../../store/spool.ts'
import { findBrowser } from '../browsers/rows.ts'
import type { Replay } from './contract.ts'
import { makeReplays, type Replays, type ReplaysSettings } from './replays.ts'
import { replaySigner } from './links.ts'
import { oldReplays } from './purge.ts'
import { Recordings } from './recordings.ts'

const cloud = fastCloud()

const start = async (id: string, body: object = {}): Promise<Replay> => {
  const response = await cloud.send('POST', `/browsers/${id}/replays`, body)
  expect(response.status).toBe(201)
  const replay = (await response.json()) as Replay
  conforms('ReplayStartResponse', replay)
  return replay
}
const list = async (id: string): Promise<Replay[]> => {
  const all = (await (await cloud.fetch(`/browsers/${id}/replays`)).json()) as Replay[]
  conforms('ReplayListResponse', all)
  return all
}
const stop = (id: string, { replay_id }: Replay) => cloud.fetch(`/browsers/${id}/replays/${replay_id}/stop`, { method: 'POST' })
const download = (id: string, { replay_id }: Replay, init?: RequestInit) => cloud.fetch(`/browsers/${id}/replays/${replay_id}`, init)

test('a replay starts without a body, answers 202 while it runs, stops without a body, and can be downloaded', async () => {
  const { session_id: id } = await cloud.create()
  const started = await cloud.fetch(`/browsers/${id}/replays`, { method: 'POST' })
  expect(started.status).toBe(201)
  const replay = (await started.json()) as Replay
  const early = await download(id, replay)
  expect([early.status, early.headers.get('retry-after'), early.headers.get('x-recording-started-at')]).toEqual([202, '2', replay.started_at])
  expect((await list(id))[0]).toEqual({ ...replay, finished_at: null })
  await sleep(150)
  const stopped = await stop(id, replay)
  expect([stopped.status, await stopped.text()]).toEqual([200, ''])
  const video = await download(id, replay)
  expect([video.status, video.headers.get('content-type')]).toEqual([200, 'video/mp4'])
  const bytes = Buffer.from(await video.arrayBuffer())
  expect(bytes.length).toBe(Number(video.headers.get('content-length')))
  expect(bytes.toString('latin1', 4, 8)).toBe('ftyp')
  const { finished_at } = (await list(id))[0]!
  expect(finished_at).toBe(video.headers.get('x-recording-finished-at'))
  expect((await stop(id, replay)).status).toBe(200)
  // Every range gives the same bytes as the whole, also across the boundary between head and recording.
  const seam = bytes.indexOf('ftyp', 8) - 4
  for (const [first, last] of [
    [0, 0],
    [seam - 5, seam + 5],
    [seam, seam],
    [10, bytes.length - 1],
    [bytes.length - 1, bytes.length - 1],
  ] as const) {
    // prettier-ignore
    const part = await download(id, replay, { headers: { range: `bytes=${first}-${last}` } })
    expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes ${first}-${last}/${bytes.length}`])
    expect(Buffer.from(await part.arrayBuffer())).toEqual(bytes.subarray(first, last + 1))
  }
  expect((await download(id, replay, { headers: { range: `bytes=${bytes.length}-` } })).status).toBe(416)
  const head = await download(id, replay, { method: 'HEAD' })
  expect([head.status, head.headers.get('content-length')]).toEqual([200, String(bytes.length)])
})

test('deleting a session finishes its recordings, and keeps them', async () => {
  const { session_id: id } = await cloud.create({ name: 'filmed' })
  const replays = [await start(id), await start('filmed', { framerate: 1 }), await start(id, { max_duration_in_seconds: 1 })]
  await sleep(200)
  expect((await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
  const all = await list(id)
  expect(all.map(({ replay_id }) => replay_id)).toEqual(replays.map(({ replay_id }) => replay_id))
  for (const replay of all) {
    await until('the video', 20_000, async () => (await download(id, replay)).status === 200, { everyMs: 20 })
    expect((await list(id)).find(({ replay_id }) => replay_id === replay.replay_id)!.finished_at).not.toBe(null)
  }
  expect((await list('filmed')).length).toBe(3)
  expect((await cloud.send('POST', `/browsers/${id}/replays`, {})).status).toBe(404)
})

test('eight of more that are started at the same moment begin, and the others are refused in the same way', async () => {
  const { session_id: id } = await cloud.create()
  const started = await Promise.all(Array.from({ length: 12 }, () => cloud.send('POST', `/browsers/${id}/replays`, {})))
  expect(started.map(({ status }) => status).toSorted()).toEqual([...Array<number>(8).fill(201), ...Array<number>(4).fill(409)])
  // Clients do not try it again.
  expect(started.filter(({ status }) => status === 409).map(({ headers }) => headers.get('x-should-retry'))).toEqual(Array(4).fill('false'))
})

test('a recording of a session that ends while it is started answers 404', async () => {
  const { session_id: id } = await cloud.create()
  await using agent = await dyingAgent(() => cloud.fetch(`/browsers/${id}`, { method: 'DELETE' }))
  const reach = async () => {
    if ((await cloud.fetch(`/browsers/${id}`)).status === 404) throw fault.notFound('browser', id)
    return { id, endpoint: agent.endpoint, release: () => {} }
  }
  const asked = withReplays(reach, (replays) =>
    replays.start(DEFAULT_PROJECT, id, { framerate: 1, record_audio: false }, cloud.url, new AbortController().signal),
  )
  await expect(asked).rejects.toMatchObject({ code: 'not_found' })
})

test('a recording whose session ends right after its start is finished', async () => {
  const { session_id: id } = await cloud.create()
  const [row] = await cloud.query<{ replica: string }>(`select replica from browsers where id = '${id}'`)
  const agent = createServer((_, response) => {
    agent.close()
    const answer = JSON.stringify({ startedAt: Date.now(), startedClock: Date.now() * 1000, durationMs: 0, bytes: 0 })
    void cloud.fetch(`/browsers/${id}`, { method: 'DELETE' }).then(() => response.writeHead(200, { connection: 'close' }).end(answer))
  })
  agent.listen(0, '127.0.0.1')
  await once(agent, 'listening')
  const endpoint = { host: '127.0.0.1', port: (agent.address() as AddressInfo).port }
  await withReplays(
    async () => ({ id, endpoint, release: () => {} }),
    async (replays) => {
      const { replay_id } = await replays.start(DEFAULT_PROJECT, id, { framerate: 1, record_audio: false }, cloud.url, new AbortController().signal)
      await until('its end', 5_000, async () => (await list(id)).find((replay) => replay.replay_id === replay_id)!.finished_at !== null, { everyMs: 20 })
    },
    { leases: alone(row!.replica) },
  )
})

test('an agent that does not answer does not delay the start of the next service', async () => {
  const { session_id: id } = await cloud.create()
  const agent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(agent, 'listening')
  const endpoint = { host: '127.0.0.1', port: (agent.address() as AddressInfo).port }
  const leases = alone(newId())
  await cloud.query(
    `insert into browsers (id, scope, state, replica, options, project_id) select 'unanswered', 'elsewhere', 'running', $2, options, project_id from browsers where id = $1`,
    [id, leases.replica],
  )
  await cloud.query(
    `insert into replays (id, state, browser_id, object, framerate, record_audio) values ('begun', 'starting', 'unanswered', 'replays/begun', 1, false)`,
  )
  await withReplays(
    () => Promise.reject(new Error('not here')),
    async (_, recordings) => {
      await within('the adoption', 2_000, recordings.adopt())
      await recordings[Symbol.asyncDispose]()
    },
    { scope: 'elsewhere', leases, endpointOf: () => endpoint },
  )
  const left = () => cloud.query(`select id from replays where id = 'begun'`)
  // That service has stopped before it was removed, so the next one does it, which finds that the session has ended.
  expect(await left()).toHaveLength(1)
  await cloud.query(`update browsers set state = 'deleted', deleted_at = now() where id = 'unanswered'`)
  await withReplays(
    () => Promise.reject(new Error('not here')),
    async (_, recordings) => {
      await recordings.adopt()
      await until('its row to be removed', 5_000, async () => (await left()).length === 0)
      await recordings[Symbol.asyncDispose]()
    },
    { scope: 'elsewhere', leases },
  )
  agent.closeAllConnections()
  agent.close()
})

/** The rules of replays on the database of this service, beside its own. */
async function withReplays<T>(
  reach: ReplaysSettings['reach'],
  work: (replays: Replays, recordings: Recordings) => Promise<T>,
  others: { scope?: string; leases?: Leases; endpointOf?: ReplaysSettings['endpointOf'] } = {},
): Promise<T> {
  const db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  const scope = others.scope ?? readFileSync(cloud.paths.hostId, 'utf8').trim()
  const shared = { db, scope, objects: fileObjects(cloud.paths.objects), log: silentLog, endpointOf: others.endpointOf ?? (() => undefined) }
  const recordings = new Recordings({ ...shared, spool: makeSpool(cloud.paths.spool), leases: others.leases ?? alone(newId()) })
  const settings = {
    ...shared,
    recordings,
    tokens: replaySigner(Buffer.alloc(32)),
    tellWatcher: () => Promise.resolve(false),
    findSession: (project: string | undefined, idOrName: string) => findBrowser(db, { scope, project }, idOrName, true),
    reach,
  }
  try {
    return await work(makeReplays(settings), recordings)
  } finally {
    await db.destroy()
  }
}

/** What the service does once an hour. */
async function sweep(): Promise<void> {
  const db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  try {
    const scope = readFileSync(cloud.paths.hostId, 'utf8').trim()
    await oldReplays(db, fileObjects(cloud.paths.objects), scope, 30).run(new AbortController().signal)
  } finally {
    await db.destroy()
  }
}

test('a replay is not found under another session', async () => {
  const [one, other] = [await cloud.create(), await cloud.create()]
  const replay = await start(one.session_id)
  expect((await download(other.session_id, replay)).status).toBe(404)
  expect((await stop(other.session_id, replay)).status).toBe(404)
  expect(await list(other.session_id)).toEqual([])
})

test('a recording does not keep a session alive; the timeout ends both', async () => {
  const { session_id: id } = await cloud.create({ timeout_seconds: 3600 })
  const replay = await start(id)
  // Longer than two looks for idle sessions, so that the calls above are recorded, and the recording could count as a later use.
  await sleep(2_200)
  await cloud.query(`update browsers set last_active_at = now() - interval '1 hour' where id = $1`, [id])
  await until('the timeout', 20_000, async () => (await cloud.fetch(`/browsers/${id}`)).status === 404, { everyMs: 50 })
  const video = await until('the video', 20_000, async () => download(id, replay).then((answer) => answer.status === 200 && answer), { everyMs: 50 })
  expect(Date.parse(video.headers.get('x-recording-finished-at')!) - Date.parse(replay.started_at)).toBeGreaterThan(2_000)
})

test('a replay past its retention is removed with its objects', async () => {
  const { session_id: id } = await cloud.create()
  const [old, young] = [await start(id), await start(id)]
  await sleep(120)
  await Promise.all([stop(id, old), stop(id, young)])
  const rows = await cloud.query<{ id: string; object: string }>('select id, object from replays')
  const file = (replay: Replay, end = '') => join(cloud.paths.objects, rows.find((row) => row.id === replay.replay_id)!.object + end)
  expect([existsSync(file(old)), existsSync(file(old, '.head'))]).toEqual([true, true])
  expect(readFileSync(file(old)).toString('latin1', 4, 8)).toBe('ftyp')
  await cloud.query(`update replays set finished_at = now() - interval '31 days' where id = $1`, [old.replay_id])
  await sweep()
  expect((await list(id)).map(({ replay_id }) => replay_id)).toEqual([young.replay_id])
  expect([existsSync(file(old)), existsSync(file(old, '.head')), existsSync(file(young))]).toEqual([false, false, true])
  expect((await fetch(old.replay_view_url)).status).toBe(404)
})

test('the player page shows the state of the replay, and loads only what its policy allows', async () => {
  const { session_id: id } = await cloud.create()
  const replay = await start(id)
  const early = await fetch(replay.replay_view_url)
  expect([early.headers.get('refresh'), await early.text()]).toEqual(['3', expect.stringContaining('<h1>Recording</h1>')])
  await sleep(120)
  await stop(id, replay)
  const page = await (await fetch(replay.replay_view_url)).text()
  expect(pageData(page)).toMatchObject({ id: replay.replay_id, hasEvents: false })
  expect(page).not.toMatch(/<script>|style=| on\w+=/)
})
