// Migrations of a database that an earlier version has filled: nothing is lost, and everything has its new shape.
import { alone } from './leases.ts'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownPostgres } from '../../test/support/postgres.ts'
import { silentLog } from '../base/log.ts'
import { DEFAULT_PROJECT } from '../control/access/projects/resolve.ts'
import { takeOverReplays, unfinishedReplays } from '../control/sessions/replays/rows.ts'
import { connectDb, migratorOf, openDb, type Db } from './db.ts'

const scope = new AsyncDisposableStack()
let host: string
beforeAll(async () => {
  ;({ host } = await ownPostgres('migrations', scope))
})
afterAll(() => scope.disposeAsync())

/** A database as the version with `last` as its newest migration has left it after `fill`, opened by this version. */
async function opened(name: string, last: string, fill: (old: Db) => Promise<void>): Promise<Db> {
  const admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  try {
    await admin.query(`create database ${name}`)
  } finally {
    await admin.end()
  }
  const old = connectDb({ host, user: 'cob', database: name }, silentLog)
  try {
    const { error } = await migratorOf(old).migrateTo(last)
    if (error) throw error
    await fill(old)
  } finally {
    await old.destroy()
  }
  const db = await openDb({ host, user: 'cob', database: name }, silentLog)
  scope.defer(() => db.destroy())
  return db
}

test('keys of settings get the host that set them last, and other keys get none', async () => {
  const db = await opened('keys', '0005-ended-steps', async (old) => {
    await sql`insert into browsers (id, state, host, made_at) values ('b1', 'deleted', 'before', now() - interval '1 day'), ('b2', 'running', 'here', now())`.execute(
      old,
    )
    await sql`insert into deployments (id, state, region) values ('d1', 'running', 'aws.us-east-1a')`.execute(old)
    await sql`
      insert into api_keys (id, name, hash, masked, deployment_id) values
        ('k1', 'first key', decode('01', 'hex'), 'm', null), ('k2', 'COB_API_KEY', decode('02', 'hex'), 'm', null), ('k3', 'deployment d1', decode('03', 'hex'), 'm', 'd1')`.execute(
      old,
    )
  })
  expect(await db.selectFrom('api_keys').select(['id', 'scope', 'deleted_at']).orderBy('id').execute()).toEqual([
    { id: 'k1', scope: 'here', deleted_at: null },
    { id: 'k2', scope: 'here', deleted_at: null },
    { id: 'k3', scope: '', deleted_at: null },
  ])
})

test('keys of settings are known by their setting, and keys of deployments by none, whatever their names', async () => {
  const db = await opened('settings', '0014-projects', async (old) => {
    await sql`insert into deployments (id, state, scope, region) values ('d1', 'running', 'here', 'aws.us-east-1a')`.execute(old)
    await sql`
      insert into api_keys (id, name, hash, masked, scope, deployment_id) values
        ('k1', 'first key', decode('01', 'hex'), 'm', 'here', null), ('k2', 'COB_API_KEY', decode('02', 'hex'), 'm', '', null),
        ('k3', 'deployment d1', decode('03', 'hex'), 'm', '', 'd1')`.execute(old)
  })
  expect(await db.selectFrom('api_keys').select(['id', 'setting', 'expires_at', 'created_by']).orderBy('id').execute()).toEqual([
    { id: 'k1', setting: 'first key', expires_at: null, created_by: null },
    { id: 'k2', setting: 'COB_API_KEY', expires_at: null, created_by: null },
    { id: 'k3', setting: null, expires_at: null, created_by: null },
  ])
})

test('replays get the state that their times told, and its log', async () => {
  const db = await opened('replays', '0007-purge', async (old) => {
    await sql`insert into browsers (id, state, host) values ('b1', 'deleted', 'here')`.execute(old)
    const times = [
      ['r1', null, null, null],
      ['r2', '2026-01-01T00:00:01Z', null, null],
      ['r3', '2026-01-01T00:00:01Z', '2026-01-01T00:00:02Z', null],
      ['r4', '2026-01-01T00:00:01Z', '2026-01-01T00:00:02Z', '2026-01-01T00:00:03Z'],
    ]
    for (const [id, started, finished, ready] of times)
      await sql`
        insert into replays (id, browser_id, framerate, record_audio, object, made_at, started_at, finished_at, end_reason, ready_at)
        values (${id}, 'b1', 10, false, 'o', '2026-01-01', ${started}, ${finished}, case when ${finished}::text is not null then 'stopped' end, ${ready})`.execute(
        old,
      )
  })
  const states = await db.selectFrom('replays').select(['id', 'state']).orderBy('id').execute()
  expect(states.map(({ state }) => state)).toEqual(['starting', 'recording', 'finished', 'ready'])
  const events = await db.selectFrom('replay_events').select(['state', 'reason', 'at']).where('replay_id', '=', 'r4').orderBy('id').execute()
  expect(events.map(({ state, reason, at }) => [state, reason, at.toISOString().slice(17, 19)])).toEqual([
    ['starting', null, '00'],
    ['recording', null, '01'],
    ['finished', 'stopped', '02'],
    ['ready', null, '03'],
  ])
  expect(await db.selectFrom('replay_events').select('state').where('replay_id', '=', 'r2').orderBy('id').execute()).toHaveLength(2)
  await takeOverReplays(db, 'here', alone('me'))
  expect(await unfinishedReplays(db, 'here', alone('me'))).toHaveLength(3)
})

test('deleted deployments get the state of their deletion, and its log', async () => {
  const db = await opened('deletions', '0008-replay-states', async (old) => {
    await sql`
      insert into deployments (id, state, region, secrets, deleted_at) values
        ('d1', 'running', 'r', 'x', null), ('d2', 'running', 'r', 'x', now()), ('d3', 'stopped', 'r', 'x', now()), ('d4', 'failed', 'r', null, now()),
        ('d5', 'stopped', 'r', null, null)`.execute(old)
  })
  const rows = await db.selectFrom('deployments').select('deletion').orderBy('id').execute()
  expect(rows.map(({ deletion }) => deletion)).toEqual(['kept', 'deleting', 'deleting', 'deleted', 'kept'])
  const events = await db.selectFrom('app_events').select(['deployment_id', 'kind', 'state']).orderBy('id').execute()
  expect(events.map(({ deployment_id, kind, state }) => [deployment_id, kind, state])).toEqual([
    ['d2', 'deletion', 'deleting'],
    ['d3', 'deletion', 'deleting'],
    ['d4', 'deletion', 'deleting'],
    ['d4', 'deletion', 'deleted'],
  ])
})

test('names of projects that differ by case alone are kept apart, and no other is changed', async () => {
  const long = (letter: string) => letter + 'x'.repeat(254)
  const names = { p1: 'ÉÇ', p2: 'éÇ', p3: 'éç', p4: 'Other', p5: long('Ж'), p6: long('ж'), p7: 'EC' }
  const db = await opened('project_names', '0016-limits', async (old) => {
    for (const [id, name] of Object.entries(names)) await sql`insert into projects (id, name) values (${id}, ${name})`.execute(old)
  })
  const rows = await db.selectFrom('projects').select(['id', 'name']).where('id', '<>', DEFAULT_PROJECT).orderBy('id').execute()
  expect(Object.fromEntries(rows.map(({ id, name }) => [id, name]))).toEqual({
    p1: 'ÉÇ (p1)',
    p2: 'éÇ (p2)',
    p3: 'éç (p3)',
    p4: 'Other',
    p5: `${long('Ж').slice(0, 228)} (p5)`,
    p6: `${long('ж').slice(0, 228)} (p6)`,
    p7: 'EC',
  })
  await sql`insert into projects (id, name) values ('n1', 'ÇA')`.execute(db)
  await expect(sql`insert into projects (id, name) values ('n2', 'ça')`.execute(db)).rejects.toMatchObject({ constraint: 'projects_name' })
})

test('what callers have moves into the default project; keys of settings stay for all projects, and ready instances belong to none', async () => {
  const db = await opened('projects', '0013-ends', async (old) => {
    await sql`
      insert into browsers (id, state, scope, warm_kind, name, created_at, deleted_at) values
        ('b1', 'running', 'here', null, 'mine', now(), null), ('b2', 'deleted', 'here', null, 'mine', now(), now()), ('b3', 'warm', 'here', 'usual', null, null, null),
        ('b4', 'starting', 'here', null, null, null, null)`.execute(old)
    await sql`insert into deployments (id, state, scope, region) values ('d1', 'running', 'here', 'aws.us-east-1a')`.execute(old)
    await sql`insert into app_versions (id, app_name, version, deployment_id, actions) values ('v1', 'app', 'latest', 'd1', '[]')`.execute(old)
    await sql`
      insert into invocations (id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash)
      values ('i1', 'running', 'd1', 'app', 'latest', 'go', true, 9, 'k1', '')`.execute(old)
    await sql`
      insert into api_keys (id, name, hash, masked, scope, deployment_id) values
        ('k1', 'first key', decode('01', 'hex'), 'm', 'here', null), ('k2', 'deployment d1', decode('02', 'hex'), 'm', '', 'd1')`.execute(old)
  })
  const projects = async (table: 'browsers' | 'deployments' | 'app_versions' | 'invocations' | 'api_keys') =>
    (await db.selectFrom(table).select('project_id').orderBy('id').execute()).map(({ project_id }) => project_id)
  expect(await db.selectFrom('projects').select(['id', 'name', 'status']).execute()).toEqual([{ id: DEFAULT_PROJECT, name: 'Default', status: 'active' }])
  expect(await projects('browsers')).toEqual([DEFAULT_PROJECT, DEFAULT_PROJECT, null, DEFAULT_PROJECT])
  for (const table of ['deployments', 'app_versions', 'invocations'] as const) expect([table, await projects(table)]).toEqual([table, [DEFAULT_PROJECT]])
  expect(await projects('api_keys')).toEqual([null, DEFAULT_PROJECT])
})
