// A service that is killed while a recording becomes a video: the next one finishes it, and what is left over is removed later.
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { until, within } from '../../../base/wait.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { alone } from '../../../store/leases.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import type { Objects } from '../../../store/objects.ts'
import { makeSpool, type Spool } from '../../../store/spool.ts'
import { findMissing, removeUnnamed } from '../../../store/sweep.ts'
import { FILMS_AT_ONCE, Recordings } from './recordings.ts'
import { findReplay, replayObjects, type ReplayRow } from './rows.ts'
import { videoOf } from './video.ts'

const NOTICE_MS = 20_000
const HOUR_MS = 3600_000
const { signal } = new AbortController()

let cloud: FastCloud
let db: Db
let dir: string
/** The bytes of a recording as the spool has them at its end. */
let recorded: Buffer
beforeAll(async () => {
  cloud = await startFastCloud()
  db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  dir = mkdtempSync(join(tmpdir(), 'cob-replays-'))
  const { session_id: id } = await cloud.create()
  const { replay_id } = (await (await cloud.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }
  const row = () => db.selectFrom('replays').selectAll().where('id', '=', replay_id).executeTakeFirstOrThrow()
  const spool = makeSpool(cloud.paths.spool)
  const bytes = async () => buffer((await spool.read(replay_id)) ?? Readable.from([]))
  await until('some pictures', NOTICE_MS, async () => (await bytes()).length > 1_000, { everyMs: 50 })
  await cloud.fetch(`/browsers/${id}/replays/${replay_id}/stop`, { method: 'POST' })
  await until('the video', NOTICE_MS, async () => (await row()).state === 'ready', { everyMs: 20 })
  recorded = await buffer((await fileObjects(cloud.paths.objects).get((await row()).object))!.content)
  await cloud.query(
    `insert into browsers (id, scope, state, deleted_at, options, project_id) select 'ended', 'elsewhere', 'deleted', now(), options, project_id from browsers where id = $1`,
    [id],
  )
})
afterAll(async () => {
  await db.destroy()
  await cloud[Symbol.asyncDispose]()
  rmSync(dir, { recursive: true, force: true })
})

function service(objects: Objects, spool: Spool, others: { freshMs?: number } = {}): Recordings {
  return new Recordings({ ...others, db, objects, spool, scope: 'elsewhere', leases: alone(newId()), log: silentLog, endpointOf: () => undefined })
}

/** A recording that an earlier service has fetched to its end; its session has ended, too. */
async function leftBehind(spool: Spool): Promise<string> {
  const id = newId()
  await cloud.query(
    `insert into replays (id, state, browser_id, object, framerate, record_audio, started_at) values ($1, 'recording', 'ended', $2, 10, false, now() - interval '1 minute')`,
    [id, `replays/${id}`],
  )
  await spool.append(id, 0, recorded)
  return id
}

const becomesVideo = (id: string): Promise<ReplayRow> =>
  until('the video', NOTICE_MS, async () => findReplay(db, 'elsewhere', id).then((row) => (row?.state === 'ready' ? row : undefined)), { everyMs: 20 })

/** The calls by which a recording becomes a video, in their order. A killed service dies before or after one of them. */
const CALLS = ['putFile', 'put', 'remove'] as const
const DEATHS = CALLS.flatMap((call) => [
  { call, when: 'before' as const },
  { call, when: 'after' as const },
])

test.each(DEATHS)('killed $when $call: the next start makes the video, and one video is left', async ({ call, when }) => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const id = await leftBehind(spool)

  // A service that is dead does nothing any more: its calls do not come back.
  const [reached, buried] = [Promise.withResolvers<void>(), Promise.withResolvers<never>()]
  buried.promise.catch(() => {})
  const dying = <A extends unknown[], R>(name: (typeof CALLS)[number], work: (...args: A) => Promise<R>) =>
    name !== call
      ? work
      : async (...args: A): Promise<R> => {
          if (when === 'after') await work(...args)
          reached.resolve()
          return buried.promise
        }
  const killed = service(
    { ...objects, put: dying('put', objects.put), putFile: dying('putFile', objects.putFile) },
    { ...spool, remove: dying('remove', spool.remove) },
  )
  await killed.adopt()
  await within('the death', NOTICE_MS, reached.promise)

  await using next = service(objects, spool)
  await next.adopt()
  const row = await becomesVideo(id)
  const { body } = await videoOf(objects, row, undefined)
  const video = await buffer(body as Readable)
  expect([video.toString('latin1', 4, 8), video.length]).toEqual(['ftyp', row.head_bytes + row.bytes])
  expect(video.subarray(row.head_bytes).equals(recorded.subarray(0, row.bytes))).toBe(true)
  await until('an empty spool', NOTICE_MS, async () => (await spool.list()).length === 0)

  await removeUnnamed(objects, [replayObjects(db, 'any')], { after: new Date(0), before: new Date(Date.now() + HOUR_MS) }, signal)
  const left = readdirSync(join(dir, 'objects/replays')).filter((name) => name.startsWith(id))
  expect(left.map((name) => `replays/${name}`).toSorted()).toEqual([row.object, `${row.object}.head`])
  expect(await findMissing(objects, [replayObjects(db, 'elsewhere')], signal)).toEqual([])

  // It tries nothing again.
  for (const transfer of killed.transfers()) transfer.quit()
  buried.reject(new Error('buried'))
  await killed[Symbol.asyncDispose]()
  // The dead one changed nothing afterwards.
  expect((await findReplay(db, 'elsewhere', id))!.object).toBe(row.object)
})

test('while the object store is away, recordings that have ended hold nothing in memory: each is read from the spool when it is its turn', async () => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const ids = await Promise.all(Array.from({ length: 3 * FILMS_AT_ONCE }, () => leftBehind(spool)))
  const reads = new Map<string, number>()
  let [isAway, atOnce, most, finished] = [true, 0, 0, 0]
  let [reading, mostRead] = [0, 0]
  const read: Spool['read'] = async (name) => {
    reads.set(name, (reads.get(name) ?? 0) + 1)
    const bytes = await spool.read(name)
    mostRead = Math.max(mostRead, ++reading)
    bytes?.once('close', () => reading--)
    return bytes
  }
  const back = Promise.withResolvers<void>()
  await using recordings = service(
    {
      ...objects,
      async putFile(key, path, ended) {
        most = Math.max(most, ++atOnce)
        try {
          // First it does not answer, then it refuses.
          if (isAway) await back.promise
          if (isAway) throw new Error('the bucket is away')
          await objects.putFile(key, path, ended)
        } finally {
          atOnce--
        }
      },
    },
    { ...spool, read },
  )
  await recordings.adopt()
  const countFinished = async () =>
    (finished = (await db.selectFrom('replays').select('id').where('id', 'in', ids).where('state', '=', 'finished').execute()).length)
  await until('all to wait', NOTICE_MS, async () => (await countFinished()) === ids.length && atOnce === FILMS_AT_ONCE, { everyMs: 20 })
  back.resolve()
  await until('a refusal', NOTICE_MS, () => Math.max(...reads.values()) > 2, { everyMs: 20 })
  isAway = false
  for (const id of ids) {
    const row = await becomesVideo(id)
    const { body } = await videoOf(objects, row, undefined)
    expect((await buffer(body as Readable)).subarray(row.head_bytes).equals(recorded.subarray(0, row.bytes))).toBe(true)
  }
  expect([most, finished]).toEqual([FILMS_AT_ONCE, ids.length])
  // Those to be continued, and those to be stored.
  expect(mostRead).toBeLessThanOrEqual(2 * FILMS_AT_ONCE)
  // Once by the service that began, and again by all that had to wait for their turn.
  expect([...reads.values()].filter((times) => times > 1).length).toBeGreaterThanOrEqual(ids.length - FILMS_AT_ONCE)
})

test('of the spool, only recordings that are ready are removed at a start: others may be of another database', async () => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const id = await leftBehind(spool)
  await using one = service(objects, spool)
  await one.adopt()
  await becomesVideo(id)
  await until('an empty spool', NOTICE_MS, async () => (await spool.list()).length === 0)
  await spool.append(id, 0, Buffer.from('left'))
  await spool.append('unknown', 0, Buffer.from('of another database'))
  mkdirSync(join(dir, 'spool', 'lost+found'), { recursive: true })
  await using next = service(objects, spool)
  await next.adopt()
  expect(await spool.list()).toEqual(['unknown'])
  await spool.remove('unknown')
})

test('a recording that waits for its row for long is stored again, so that no sweep removes its objects before', async () => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const id = await leftBehind(spool)
  await cloud.query(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$`)
  await cloud.query(`create trigger refuse before update on replays for each row when (new.state = 'ready') execute function refuse()`)
  const made = () => readdirSync(join(dir, 'objects/replays')).filter((name) => name.startsWith(id) && name.endsWith('.head'))
  await using one = service(objects, spool, { freshMs: 0 })
  try {
    await one.adopt()
    await until('a second attempt', NOTICE_MS, () => made().length > 1, { everyMs: 20 })
  } finally {
    await cloud.query('drop trigger refuse on replays')
    await cloud.query('drop function refuse')
  }
  const { object } = await becomesVideo(id)
  await until('an empty spool', NOTICE_MS, async () => (await spool.list()).length === 0)
  expect(made()).toContain(`${object.slice('replays/'.length)}.head`)
  expect(await findMissing(objects, [replayObjects(db, 'elsewhere')], signal)).toEqual([])
})

test('a recording that is found while the service stops is left to the next one', async () => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const id = await leftBehind(spool)
  const stopping = service(objects, spool)
  await stopping[Symbol.asyncDispose]()
  await stopping.adopt()
  await until('it to be left', NOTICE_MS, () => stopping.transfers().length === 0)
  expect((await findReplay(db, 'elsewhere', id))?.state).toBe('recording')
  await using next = service(objects, spool)
  await next.adopt()
  await becomesVideo(id)
})

test('a recording that was dropped, is fetched by another replica, or is a video by now takes no place of its session', async () => {
  const [objects, spool] = [fileObjects(join(dir, 'objects')), makeSpool(join(dir, 'spool'))]
  const id = await leftBehind(spool)
  await using recordings = service(objects, spool)
  await recordings.adopt()
  await becomesVideo(id)
  await until('the end of its transfer', NOTICE_MS, () => recordings.transfers().length === 0)
  const ids = Array.from({ length: 8 }, () => newId())
  for (const one of ids) recordings.begin(one, 'ended')
  const next = () => recordings.begin(newId(), 'ended')
  expect(next).toThrow('8 recordings')
  await recordings.drop(ids[0]!, undefined)
  next()
  recordings.leave(ids[1]!)
  next()
  expect(next).toThrow('8 recordings')
})
