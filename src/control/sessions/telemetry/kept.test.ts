// Stored telemetry: it is merged into objects, deleted by callers, and removed when it is old; also with pools and several replicas.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FastCloud } from '../../../../test/support/fast-cloud.ts'
import { twoReplicas } from '../../../../test/support/two-replicas.ts'
import { allOf, emit, EVERYTHING, say, texts } from '../../../../test/support/kept-telemetry.ts'
import { all, archiving, cloud, create, end, numbers, page, rows, stored, STORED_MS } from '../../../../test/support/telemetry-archive.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { until } from '../../../base/wait.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import type { Objects } from '../../../store/objects.ts'
import { findMissing, removeUnnamed } from '../../../store/sweep.ts'
import { endedSessions } from '../browsers/purge.ts'
import { removeArrived } from './export/rows.ts'
import { mergeSession } from './merge.ts'
import { oldTelemetry } from './purge.ts'
import { positionOf, telemetryObjects } from './rows.ts'

const { signal } = new AbortController()
const DAYS = 30

archiving()
let db: Db
let objects: Objects
let scope: string
beforeAll(async () => {
  db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  objects = fileObjects(cloud.paths.objects)
  const id = await create()
  scope = (await cloud.query<{ scope: string }>('select scope from browsers where id = $1', [id]))[0]!.scope
  await end(id)
})
afterAll(() => db.destroy())

const merged = (id: string) =>
  until('a merge', STORED_MS, async () => (await rows(id)).length > 0 && (await rows(id)).every((row) => row.scope !== null), { everyMs: 20 })
/** Random texts, which do not compress. */
const large = (paths: FastCloud['paths'], id: string, count: number) =>
  emit(
    paths,
    id,
    ...Array.from({ length: count }, (): ['network_response', Record<string, unknown>] => [
      'network_response',
      { body: Array.from({ length: 200 }, newId).join('') },
    ]),
  )
const keys = async () => {
  const found: string[] = []
  for await (const { key } of objects.list('telemetry', signal)) found.push(key)
  return found
}

describe('a merge', () => {
  test('of an ended session makes few objects that rows name, and readers find all; the sweep keeps them', async () => {
    const id = await create()
    for (let at = 0; at < 4; at++) {
      await large(cloud.paths, id, 30)
      await say(cloud.paths, id, at, 1)
      await stored(id, 31 * (at + 1))
    }
    const before = await all(id)
    expect((await rows(id)).length).toBeGreaterThan(3)
    await end(id)
    await merged(id)
    const after = await rows(id)
    expect([after.length, after[0]!.events, typeof after[0]!.object]).toEqual([1, 124, 'string'])
    expect([await all(id), texts(await all(id, 'since=1h&type=console_log&limit=3'))]).toEqual([before, numbers(4)])
    const owners = [telemetryObjects(db, scope)]
    const [past, future] = [new Date(Date.now() - 3600_000), new Date(Date.now() + 3600_000)]
    expect([await findMissing(objects, owners, signal), (await removeUnnamed(objects, owners, { after: past, before: future }, signal)).removed]).toEqual([
      [],
      [],
    ])
    await cloud.query('delete from telemetry_segments where session_id = $1', [id])
    expect((await removeUnnamed(objects, owners, { after: past, before: future }, signal)).removed).toEqual([after[0]!.object])
  })

  test('of a live session leaves what comes later, and nothing is read twice', async () => {
    const id = await create()
    for (let at = 0; at < 5; at++) {
      await say(cloud.paths, id, at, 1)
      await stored(id, at + 1)
    }
    await mergeSession({ db, objects, scope }, id, signal)
    expect((await rows(id)).length).toBe(1)
    await say(cloud.paths, id, 5, 3)
    await stored(id, 8)
    expect([texts(await all(id)), texts(await all(id, 'order=desc&limit=3'))]).toEqual([numbers(8), numbers(8).toReversed()])
    await end(id)
    await merged(id)
    expect(texts(await all(id))).toEqual(numbers(8))
  })

  test.each(['put', 'row'] as const)('that is broken off before its %s leaves all as it was; the next one does it', async (what) => {
    const id = await create()
    await large(cloud.paths, id, 40)
    await stored(id, 20)
    await large(cloud.paths, id, 10)
    await stored(id, 50)
    const before = await all(id)
    const failing = new Error('killed')
    const put: Objects['put'] = async (...args) => {
      if (what === 'row') {
        await objects.put(...args)
        // This looks as if the runs were deleted meanwhile.
        await cloud.query('update telemetry_segments set last_seq = last_seq + 1000 where session_id = $1 and first_seq = 1', [id])
        return { bytes: 0, sha256: '' }
      }
      throw failing
    }
    const known = await keys()
    const attempt = mergeSession({ db, objects: { ...objects, put }, scope }, id, signal)
    if (what === 'put') await expect(attempt).rejects.toBe(failing)
    else await attempt
    await cloud.query('update telemetry_segments set last_seq = last_seq - 1000 where session_id = $1 and last_seq > 1000', [id])
    expect([await all(id), await keys()]).toEqual([before, known])
    await end(id)
    await merged(id)
    expect(await all(id)).toEqual(before)
  })

  test('keeps what is stored for callers apart from what is only on its way: that is not listed, and removed when it has arrived', async () => {
    const id = await create()
    for (let at = 0; at < 3; at++) {
      await say(cloud.paths, id, 4 * at, 4)
      await stored(id, 4 * (at + 1))
    }
    const times = (await all(id)).map(({ event }) => event.ts)
    const destination = newId()
    await cloud.query(`insert into telemetry_destinations (id, name, endpoint, header_names) values ($1, $1, 'http://127.0.0.1:9', '{}')`, [destination])
    // The time ranges begin and end within runs, and one covers a whole run.
    for (const [from, until] of [
      [2, 6],
      [7, 11],
    ])
      await cloud.query(
        `insert into telemetry_exports (session_id, destination_id, from_ts, until_ts, is_kept, last_seq, finished_at) values ($1, $2, $3, $4, false, 12, now())`,
        [id, destination, times[from!], times[until!]],
      )
    const kept = ['line 0', 'line 1', 'line 6', 'line 11']
    expect(texts(await all(id))).toEqual(kept)
    await end(id)
    await merged(id)
    expect([texts(await all(id)), texts(await all(id, 'order=desc&limit=3'))]).toEqual([kept, kept.toReversed()])
    await until('its removal', STORED_MS, async () => {
      await removeArrived(db, scope)
      return (await rows(id)).reduce((sum, { events }) => sum + events, 0) === 4
    })
    expect(texts(await all(id))).toEqual(kept)
    await cloud.query('delete from telemetry_destinations where id = $1', [destination])
    expect(texts(await all(id))).toEqual(kept)
  })

  test('whose object is gone is told as an error, not as an empty archive', async () => {
    const id = await create()
    await large(cloud.paths, id, 30)
    await end(id)
    await merged(id)
    await objects.delete((await rows(id))[0]!.object!)
    expect((await page(id)).status).toBe(500)
    expect(await findMissing(objects, [telemetryObjects(db, scope)], signal)).toHaveLength(1)
    await cloud.query('delete from telemetry_segments where session_id = $1', [id])
  })
})

describe('a deletion', () => {
  test('of an ended session removes its rows and objects; the session is still found', async () => {
    const id = await create()
    await large(cloud.paths, id, 30)
    await end(id)
    await merged(id)
    const object = (await rows(id))[0]!.object!
    expect((await cloud.fetch(`/browsers/${id}/telemetry`, { method: 'DELETE' })).status).toBe(204)
    expect([await all(id), await rows(id), await objects.get(object)]).toEqual([[], [], undefined])
    expect((await cloud.fetch(`/browsers/${id}/telemetry`, { method: 'DELETE' })).status).toBe(204)
    expect((await cloud.fetch('/browsers/nonesuch/telemetry', { method: 'DELETE' })).status).toBe(404)
  })

  test('of a live session removes what there was; what follows is stored', async () => {
    const id = await create()
    await say(cloud.paths, id, 0, 10)
    await stored(id, 10)
    expect((await cloud.fetch(`/browsers/${id}/telemetry`, { method: 'DELETE' })).status).toBe(204)
    expect(await all(id)).toEqual([])
    await say(cloud.paths, id, 10, 2)
    await end(id)
    expect(texts(await all(id))).toEqual(numbers(2, 10))
  })

  test('of all that ended before a time leaves later ones, live ones and those of other projects', async () => {
    const [old, recent, live, other] = [await create(), await create(), await create(), await create()]
    for (const id of [old, recent, live, other]) await say(cloud.paths, id, 0, 2)
    for (const id of [old, recent, other]) await end(id)
    await stored(live, 2)
    const project = newId()
    await cloud.query('insert into projects (id, name) values ($1, $1)', [project])
    await cloud.query(`update browsers set deleted_at = now() - interval '2 hours' where id in ($1, $2)`, [old, other])
    await cloud.query('update browsers set project_id = $2 where id = $1', [other, project])
    const answer = await cloud.fetch('/telemetry?before=1h', { method: 'DELETE' })
    expect([answer.status, await answer.json()]).toEqual([200, { sessions: 1 }])
    expect([(await all(old)).length, (await all(recent)).length, (await all(live)).length]).toEqual([0, 2, 2])
    expect(await rows(other)).not.toEqual([])
    for (const bad of ['', '?before=', '?before=soon']) {
      const refused = await cloud.fetch(`/telemetry${bad}`, { method: 'DELETE' })
      expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('before')])
    }
    await end(live)
  })
})

test('what is older than its retention is removed, rows and objects; a session stays as long as its telemetry', async () => {
  const [old, recent, aged] = [await create(), await create(), await create()]
  for (const id of [old, recent]) await large(cloud.paths, id, 30)
  await say(cloud.paths, aged, 0, 3)
  for (const id of [old, recent, aged]) await end(id)
  for (const id of [old, recent, aged]) await merged(id)
  const object = (await rows(old))[0]!.object!
  const day = 24 * 3600 * 1_000_000
  await cloud.query('update telemetry_segments set last_ts = last_ts - $3::bigint where session_id in ($1, $2)', [old, aged, DAYS * day + 60_000_000])
  await cloud.query('update telemetry_segments set last_ts = last_ts - $2::bigint where session_id = $1', [recent, DAYS * day - 600_000_000])
  await cloud.query(`update browsers set deleted_at = now() - interval '90 days' where id in ($1, $2, $3)`, [old, recent, aged])
  await endedSessions(db, scope, DAYS).run(signal)
  expect((await rows(old)).length + (await rows(recent)).length).toBe(2)
  expect(await oldTelemetry({ db, objects }, scope, DAYS).run(signal)).toBe(2)
  expect([await rows(old), await rows(aged), (await rows(recent)).length, await objects.get(object)]).toEqual([[], [], 1, undefined])
  await endedSessions(db, scope, DAYS).run(signal)
  expect([(await page(old)).status, (await page(recent)).status]).toEqual([404, 200])
})

test('the last run of a session that lives stays, however old: it says up to where it was stored', async () => {
  const id = await create()
  for (let at = 0; at < 2; at++) {
    await say(cloud.paths, id, at, 1)
    await stored(id, at + 1)
  }
  await cloud.query('update telemetry_segments set last_ts = 5 where session_id = $1', [id])
  await oldTelemetry({ db, objects }, scope, DAYS).run(signal)
  expect((await positionOf(db, id))!.seq).toBe(2)
  expect(await rows(id)).toHaveLength(1)
  await end(id)
  await until('its removal', STORED_MS, async () => {
    await cloud.query('update telemetry_segments set last_ts = 5 where session_id = $1', [id])
    await oldTelemetry({ db, objects }, scope, DAYS).run(signal)
    return (await rows(id)).length === 0
  })
})

test('a session whose instance crashes has its events, and is told to lack the last', async () => {
  const id = await create()
  await say(cloud.paths, id, 0, 5)
  await stored(id, 5)
  const instance = await fakeDriver(cloud.paths).adopt(id)
  await instance![Symbol.asyncDispose]()
  await until('its end', STORED_MS, async () => (await cloud.fetch(`/browsers/${id}`)).status === 404, { everyMs: 20 })
  const events = await all(id)
  expect([texts(events), events.at(-1)!.event]).toEqual([
    numbers(5),
    { type: 'monitor_events_lost', category: 'monitor', ts: expect.any(Number), source: { kind: 'kernel_api' }, data: { reason: 'instance_ended' } },
  ])
})

test('a browser of a pool has what its callers capture, by its id, and nothing while it waits', async () => {
  const { id: pool } = (await (await cloud.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
  const acquire = async (telemetry?: object) => {
    const answer = await cloud.send('POST', `/browser_pools/${pool}/acquire`, { telemetry, acquire_timeout_seconds: 30 })
    return ((await answer.json()) as { session_id: string }).session_id
  }
  const release = async (id: string) => expect((await cloud.send('POST', `/browser_pools/${pool}/release`, { session_id: id, reuse: true })).status).toBe(204)
  const id = await acquire(EVERYTHING)
  await say(cloud.paths, id, 0, 3)
  await release(id)
  await stored(id, 3)
  await say(cloud.paths, id, 3, 1)
  expect(await acquire()).toBe(id)
  await say(cloud.paths, id, 4, 1)
  await release(id)
  expect(await acquire(EVERYTHING)).toBe(id)
  await say(cloud.paths, id, 5, 1)
  await release(id)
  await stored(id, 4)
  expect(texts(await all(id))).toEqual(['line 0', 'line 1', 'line 2', 'line 5'])
  await cloud.send('DELETE', `/browser_pools/${pool}`, { force: true })
  await until(
    'the end of the pool',
    STORED_MS,
    async () => (await cloud.query(`select from browsers where pool_id = $1 and state <> 'deleted'`, [pool])).length === 0,
  )
  expect(texts(await all(id))).toEqual(['line 0', 'line 1', 'line 2', 'line 5'])
})

test('figures count what is stored and what is lost', async () => {
  const figure = async (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(await (await cloud.fetch('/metrics')).text())![1])
  const before = [await figure('cob_telemetry_events_stored_total'), await figure('cob_telemetry_bytes_stored_total')]
  const id = await create()
  await say(cloud.paths, id, 0, 5)
  await stored(id, 5)
  expect(await figure('cob_telemetry_events_stored_total')).toBe(before[0]! + 5)
  expect(await figure('cob_telemetry_bytes_stored_total')).toBeGreaterThan(before[1]! + 50)
  expect([await figure('cob_telemetry_sessions'), await figure('cob_telemetry_lag_seconds'), await figure('cob_telemetry_events_lost_total')]).toEqual([
    1, 0, 0,
  ])
  await end(id)
  expect(await figure('cob_telemetry_sessions')).toBe(0)
})

describe('two replicas', { timeout: 60_000 }, () => {
  const { shared, one, two, another } = twoReplicas({}, { overTls: false })

  const count = async (id: string) =>
    Number((await shared.query<{ sum: string }>('select sum(events) from telemetry_segments where session_id = $1', [id]))[0]!.sum)
  const reaches = (id: string, events: number) => until('events in the archive', STORED_MS, async () => (await count(id)) >= events, { everyMs: 20 })

  test('any of them turns telemetry on, reads it and ends the session; the one that watches it stores it', async () => {
    const { session_id: id } = await one.create()
    expect((await two.send('PATCH', `/browsers/${id}`, { telemetry: EVERYTHING })).status).toBe(200)
    await say(shared.paths, id, 0, 5)
    await reaches(id, 5)
    await say(shared.paths, id, 5, 5)
    expect((await two.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
    for (const replica of [one, two]) expect(texts(await allOf(replica.fetch, id))).toEqual(numbers(10))
  })

  test('a replica that takes a session over goes on with its telemetry', async () => {
    const third = await another()
    const { session_id: id } = await third.create({ telemetry: EVERYTHING, timeout_seconds: 600 })
    await say(shared.paths, id, 0, 5)
    await reaches(id, 5)
    await third.stop()
    await say(shared.paths, id, 5, 5)
    await reaches(id, 10)
    expect((await one.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
    expect(texts(await allOf(two.fetch, id))).toEqual(numbers(10))
  })
})
