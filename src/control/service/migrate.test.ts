// `cob migrate`, against real databases and a server that speaks S3: a service goes on elsewhere with all it had, whenever the command was killed.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { bucketOf, CANARY, expectAll, fill, run, serviceOn, start, type Filled } from '../../../test/support/migrating.ts'
import { ownPostgres } from '../../../test/support/postgres.ts'
import { s3Server, type S3Server } from '../../../test/support/s3.ts'
import { scratchDir } from '../../../test/support/scratch.ts'
import { copyTemplate } from '../../../test/support/template.ts'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { dataPaths, type DataPaths } from '../../base/paths.ts'
import { until } from '../../base/wait.ts'
import { postgresRuns, startPostgres } from '../../store/embedded.ts'
import { migrate, type MigrateSettings } from './migrate.ts'

const SOON_MS = 20_000
/** Of tests that start the command several times. A busy machine takes seconds for each start. */
const COMMANDS_MS = 120_000
const KINDS = ['archives', 'code', 'extensions', 'profiles', 'replays', 'telemetry']

const scope = new AsyncDisposableStack()
/** Of the service that is moved. */
let paths: DataPaths
let filled: Filled
let s3: S3Server
/** The folder of the other Postgres' socket. */
let host: string
let admin: pg.Client
let before: Map<string, string>

beforeAll(async () => {
  const dir = scratchDir('cob-migrate-')
  scope.defer(() => rmSync(dir, { recursive: true, force: true }))
  copyTemplate(dir)
  paths = dataPaths(dir)
  {
    await using service = await serviceOn(dir)
    filled = await fill(service)
  }
  before = files()
  s3 = scope.use(await s3Server())
  ;({ host } = await ownPostgres('target', scope))
  admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  scope.defer(() => admin.end())
})
afterAll(() => scope.disposeAsync())

/** Every file of the data directory that is not the database's own, with its content or length. */
function files(): Map<string, string> {
  const all = new Map<string, string>()
  for (const entry of readdirSync(paths.root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && !/\/(postgres|pg|agent-cache-[^/]*)\//.test(path))
      all.set(path, statSync(path).size > 100_000 ? String(statSync(path).size) : readFileSync(path, 'latin1'))
  }
  return all
}

let count = 0
let database: string
let prefix: string
let env: Record<string, string>
beforeEach(async () => {
  count++
  database = `t${count}`
  prefix = `p${count}`
  await admin.query(`create database ${database} template template0 encoding 'UTF8'`)
  env = { COB_DATA_DIR: paths.root, DATABASE_URL: `postgres://cob@/${database}?host=${host}`, ...bucketOf(s3, prefix) }
  s3.trouble = {}
})

const objects = () => [...s3.objects.keys()].filter((key) => key.startsWith(`logs/${prefix}/`)).map((key) => key.slice(`logs/${prefix}/`.length))
async function query<T extends pg.QueryResultRow>(text: string): Promise<T[]> {
  const client = new pg.Client({ host, user: 'cob', database })
  await client.connect()
  return client
    .query<T>(text)
    .then(({ rows }) => rows)
    .finally(() => client.end())
}
const tables = async () =>
  (await query<{ name: string }>(`select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)).length

/** The command's work in this process: what it said. */
const move = (settings: Record<string, string>, over: Partial<MigrateSettings> = {}) => {
  const said: string[] = []
  const done = migrate({
    config: readConfig(settings),
    only: undefined,
    isDryRun: false,
    say: (line) => void said.push(line),
    tell: () => {},
    signal: AbortSignal.timeout(SOON_MS),
    ...over,
  })
  return done.then(() => said)
}

test(
  'a service that is started on the Postgres and the bucket has all that it had, and the data directory is as it was',
  async () => {
    const dry = await run(['--dry-run'], env)
    expect([dry.code, dry.err]).toEqual([0, ''])
    for (const kind of KINDS) expect(dry.out).toMatch(new RegExp(`^ +${kind}: [1-9]`, 'm'))
    expect(dry.out).toMatch(/^ +credentials: 1$/m)
    expect([objects(), await tables()]).toEqual([[], 0])

    const done = await run([], env)
    expect([done.code, done.out]).toEqual([0, expect.stringContaining('all are there that rows name')])
    expect(done.out).toMatch(/rows: \d+ in \d+ tables moved; each table was compared/)
    expect(done.out).toMatch(/copy these into it before the first start: host-id .*secret-key, api-key/)
    expect([...new Set(objects().map((key) => key.split('/')[0]))].toSorted()).toEqual([...KINDS, 'owner'].toSorted())
    expect([files(), postgresRuns(paths)]).toEqual([before, false])
    expect(done.out + done.err).not.toContain(CANARY.password)

    // On another machine: a data directory with nothing but the small files that the command names.
    const elsewhere = scratchDir('cob-elsewhere-')
    scope.defer(() => rmSync(elsewhere, { recursive: true, force: true }))
    for (const name of ['host-id', 'secret-key', 'api-key']) cpSync(join(paths.root, name), join(elsewhere, name))
    const { COB_DATA_DIR: _, ...settings } = env
    await using service = await serviceOn(elsewhere, settings)
    expect(service.key).toBe(readFileSync(paths.apiKey, 'utf8').trim())
    await expectAll(service, filled)
    expect((await service.fetch('/health')).status).toBe(200)

    const again = await run([], env)
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringMatching(/was moved to the database in DATABASE_URL before, and one of the two has changed since/),
    ])
  },
  COMMANDS_MS,
)

test('the same data directory goes on with it too, and a command that is run again has nothing left to do', async () => {
  await move(env)
  const { puts } = s3.counts
  const again = (await move(env)).join('\n')
  expect(again).toMatch(/objects: 0 moved, \d+ were there already[^]*rows: the database has all of them already/)
  expect(s3.counts.puts).toBe(puts)
  const copy = scratchDir('cob-again-')
  scope.defer(() => rmSync(copy, { recursive: true, force: true }))
  cpSync(paths.root, copy, { recursive: true, filter: (path) => !/\/(postgres|objects|agent-cache-[^/]*)$/.test(path) })
  await using service = await serviceOn(copy, { DATABASE_URL: env.DATABASE_URL!, ...bucketOf(s3, prefix) })
  await expectAll(service, filled)
})

describe('killed', () => {
  test(
    'between objects, and then among the rows, it leaves the database empty, and the next one goes on',
    async () => {
      // The server takes so many objects, and no more.
      s3.trouble = { status: 503, afterPuts: s3.counts.puts + 3 }
      const first = start([], env)
      await until('some objects', SOON_MS, () => objects().length >= 3, { everyMs: 5 })
      first.child.kill('SIGKILL')
      await first.ended
      expect(await tables()).toBe(0)
      s3.trouble = {}
      // A SIGKILL leaves the Postgres that was started for it. The next one uses it.
      const second = start([], env)
      const inTransaction = `select 1 from pg_stat_activity where datname = '${database}' and application_name = 'cob migrate' and xact_start is not null and backend_xid is not null`
      await until('the transaction', SOON_MS, async () => (await admin.query(inTransaction)).rows.length > 0, { everyMs: 2 })
      second.child.kill('SIGKILL')
      await second.ended
      await until(
        'its connection to go',
        SOON_MS,
        async () => (await admin.query(`select 1 from pg_stat_activity where datname = '${database}'`)).rows.length === 0,
      )
      expect(await tables()).toBe(0)
      const last = await run([], env)
      expect([last.code, last.out]).toEqual([0, expect.stringMatching(/objects: 0 moved[^]*rows: \d+ in \d+ tables moved/)])
      expect(postgresRuns(paths)).toBe(false)
    },
    COMMANDS_MS,
  )

  test('by Ctrl-C, it says so, and stops the Postgres that it had started', async () => {
    s3.trouble = { ms: 300 }
    const first = start([], env)
    await until('some objects', SOON_MS, () => objects().length >= 2, { everyMs: 5 })
    first.child.kill('SIGINT')
    expect(await first.ended).toMatchObject({ code: 1, err: expect.stringContaining('ended by SIGINT; run it again to go on') })
    expect([postgresRuns(paths), await tables()]).toEqual([false, 0])
  })
})

test('an object whose bytes differ from the file is stored again, and a file that no row names stays behind', async () => {
  writeFileSync(join(paths.objects, 'replays', 'nobodys.film'), 'x')
  await move({ ...env, DATABASE_URL: '' }, { only: 'objects' })
  const key = `logs/${prefix}/${objects().find((name) => name.startsWith('extensions/'))!}`
  const { body } = s3.objects.get(key)!
  const broken = Buffer.from(body).fill(0, 10, 20)
  s3.objects.get(key)!.body = broken
  const again = await move({ ...env, DATABASE_URL: '' }, { only: 'objects' })
  expect(again.join('\n')).toMatch(/no row names them: 1 file\n[^]*objects: 1 moved/)
  expect(s3.objects.get(key)!.body.equals(body)).toBe(true)
  expect(objects()).not.toContain('replays/nobodys.film')
  rmSync(join(paths.objects, 'replays', 'nobodys.film'))
})

test('one part may be moved alone: the objects, then the database', async () => {
  const first = await move({ ...env, DATABASE_URL: '' }, { only: 'objects' })
  expect(first).toContain('rows    stay: the database is not moved')
  expect(await tables()).toBe(0)
  const { COB_DATA_DIR, DATABASE_URL } = env as { COB_DATA_DIR: string; DATABASE_URL: string }
  const second = await move({ COB_DATA_DIR, DATABASE_URL })
  expect(second.join('\n')).toMatch(/^objects stay: 7 objects in /m)
  expect(await query('select count(*)::int as count from credentials')).toEqual([{ count: 1 }])
  // Now the database in DATABASE_URL is the one that names the objects.
  const third = await move({ ...env, COB_S3_PREFIX: `${prefix}-late` }, { only: 'objects' })
  expect(third).toContain('objects: 7 moved, 0 were there already; all are there that rows name')
})

describe('it refuses, says why, and moves nothing', () => {
  const refused = async (settings: Record<string, string>, over: Partial<MigrateSettings> = {}) => {
    const error = await move(settings, over).then(
      () => 'it was done',
      ({ message }: Error) => message,
    )
    expect(objects().filter((key) => key !== 'owner')).toEqual([])
    return error
  }
  /** With the Postgres of the data directory running and nothing else, as after a kill. */
  const during = async (work: (client: pg.Client) => Promise<void>) => {
    await using opened = new AsyncDisposableStack()
    const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(SOON_MS))
    opened.defer(() => postgres.stop())
    const client = new pg.Client({ host: paths.postgresSocket, user: 'cob', database: 'postgres' })
    await client.connect()
    opened.defer(() => client.end())
    await work(client)
  }

  test('without a place to move to, with an unknown part, and with a folder that is no data directory', async () => {
    const { COB_DATA_DIR, DATABASE_URL } = env as { COB_DATA_DIR: string; DATABASE_URL: string }
    expect(await refused({ COB_DATA_DIR })).toMatch(/^DATABASE_URL: must be set, or COB_S3_BUCKET, or both/)
    expect(await refused({ COB_DATA_DIR, DATABASE_URL }, { only: 'objects' })).toMatch(/^COB_S3_BUCKET: must be set/)
    expect(await refused({ COB_DATA_DIR, ...bucketOf(s3, prefix) }, { only: 'database' })).toMatch(/^DATABASE_URL: must be set/)
    expect(await refused(env, { only: 'objects' })).toMatch(/^DATABASE_URL: its database has no tables of a service/)
    expect((await run(['--only', 'keys'], env)).err).toContain("argument 'keys' is invalid. Allowed choices are database, objects")
    expect(await refused({ ...env, COB_DATA_DIR: '/nowhere/at/all' })).toMatch(/^COB_DATA_DIR: \/nowhere\/at\/all is not the data directory/)
    expect(await tables()).toBe(0)
  })

  test('while a service runs', async () => {
    await using _service = await serviceOn(paths.root)
    expect(await run([], env)).toEqual({ code: 1, out: '', err: `cob: a service runs with ${paths.root}; stop it first\n` })
  })

  test('while a session, a run or a sandbox has not ended', () =>
    during(async (client) => {
      await client.query(`update browsers set state = 'running' where id = $1`, [filled.session])
      await client.query('update invocations set finished_at = null')
      mkdirSync(paths.instance('left'))
      expect(await refused(env)).toMatch(/^something has not ended: 1 session or warm browser, 1 run of an app, 1 folder of such .* Start the service/)
      rmSync(paths.instance('left'), { recursive: true })
      await client.query(`update browsers set state = 'deleted'`)
      await client.query('update invocations set finished_at = now()')
    }))

  test('a database of another version', () =>
    during(async (client) => {
      await client.query(`insert into kysely_migration values ('9999-later', '2026-01-01T00:00:00.000Z')`)
      expect(await refused(env)).toMatch(/newer version of Cob/)
      await client.query(`delete from kysely_migration where name = '9999-later'`)
      const { rows } = await client.query<{ name: string; timestamp: string }>(
        'delete from kysely_migration where name = (select max(name) from kysely_migration) returning *',
      )
      expect(await refused(env)).toMatch(/older version of Cob; start the service of this version once/)
      await client.query('insert into kysely_migration values ($1, $2)', [rows[0]!.name, rows[0]!.timestamp])
    }))

  test('to a database in use, to the Postgres of the data directory itself, and to one that cannot be reached', async () => {
    await query('create table projects (id text)')
    expect(await refused(env)).toMatch(/the database in DATABASE_URL is in use: it has tables of a service already \(projects\)/)
    expect(await query('select * from projects')).toEqual([])
    await during(async (client) => {
      await client.query('create database beside')
      expect(await refused({ ...env, DATABASE_URL: `postgres://cob@/beside?host=${paths.postgresSocket}` })).toMatch(
        /is the Postgres of the data directory itself/,
      )
      await client.query('drop database beside')
    })
    const away = await refused({ ...env, DATABASE_URL: 'postgres://cob:hush@127.0.0.1:1/x' })
    expect([away, away.includes('hush')]).toEqual([expect.stringContaining('Postgres at 127.0.0.1:1 does not accept connections'), false])
    expect(postgresRuns(paths)).toBe(false)
  })

  test('to a bucket that is missing, and below a prefix of another database', async () => {
    expect(await run([], { ...env, COB_S3_BUCKET: 'none' })).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^cob: a read in S3 failed: NoSuchBucket: .*\n$/),
    })
    s3.objects.set(`logs/${prefix}/owner`, { body: Buffer.from('database of 2020-01-01T00:00:00.000Z'), headers: {}, at: new Date(), role: undefined })
    expect([await refused(env), await tables()]).toEqual([expect.stringMatching(/^COB_S3_PREFIX: the objects of another database are in the bucket/), 0])
  })

  test('with another scope than the service had; with another key, a dry run says that secrets cannot be read', async () => {
    expect(await refused({ ...env, COB_SCOPE: 'other' })).toMatch(
      /^COB_SCOPE: no service with the scope other has used this database: set it as the service had it/,
    )
    const said = await move({ ...env, COB_SECRET_KEY: 'ab'.repeat(32) }, { isDryRun: true })
    expect(said.join('\n')).toMatch(/note +\d+ stored secrets cannot be read with the keys of these settings: the key [0-9a-f]{16} is missing/)
    expect([objects(), await tables()]).toEqual([[], 0])
  })
})
