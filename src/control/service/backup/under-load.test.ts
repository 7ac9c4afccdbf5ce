// Backups while a service is used: a backup has everything that existed at its start, whatever is created and deleted meanwhile; a killed backup leaves
// nothing.
import { randomBytes } from 'node:crypto'
import { createWriteStream, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { callbackify } from 'node:util'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { extensionForm, extensionZip } from '../../../../test/support/extensions.ts'
import { run, serviceOn, start, type Env, type Running } from '../../../../test/support/filled-service.ts'
import { beforeRelease, ownPostgres } from '../../../../test/support/postgres.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { copyTemplate } from '../../../../test/support/template.ts'
import { readConfig } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { dataPaths } from '../../../base/paths.ts'
import { sleep, until } from '../../../base/wait.ts'
import { openConnection } from '../../../store/copy-database.ts'
import { connectDb } from '../../../store/db.ts'
import { holdObjects } from '../../../store/held-objects.ts'
import { objectsProblem } from '../doctor.ts'
import { objectOwners } from '../../modules.ts'
import { backup } from './backup.ts'
import { OBJECTS } from './format.ts'

const COMMANDS_MS = 180_000
const SOON_MS = 30_000

const scope = new AsyncDisposableStack()
let folder: string
let source: Running
let env: Env
const filesOf = () => readdirSync(join(source.paths.objects, 'extensions'))

beforeAll(async () => {
  folder = scratchDir('cob-load-')
  scope.defer(() => rmSync(folder, { recursive: true, force: true }))
  const dir = join(folder, 's')
  mkdirSync(dir)
  copyTemplate(dir)
  source = scope.use(await serviceOn(dir, { COB_MAX_BROWSERS: '50' }))
  env = { COB_DATA_DIR: dir }
}, COMMANDS_MS)
afterAll(() => scope.disposeAsync())

const addExtension = async (name: string, noise = 30_000): Promise<Buffer> => {
  const bytes = extensionZip({ 'noise.txt': randomBytes(noise).toString('hex') })
  expect((await source.fetch('/extensions', { method: 'POST', body: extensionForm(bytes, name) })).status).toBe(201)
  return bytes
}
const removeExtension = async (name: string) => expect((await source.fetch(`/extensions/${name}`, { method: 'DELETE' })).status).toBe(204)

/** A session with a recording of some length. */
async function record(): Promise<{ session: string; replay: string }> {
  const { session_id: session } = await source.create({})
  const { replay_id: replay } = (await (await source.send('POST', `/browsers/${session}/replays`, {})).json()) as { replay_id: string }
  await sleep(100)
  await source.fetch(`/browsers/${session}/replays/${replay}/stop`, { method: 'POST' })
  return { session, replay }
}

async function film({ fetch }: Running, { session, replay }: { session: string; replay: string }): Promise<Buffer> {
  return until(
    'the film',
    SOON_MS,
    async () => {
      const answer = await fetch(`/browsers/${session}/replays/${replay}`)
      const bytes = Buffer.from(await answer.arrayBuffer())
      return answer.status === 200 ? bytes : undefined
    },
    { everyMs: 50 },
  )
}

let n = 0
/** Uses the service until disposed: creates and deletes extensions, sessions and recordings. */
function load(kept: Map<string, Buffer>): AsyncDisposable & { failure(): unknown } {
  const stop = new AbortController()
  let failure: unknown
  const loop = async (work: () => Promise<unknown>) => {
    while (!stop.signal.aborted) await work().catch((error: unknown) => ((failure ??= error), stop.abort(error)))
  }
  const loops = [
    loop(async () => {
      const name = `passing-${++n}`
      await addExtension(name)
      await removeExtension(name)
      await sleep(50)
    }),
    loop(async () => {
      const name = `kept-${++n}`
      kept.set(name, await addExtension(name))
      await sleep(50)
    }),
    loop(async () => {
      const { session } = await record()
      await source.fetch(`/browsers/${session}`, { method: 'DELETE' })
    }),
  ]
  return {
    failure: () => failure,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await Promise.all(loops)
    },
  }
}

test(
  'what was there when a backup began is in it, although the service is used; recordings that are not stored yet play as well',
  async () => {
    const [done, running] = [await record(), await source.create({ timeout_seconds: 3600 })]
    const whole = await film(source, done)
    const id = running.session_id
    const { replay_id: open } = (await (await source.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }
    // Wait until the recording is in the spool, with some pictures.
    await until('the recording in the spool', SOON_MS, async () => existsSync(join(source.paths.spool, open)), { everyMs: 20 })
    await sleep(1_000)
    const kept = new Map<string, Buffer>()
    const file = join(folder, 'load.tar')
    let before: Map<string, Buffer>
    {
      await using work = load(kept)
      await until('some work', SOON_MS, async () => kept.size > 5, { everyMs: 20 })
      before = new Map(kept)
      const { code, err } = await run([file, '--with-keys'], env, 'backup')
      expect([code, err]).toEqual([0, expect.not.stringContaining('gone before')])
      expect(work.failure()).toBeUndefined()
    }
    const dir = join(folder, 'r')
    const restored = await run([file], { COB_DATA_DIR: dir }, 'restore')
    expect([restored.code, restored.err]).toEqual([0, expect.any(String)])
    await using service = await serviceOn(dir)
    for (const [name, bytes] of before) {
      const answer = await service.fetch(`/extensions/${name}`)
      expect([name, answer.status, Buffer.from(await answer.arrayBuffer()).equals(bytes)]).toEqual([name, 200, true])
    }
    expect((await film(service, done)).equals(whole)).toBe(true)
    // The recording that was in progress is restored as far as the backup has it. It has ended, with its session.
    expect((await film(service, { session: id, replay: open })).length).toBeGreaterThan(1_000)
    expect((await source.fetch(`/browsers/${id}`)).status).toBe(200)
    expect(await objectsProblem(readConfig({ COB_DATA_DIR: dir }))).toBeUndefined()
  },
  COMMANDS_MS,
)

/** A command that was killed at any moment has left no file under its name, or the whole file: it may have renamed it just before. */
async function expectNothingOrAll(file: string, code: number | null): Promise<void> {
  if (!existsSync(file)) expect(code).not.toBe(0)
  else expect(await run([file], { COB_DATA_DIR: scratchDir('cob-r-') }, 'restore')).toMatchObject({ code: 0 })
}

test(
  'one that is killed leaves no part of a file under its name, and nothing in the way of the next',
  async () => {
    const kept = new Map<string, Buffer>()
    await using work = load(kept)
    const began = performance.now()
    expect(await run([join(folder, 'first.tar'), '--with-keys'], env, 'backup')).toMatchObject({ code: 0 })
    const wholeMs = performance.now() - began
    for (let round = 1; round <= 3; round++) {
      const file = join(folder, `killed-${round}.tar`)
      const { child, ended } = start([file, '--with-keys'], env, 'backup')
      await sleep((wholeMs * round) / 4)
      child.kill('SIGKILL')
      const { code } = await ended
      await expectNothingOrAll(file, code)
      if (!existsSync(file)) expect(await run([file], env, 'backup')).toMatchObject({ code: 0 })
      expect(existsSync(`${file}.part`)).toBe(false)
    }
    const file = join(folder, 'ended.tar')
    const { child, ended } = start([file, '--with-keys'], env, 'backup')
    await sleep(wholeMs * 0.7)
    child.kill('SIGTERM')
    await expectNothingOrAll(file, (await ended).code)
    expect(existsSync(`${file}.part`)).toBe(false)
    expect(work.failure()).toBeUndefined()
  },
  COMMANDS_MS,
)

test('while one runs, no object is removed and no second one begins', { timeout: COMMANDS_MS }, async () => {
  const address = { host: source.paths.postgresSocket, user: 'cob', database: 'postgres' }
  const files = filesOf().length
  await addExtension('held')
  {
    await using holding = await openConnection(address, AbortSignal.timeout(SOON_MS))
    await holdObjects(holding.client)
    await removeExtension('held')
    expect(filesOf().length).toBe(files + 1)
    const second = await run([join(folder, 'second.tar')], env, 'backup')
    expect(second).toMatchObject({ code: 1, err: expect.stringContaining('another backup of this database runs') as string })
  }
  await addExtension('free')
  await removeExtension('free')
  expect(filesOf().length).toBe(files + 1)
})

test('one that has lost its hold on the objects is not called whole', { timeout: COMMANDS_MS }, async () => {
  const address = { host: source.paths.postgresSocket, user: 'cob', database: 'postgres' }
  // More data than fits into the buffers between the backup and its output.
  await addExtension('kept', 4_000_000)
  const db = connectDb(address, silentLog)
  let isBroken = false
  // Simulates a restart of Postgres while objects are copied, which may take hours.
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (isBroken || !chunk.includes(OBJECTS)) return done()
      isBroken = true
      callbackify(() => sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cob backup'`.execute(db))(done)
    },
  })
  const settings = {
    config: readConfig({ COB_DATA_DIR: source.paths.root }),
    paths: source.paths,
    db,
    address,
    output,
    objectOwners,
    withKeys: false,
    tell: () => {},
  }
  await expect(backup({ ...settings, signal: AbortSignal.timeout(COMMANDS_MS) })).rejects.toThrow('broke while objects were copied')
  expect(isBroken).toBe(true)
  await db.destroy()
})

test(
  'one with the migrations of before the first release is brought up to this version; one with fewer, or of a newer version, is refused',
  async () => {
    const { address } = await ownPostgres('older', scope)
    await using opened = new AsyncDisposableStack()
    const db = connectDb(address, silentLog)
    opened.defer(() => db.destroy())
    const dir = join(folder, 'o')
    const config = readConfig({ COB_DATA_DIR: dir, COB_SCOPE: 'older' })
    const settings = { config, paths: dataPaths(dir), db, address, objectOwners, withKeys: false, tell: () => {}, signal: AbortSignal.timeout(COMMANDS_MS) }
    const make = async (name: string) => {
      await backup({ ...settings, output: createWriteStream(join(folder, name)) })
      return join(folder, name)
    }
    await beforeRelease(db, '0038-build-sandboxes')
    await db.insertInto('projects').values({ id: newId(), name: 'from before' }).execute()
    const whole = await make('before.tar')
    const restored = await run([whole], { COB_DATA_DIR: join(folder, 'n') }, 'restore')
    expect([restored.code, restored.err]).toEqual([0, expect.any(String)])
    await using service = await serviceOn(join(folder, 'n'))
    expect(await (await service.fetch('/org/projects')).text()).toContain('from before')

    await sql`insert into kysely_migration values ('9999-of-the-future', '2030-01-01T00:00:00.000Z')`.execute(db)
    const newer = await make('newer.tar')
    await beforeRelease(db, '0037-oauth')
    const older = await make('older.tar')
    for (const [file, why] of [
      [newer, 'whose database has a newer form than this version knows'],
      [older, 'the backup is of a version before the first release (its last migration is 0037-oauth)'],
    ] as const) {
      const refused = await run([file], { COB_DATA_DIR: join(folder, 'x') }, 'restore')
      expect(refused).toMatchObject({ code: 1, err: expect.stringContaining(why) as string })
      expect([existsSync(join(folder, 'x')), readFileSync(file).length > 0]).toEqual([false, true])
    }
  },
  COMMANDS_MS,
)
