// Objects that ended long ago are removed, and nothing else. Tests set times back in the database.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { readFileSync } from 'node:fs'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog, type Log } from '../../../base/log.ts'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import { appendEvents, LINE_BYTES } from '../../apps/apps/app-events.ts'
import { endedSessions } from '../../sessions/browsers/purge.ts'
import { endedDeployments, oldLines } from '../../apps/deployments/purge.ts'
import { endedRuns } from '../../apps/invocations/purge.ts'
import { purgeAll } from './purge.ts'

const DAYS = 30
const signal = new AbortController().signal

let cloud: FastCloud
let db: Db
let host: string
const scope = new AsyncDisposableStack()
// The service's own round after its start must not remove objects of these tests.
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', COB_KEEP_ENDED_DAYS: '3650' }))
  db = cloud.db
  host = readFileSync(cloud.paths.hostId, 'utf8').trim()
})
afterAll(() => scope.disposeAsync())

/** The removals of a service with this host in one round. */
const purge = (of = host) =>
  purgeAll([endedSessions(db, of, DAYS), oldLines(db, of), endedRuns(db, of, DAYS), endedDeployments(db, of, DAYS)], silentLog, signal)
const status = async (path: string) => (await cloud.fetch(path)).status
const count = async (table: string, where: string, id: string) =>
  Number((await cloud.query<{ count: string }>(`select count(*) from ${table} where ${where} = $1`, [id]))[0]!.count)

describe('sessions', () => {
  const ended = async (days: number): Promise<string> => {
    const { session_id: id } = await cloud.create()
    await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })
    await cloud.query('update browsers set deleted_at = now() - $2 * $3::interval where id = $1', [id, days, '1 day'])
    return id
  }
  const find = (id: string) => status(`/browsers/${id}?include_deleted=true`)

  test('that ended longer ago than the setting are not found any more, and their events are gone', async () => {
    const [old, recent] = [await ended(DAYS + 0.01), await ended(DAYS - 0.01)]
    expect([await find(old), await find(recent)]).toEqual([200, 200])
    await purge()
    expect([await find(old), await find(recent)]).toEqual([404, 200])
    expect([await count('browser_events', 'browser_id', old), await count('browser_events', 'browser_id', recent)]).toEqual([0, 5])
    const { session_id } = ((await (await cloud.fetch('/browsers?status=all')).json()) as { session_id: string }[]).find((one) => one.session_id === recent)!
    expect(session_id).toBe(recent)
  })

  test('that run are kept, however old they are, and those of other hosts, too', async () => {
    const { session_id: live } = await cloud.create()
    await cloud.query(`update browsers set created_at = now() - interval '1 year', made_at = now() - interval '1 year' where id = $1`, [live])
    const elsewhere = await ended(DAYS + 1)
    await cloud.query(`update browsers set scope = 'elsewhere' where id = $1`, [elsewhere])
    await purge()
    expect([await find(live), await count('browsers', 'id', elsewhere)]).toEqual([200, 1])
    await purge('elsewhere')
    expect([await find(live), await count('browsers', 'id', elsewhere)]).toEqual([200, 0])
  })

  test('with a replay are kept until the replay is removed', async () => {
    const id = await ended(DAYS + 1)
    await cloud.query(`insert into replays (id, state, browser_id, framerate, record_audio, object) values ('kept', 'ready', $1, 10, false, 'replays/kept')`, [
      id,
    ])
    await purge()
    expect([await find(id), await count('replays', 'browser_id', id)]).toEqual([200, 1])
    await cloud.query(`delete from replays where id = 'kept'`)
    await purge()
    expect(await find(id)).toBe(404)
  })
})

describe('apps', () => {
  const deployment = async (state: string, days: number | undefined, columns: { deleted?: number; secrets?: boolean } = {}): Promise<string> => {
    const id = newId()
    await sql`
      insert into deployments (id, project_id, scope, state, region, finished_at, deletion, deleted_at, secrets)
      values (${id}, ${DEFAULT_PROJECT}, ${host}, ${state}, 'aws.us-east-1a', now() - ${days ?? null}::float8 * interval '1 day', ${columns.deleted === undefined ? 'kept' : 'deleted'}, now() - ${columns.deleted ?? null}::float8 * interval '1 day',
        ${columns.secrets ? Buffer.alloc(1) : null})`.execute(db)
    await sql`insert into app_events (deployment_id, kind, state) values (${id}, 'state', ${state})`.execute(db)
    return id
  }
  const run = async (of: string, state: string, days: number | undefined): Promise<string> => {
    const id = newId()
    await sql`
      insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash, started_at, finished_at)
      values (${id}, ${DEFAULT_PROJECT}, ${state}, ${of}, 'app', 'latest', 'go', true, 100000000, 'x', '', now() - interval '1 year', now() - ${days ?? null}::float8 * interval '1 day')`.execute(
      db,
    )
    await appendEvents(db, of, id, [{ kind: 'log', line: 'a line' }])
    return id
  }
  const logBytes = async (id: string) => (await db.selectFrom('deployments').select('log_bytes').where('id', '=', id).executeTakeFirstOrThrow()).log_bytes

  test('runs that ended longer ago than the setting are gone with their events, and the size of the log is right', async () => {
    const app = await deployment('running', undefined, { secrets: true })
    const [old, failed, recent, running] = [
      await run(app, 'succeeded', DAYS + 0.01),
      await run(app, 'failed', DAYS + 0.01),
      await run(app, 'succeeded', DAYS - 0.01),
      await run(app, 'running', undefined),
    ]
    await purge()
    expect(await Promise.all([old, failed, recent, running].map((id) => status(`/invocations/${id}`)))).toEqual([404, 404, 200, 200])
    expect(await Promise.all([old, failed, recent, running].map((id) => count('app_events', 'invocation_id', id)))).toEqual([0, 0, 1, 1])
    expect([await status(`/deployments/${app}`), await logBytes(app)]).toEqual([200, 2 * ('a line'.length + LINE_BYTES)])
  })

  test('deployments that ended longer ago go when their last run has gone, and those that run, wait or are not cleaned up stay', async () => {
    const gone = [await deployment('stopped', DAYS + 1), await deployment('failed', DAYS + 1), await deployment('stopped', 8, { deleted: 7.01 })]
    const used = await deployment('stopped', DAYS + 1)
    await run(used, 'succeeded', DAYS - 1)
    const pointed = await deployment('stopped', DAYS + 1)
    await sql`insert into app_versions (id, app_name, version, deployment_id, actions) values (${newId()}, 'app', 'latest', ${pointed}, '[]')`.execute(db)
    const kept = [
      used,
      pointed,
      await deployment('running', undefined, { secrets: true }),
      await deployment('stopped', DAYS - 1),
      await deployment('failed', DAYS + 1, { secrets: true }),
      await deployment('stopped', 8, { deleted: 6.99 }),
    ]
    await purge()
    const rows = async (ids: string[]) =>
      Promise.all(ids.map(async (id) => [await count('deployments', 'id', id), await count('app_events', 'deployment_id', id)]))
    expect(await rows(gone)).toEqual(gone.map(() => [0, 0]))
    expect((await rows(kept)).map(([row]) => row)).toEqual(kept.map(() => 1))
  })

  test('lines that no reader can ask for are gone, and the size of the log is right', async () => {
    const app = await deployment('running', undefined, { secrets: true })
    const at = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
    await appendEvents(db, app, null, [
      { kind: 'log', line: 'old', at: at(169) },
      { kind: 'log', line: 'kept', at: at(167) },
    ])
    await purge()
    expect([await count('app_events', 'deployment_id', app), await logBytes(app)]).toEqual([2, 'kept'.length + LINE_BYTES])
  })
})

test('more than one batch is removed, a batch at a time, and none is begun after the signal', async () => {
  let left = 25
  const sizes: number[] = []
  const remove = async (limit: number) => {
    const removed = Math.min(limit, left)
    left -= removed
    sizes.push(removed)
    return removed
  }
  expect([await inBatches(10, signal, remove), sizes]).toEqual([25, [10, 10, 5]])
  left = 25
  const stopped = new AbortController()
  const removed = await inBatches(10, stopped.signal, (limit) => (stopped.abort(), remove(limit)))
  expect([removed, left]).toEqual([10, 15])
})

test('a purge that fails is logged and does not stop the next one', async () => {
  const logged: string[] = []
  const log: Log = { ...silentLog, error: (_, text) => void logged.push(text), info: (_, text) => void logged.push(text) }
  await purgeAll(
    [
      { what: 'things', run: () => Promise.reject(new Error('no database')) },
      { what: 'others', run: async () => 1 },
    ],
    log,
    signal,
  )
  expect(logged).toEqual(['old things could not be removed', 'removed old others'])
})
