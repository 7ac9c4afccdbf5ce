// `cob backup` and `cob restore`, as users run them, against real databases, files and a server that speaks S3.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deployed, fakeApps } from '../../../../test/support/apps.ts'
import {
  bucketOf,
  CANARY,
  expectAll,
  fill,
  run,
  serviceOn,
  start,
  type Ended,
  type Env,
  type Filled,
  type Running,
} from '../../../../test/support/filled-service.ts'
import { ownPostgres } from '../../../../test/support/postgres.ts'
import { s3Server, type S3Server } from '../../../../test/support/s3.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { copyTemplate } from '../../../../test/support/template.ts'
import { sleep, until } from '../../../base/wait.ts'

/** Timeout of tests that start commands and services several times, on a busy machine. */
const COMMANDS_MS = 180_000
const SOON_MS = 30_000

const scope = new AsyncDisposableStack()
/** The service that is backed up. It runs the whole time. */
let source: Running
let filled: Filled
let env: Env
/** Its live session. */
let live: string
/** Its run of an app, which never ends. */
let hanging: string
/** A backup without its keys, and one with them. */
let plain: string
let withKeys: string
let said: { plain: Ended; withKeys: Ended }
/** The folder for backups and restored services. */
let folder: string
let s3: S3Server
let host: string
let admin: pg.Client

const backup = async (target: string, ...args: string[]) => {
  const done = await run([target, ...args], env, 'backup')
  expect([done.code, done.err]).toEqual([0, expect.stringContaining('the backup is complete')])
  return done
}
const restore = (file: string, to: Env, ...args: string[]) => run([file, ...args], to, 'restore')

/** The cookie of a person who signed in before the backup. */
let cookie: string
const me = (url: string) => fetch(`${url}/me`, { headers: { cookie, 'x-cob-dashboard': '1' } })

let count = 0
/** A data directory that does not exist yet. */
const newDir = () => join(folder, `d${++count}`)
async function newDatabase(): Promise<string> {
  const name = `b${++count}`
  await admin.query(`create database ${name} template template0 encoding 'UTF8'`)
  return `postgres://cob@/${name}?host=${host}`
}

beforeAll(async () => {
  folder = scratchDir('cob-backups-')
  scope.defer(() => rmSync(folder, { recursive: true, force: true }))
  const dir = join(folder, 's')
  mkdirSync(dir)
  copyTemplate(dir)
  source = scope.use(await serviceOn(dir))
  env = { COB_DATA_DIR: dir }
  filled = await fill(source)
  live = (await source.create({ name: 'live', timeout_seconds: 3600, profile: { name: 'kept', save_changes: true } })).session_id
  await deployed(source, { env: fakeApps({ hanging: ['hang'] }) })
  const run = { app_name: 'hanging', version: 'latest', action_name: 'hang', async: true }
  const signedIn = await source.send('POST', '/sign-in/key', { api_key: source.key })
  cookie = signedIn.headers.get('set-cookie')!.split(';')[0]!
  expect((await me(source.url)).status).toBe(200)
  hanging = ((await (await source.send('POST', '/invocations', run)).json()) as { id: string }).id
  await until('the run', SOON_MS, async () => ((await (await source.fetch(`/invocations/${hanging}`)).json()) as { status: string }).status === 'running')
  // A login of another service on this database.
  const client = new pg.Client({ host: source.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await client.connect()
  await client.query(`
    with c as (
      insert into auth_connections (id, scope, project_id, profile_id, domain, auto_reauth, health_checks, health_check_seconds, record_session, save_credentials, browser)
      select 'c', 'elsewhere', project_id, id, 'site.test', true, true, 3600, false, false, '{}' from profiles limit 1 returning id)
    insert into auth_flows (id, connection_id, scope, type, state, step, asked, expires_at)
    select 'f', c.id, 'elsewhere', 'reauth', 'IN_PROGRESS', 'DISCOVERING', '{}', now() + interval '1 day' from c`)
  await client.end()
  s3 = scope.use(await s3Server())
  ;({ host } = await ownPostgres('target', scope))
  admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  scope.defer(() => admin.end())
  plain = join(folder, 'plain.tar')
  withKeys = join(folder, 'with-keys.tar')
  said = { plain: await backup(plain), withKeys: await backup(withKeys, '--with-keys') }
}, COMMANDS_MS)
afterAll(() => scope.disposeAsync())

describe('a backup of a running service', () => {
  test('says that keys are not in it, and has none; a tar program and sha256sum read it', async () => {
    const { out, err } = said.plain
    expect([out, err]).toEqual(['', expect.stringContaining('WARNING: the keys are NOT in it. Keep ')])
    expect(statSync(plain).mode & 0o777).toBe(0o600)
    const into = newDir()
    mkdirSync(into)
    expect(spawnSync('tar', ['--extract', `--file=${plain}`, '--directory', into]).status).toBe(0)
    expect(readdirSync(into).toSorted()).toEqual(['checksums', 'cob-backup.json', 'manifest.json', 'objects', 'rows'])
    const check = spawnSync('sh', ['-c', 'cat checksums/* | sha256sum --check --quiet --strict'], { cwd: into, encoding: 'utf8' })
    expect([check.status, check.stdout, check.stderr]).toEqual([0, '', ''])
    const key = readFileSync(source.paths.secretKey)
    for (const secret of [key.toString().trim(), source.key, CANARY.password, CANARY.totp]) expect(readFileSync(plain).includes(secret)).toBe(false)
  })

  test('with --with-keys has them, and says so', () => {
    const { err } = said.withKeys
    expect(err).toContain('WARNING: the keys are in it (secret-key, api-key): whoever has this file')
    expect(readFileSync(withKeys).includes(readFileSync(source.paths.secretKey, 'utf8').trim())).toBe(true)
  })

  test('goes to standard output with -, and to a folder under a name with its time', { timeout: COMMANDS_MS }, async () => {
    const piped = spawnSync('sh', ['-c', 'bin/cob backup - > "$1"', 'sh', join(folder, 'piped.tar')], {
      env: { PATH: process.env.PATH, ...env },
      encoding: 'utf8',
    })
    expect([piped.status, piped.stderr]).toEqual([0, expect.stringContaining('the backup is complete')])
    const into = newDir()
    mkdirSync(into)
    await backup(into)
    expect(readdirSync(into)).toEqual([expect.stringMatching(/^cob-backup-\d{4}-\d\d-\d\dT\d{6}Z\.tar$/)])
    const done = await restore(join(folder, 'piped.tar'), { COB_DATA_DIR: newDir() })
    expect([done.code, done.err]).toEqual([0, expect.any(String)])
  })

  test('refuses a file that is there, and a folder that is not', { timeout: COMMANDS_MS }, async () => {
    expect(await run([withKeys], env, 'backup')).toMatchObject({ code: 1, err: expect.stringContaining('is there already') as string })
    expect(await run(['/nowhere/x.tar'], env, 'backup')).toMatchObject({ code: 1, err: 'cob: there is no folder /nowhere\n' })
  })
})

/** Checks a restored service: all data is there. The session that was running does not run here, and continues at the source. */
async function expectRestored(to: Env): Promise<void> {
  const { COB_DATA_DIR: dir, ...settings } = to
  await using service = await serviceOn(dir!, settings)
  const found = await service.fetch(`/browsers/${live}?include_deleted=true`)
  expect([found.status, ((await found.json()) as { deleted_at?: string }).deleted_at]).toEqual([200, expect.any(String)])
  const list = (await (await service.fetch('/browsers')).json()) as unknown[]
  expect(list).toEqual([])
  const run = (await (await service.fetch(`/invocations/${hanging}`)).json()) as { status: string; status_reason: string }
  expect(run).toMatchObject({ status: 'failed', status_reason: expect.stringContaining('restored from a backup') as string })
  await expectAll(service, filled)
  expect((await source.fetch(`/browsers/${live}`)).status).toBe(200)
  expect((await source.send('POST', `/browsers/${live}/computer/clipboard/write`, { text: 'still here' })).status).toBe(200)
}

describe('a restore', () => {
  /** A changed copy of a backup. */
  function changed(name: string, change: (bytes: Buffer) => Buffer): string {
    const file = join(folder, `${name}-${++count}.tar`)
    writeFileSync(file, change(readFileSync(withKeys)))
    return file
  }
  const flipped = (at: (bytes: Buffer) => number) => (bytes: Buffer) => {
    const copy = Buffer.from(bytes)
    copy[at(copy)]! ^= 1
    return copy
  }

  test.each<[string, (bytes: Buffer) => Buffer, string]>([
    ['a bit of an object differs', flipped((bytes) => bytes.indexOf('objects/') + 600), 'in it is damaged'],
    ['a bit of a key differs', flipped((bytes) => bytes.indexOf('keys/secret-key') + 520), '"keys/secret-key" in it is damaged'],
    ['a bit of its list of checksums differs', flipped((bytes) => bytes.indexOf('checksums/') + 520), 'damaged'],
    ['a bit of its manifest differs', flipped((bytes) => bytes.lastIndexOf('manifest.json') + 620), 'its manifest is damaged'],
    ['a bit of a header differs', flipped((bytes) => bytes.indexOf('objects/') + 9), 'damaged'],
    ['it was cut at an entry', (bytes) => bytes.subarray(0, bytes.lastIndexOf('manifest.json')), 'not completed'],
    ['it was cut within an entry', (bytes) => bytes.subarray(0, bytes.indexOf('objects/') + 700), 'not completed'],
    ['it is empty', () => Buffer.alloc(0), 'not a backup of Cob'],
    ['it is something else', () => Buffer.alloc(4096, 'x'), 'not a backup of Cob'],
  ])('is refused before the first write when %s', { timeout: COMMANDS_MS }, async (_, change, why) => {
    const to = { COB_DATA_DIR: newDir() }
    expect(await restore(changed('bad', change), to)).toMatchObject({ code: 1, out: '', err: expect.stringContaining(why) as string })
    expect(existsSync(to.COB_DATA_DIR)).toBe(false)
  })

  test('is refused into a data directory that has something, or of a service that runs', { timeout: COMMANDS_MS }, async () => {
    const dir = newDir()
    mkdirSync(join(dir, 'objects'), { recursive: true })
    const full = await restore(withKeys, { COB_DATA_DIR: dir })
    expect(full).toMatchObject({ code: 1, err: expect.stringContaining(`cob: COB_DATA_DIR: ${dir} is not empty (objects)`) as string })
    expect(readdirSync(dir)).toEqual(['objects'])
    expect(await restore(withKeys, env)).toMatchObject({ code: 1, err: expect.stringContaining('a service runs with') as string })
  })

  test(
    'under the scope of the source is refused, unless that one is said to be gone',
    async () => {
      const COB_SCOPE = readFileSync(source.paths.hostId, 'utf8').trim()
      const to = { COB_DATA_DIR: newDir(), COB_SCOPE }
      expect(await restore(withKeys, to)).toMatchObject({
        code: 1,
        err: expect.stringContaining('cob: COB_SCOPE: is that of the service in the backup') as string,
      })
      expect(existsSync(to.COB_DATA_DIR)).toBe(false)
      expect(await restore(withKeys, { ...to, COB_SCOPE: 'other' }, '--same-scope')).toMatchObject({
        code: 1,
        err: expect.stringContaining('cob: COB_SCOPE') as string,
      })
      expect(await restore(withKeys, to, '--same-scope')).toMatchObject({ code: 0 })
    },
    COMMANDS_MS,
  )

  test(
    'that was killed at any point is completed when it is run again, and no service starts before',
    async () => {
      /** A restore that has started to write. */
      const begun = async (to: Env & { COB_DATA_DIR: string }) => {
        const one = start([withKeys], to, 'restore')
        const marker = join(to.COB_DATA_DIR, 'restoring')
        await until('the first write', COMMANDS_MS, () => existsSync(marker) || one.child.exitCode !== null, { everyMs: 2 })
        return one
      }
      const whole = await begun({ COB_DATA_DIR: newDir() })
      const from = performance.now()
      await whole.ended
      const writesMs = performance.now() - from
      let incomplete = 0
      for (let round = 1; round <= 4; round++) {
        const to = { COB_DATA_DIR: newDir(), ...(round % 2 === 0 && { DATABASE_URL: await newDatabase(), ...bucketOf(s3, `k${++count}`) }) }
        const { child, ended } = await begun(to)
        await sleep((writesMs * (round - 1)) / 4)
        child.kill('SIGKILL')
        await ended
        if (existsSync(join(to.COB_DATA_DIR, 'restoring'))) {
          incomplete++
          await expect(serviceOn(to.COB_DATA_DIR, to)).rejects.toThrow('was not completed: run "cob restore" again')
          expect(await restore(plain, to)).toMatchObject({ code: 1, err: expect.stringContaining('an incomplete restore of another backup') as string })
        }
        // It may be complete already, or not have started to write.
        const again = await restore(withKeys, to)
        if (again.code !== 0) expect(again.err).toMatch(/is not empty|is in use/)
        await expectRestored(to)
      }
      expect(incomplete).toBeGreaterThan(0)
    },
    COMMANDS_MS,
  )
})

describe('a restored service', () => {
  test(
    'with the keys has everything but sign-ins, on another data directory',
    async () => {
      const dir = newDir()
      const done = await restore(withKeys, { COB_DATA_DIR: dir })
      expect([done.code, done.err]).toEqual([0, expect.any(String)])
      expect(done.out).toMatch(/^restored \d+ rows and \d+ objects of /)
      expect(done.out).toMatch(/^ended {3}1 session or warm browser, 1 run/m)
      expect(readFileSync(join(dir, 'secret-key'), 'utf8')).toBe(readFileSync(source.paths.secretKey, 'utf8'))
      expect(readFileSync(join(dir, 'host-id'), 'utf8')).not.toBe(readFileSync(source.paths.hostId, 'utf8'))
      expect(existsSync(join(dir, 'restoring'))).toBe(false)
      await expectRestored({ COB_DATA_DIR: dir })
      await using service = await serviceOn(dir)
      expect((await me(service.url)).status).toBe(401)
    },
    COMMANDS_MS,
  )

  test(
    'without them says what cannot be read, and is whole when the keys are put beside it',
    async () => {
      const dir = newDir()
      const done = await restore(plain, { COB_DATA_DIR: dir })
      expect([done.code, done.out]).toEqual([0, expect.stringContaining('note    there is no key here')])
      for (const name of ['secret-key', 'api-key']) cpSync(join(source.paths.root, name), join(dir, name))
      await expectRestored({ COB_DATA_DIR: dir })
    },
    COMMANDS_MS,
  )

  test(
    'lives in a Postgres and a bucket, of which it is another owner than the source',
    async () => {
      const prefix = `p${++count}`
      const to = { COB_DATA_DIR: newDir(), DATABASE_URL: await newDatabase(), ...bucketOf(s3, prefix) }
      const done = await restore(withKeys, to)
      expect([done.code, done.err]).toEqual([0, expect.any(String)])
      expect(done.out).toMatch(/^ended {3}1 session or warm browser, 1 run of an app, 1 login:/m)
      expect(done.out).toMatch(/^note .* works with 1 managed login that is renewed or checked\. If the one that was backed up still runs, both do$/m)
      // Before any service uses them: a service would look for the objects that their rows name, and find them.
      const client = new pg.Client({ connectionString: to.DATABASE_URL })
      await client.connect()
      const { rows } = await client.query(
        `select (select count(*) from browsers where state <> 'deleted' or scope = $1) as browsers,
                (select count(*) from invocations where finished_at is null) as runs, (select count(*) from auth_flows where state = 'IN_PROGRESS') as logins,
                (select count(*) from leases) as leases, (select count(*) from deployments where scope = $1) as deployments, (select count(*) from api_keys where scope = $1) as keys`,
        [readFileSync(source.paths.hostId, 'utf8').trim()],
      )
      await client.end()
      expect(rows).toEqual([{ browsers: 0, runs: 0, logins: 0, leases: 0, deployments: 0, keys: 0 }])
      const keys = [...s3.objects.keys()].filter((key) => key.startsWith(`logs/${prefix}/`))
      expect(keys).toContain(`logs/${prefix}/owner`)
      expect(keys).not.toContain(`logs/${prefix}/restoring`)
      await expectRestored(to)
      // Another restore into the same places would overwrite it.
      const fresh = { ...to, COB_DATA_DIR: newDir() }
      expect(await restore(withKeys, fresh)).toMatchObject({ code: 1, err: expect.stringContaining('cob: DATABASE_URL: the database is in use') as string })
      const beside = { ...fresh, DATABASE_URL: await newDatabase() }
      expect(await restore(withKeys, beside)).toMatchObject({ code: 1, err: expect.stringContaining('cob: COB_S3_PREFIX: the bucket has objects') as string })
      expect(existsSync(fresh.COB_DATA_DIR)).toBe(false)
    },
    COMMANDS_MS,
  )
})
