// Builds without HTTP: restarts, crashes, slow or hostile builds, and a failing database.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { deployParts, fakeApps, hasCode as codeIsThere, HOST, leaveBuild, type Deploy } from '../../../../test/support/apps.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { until } from '../../../base/wait.ts'
import { mount } from '../../../http/mount.ts'
import type { FormPart } from '../../../http/route.ts'
import { makeServer } from '../../../http/server.ts'
import { adoptAll } from '../../../instances/driver.ts'
import type { Objects } from '../../../store/objects.ts'
import { deployments as contract } from './contract.ts'
import type { Deployments } from './deployments.ts'
import { deploymentHandlers } from './handlers.ts'
import { cleaned, host, lines, NOTICE_MS, reaches, restarted, row, service } from './lab.suite.ts'

const signal = new AbortController().signal

const hasCode = (id: string) => codeIsThere(host.paths, id)
const hasArchive = (id: string) => existsSync(join(host.paths.objects, 'archives', id))
const create = async (deployments: Deployments, what: Deploy = {}) => (await deployments.create(DEFAULT_PROJECT, deployParts(what), signal)).id

const leftBuild = (what: Deploy, read: number, how?: Parameters<typeof leaveBuild>[4]) => leaveBuild(host, service(), what, read, how)

describe('a restart of the service during a build', () => {
  const env = { FAKE_LOGS: '["one","two","three"]', ...fakeApps({ restarted: ['x'] }) }

  test('continues the build if its sandbox is still running: no line is lost or repeated', async () => {
    const id = await leftBuild({ env }, 2)
    restarted()
    const { attempts, sandbox_id: sandbox } = await reaches(id, 'running')
    expect(attempts).toBe(1)
    expect(await lines(id)).toEqual(['one', 'two', 'three'])
    await until('its sandbox to go', NOTICE_MS, () => !readdirSync(host.paths.appSandboxes).includes(sandbox!))
  })

  test('repeats the build if its sandbox is gone, and the log says so', async () => {
    const id = await leftBuild({ env }, 2)
    await Promise.all((await adoptAll(host.driver.apps)).map((instance) => instance[Symbol.asyncDispose]()))
    restarted()
    expect(await reaches(id, 'running')).toMatchObject({ attempts: 2 })
    expect(await lines(id)).toEqual(['one', 'two', 'The build was interrupted and begins again.', 'one', 'two', 'three'])
  })

  test('repeats the build if its archive may be incomplete', async () => {
    const id = await leftBuild({ env }, 0, { hasArchiveWhole: false })
    restarted()
    expect(await reaches(id, 'running')).toMatchObject({ attempts: 2 })
  })

  test('that happens twice fails the build with the reason', async () => {
    const id = await leftBuild({ env }, 2)
    await Promise.all((await adoptAll(host.driver.apps)).map((instance) => instance[Symbol.asyncDispose]()))
    await host.db.updateTable('deployments').set({ attempts: 2 }).where('id', '=', id).execute()
    restarted()
    expect((await reaches(id, 'failed')).status_reason).toBe('the build was interrupted twice by a restart of the service')
    await cleaned(id)
    expect([hasCode(id), hasArchive(id)]).toEqual([false, false])
  })

  test('leaves sandboxes of other services alone', async () => {
    const runner = { id: 'other', kind: 'run', env: {}, memoryMb: 1, logLevel: 'info' } as const
    const other = await host.driver.apps.start({ id: newId(), apiUrl: 'http://127.0.0.1:1', runner }, signal)
    const id = await leftBuild({ env }, 2)
    restarted()
    await reaches(id, 'running')
    expect((await host.driver.apps.found()).map((one) => one.id)).toContain(other.id)
    await other[Symbol.asyncDispose]()
  })

  test('by a normal stop ends the build, and the next start repeats it', async () => {
    const deployments = restarted()
    const id = await create(deployments, { env: { ...env, FAKE_HANG: '1' } })
    await until('the build to say something', NOTICE_MS, async () => (await lines(id)).length > 0)
    await deployments[Symbol.asyncDispose]()
    expect([(await row(id)).state, readdirSync(host.paths.appSandboxes)]).toEqual(['in_progress', []])
    const next = restarted()
    await until('the build to begin again', NOTICE_MS, async () => (await row(id)).attempts === 2)
    await next.delete(DEFAULT_PROJECT, id)
    expect(await row(id)).toMatchObject({ state: 'failed', status_reason: 'it was deleted', secrets: null })
  })
})

describe('a build', () => {
  test('that takes too long fails, and nothing of it keeps running', async () => {
    const deployments = restarted({ buildMs: 300 })
    const id = await create(deployments, { env: { FAKE_HANG: '1' } })
    expect((await reaches(id, 'failed')).status_reason).toMatch(/^the build took longer than \d+ minutes$/)
    await until('its sandbox to go', NOTICE_MS, () => readdirSync(host.paths.appSandboxes).length === 0)
  })

  test('whose sandbox ends fails with the reason', async () => {
    const deployments = restarted()
    const id = await create(deployments, { env: { FAKE_HANG: '1' } })
    await until('the build to say something', NOTICE_MS, async () => (await lines(id)).length > 0)
    await Promise.all((await adoptAll(host.driver.apps)).map((instance) => instance[Symbol.asyncDispose]()))
    expect((await reaches(id, 'failed')).status_reason).toBe('the build ended unexpectedly (was ended)')
  })

  test('whose archive is unusable fails with the reason', async () => {
    const deployments = restarted()
    const id = await create(deployments, { env: { FAKE_REFUSE: 'the zip has no end' } })
    expect((await reaches(id, 'failed')).status_reason).toBe('the zip has no end')
  })

  test('whose archive is gone fails with the reason', async () => {
    const deployments = service()
    const id = await create(deployments)
    rmSync(join(host.paths.objects, 'archives', id))
    deployments.start()
    expect((await reaches(id, 'failed')).status_reason).toBe('its archive is gone')
  })

  test('waits while the object store is away, and uses up no attempt', async () => {
    let asked = 0
    const away: Objects = { ...host.objects, get: (...args) => (++asked < 3 ? Promise.reject(new Unavailable('away', 1)) : host.objects.get(...args)) }
    const deployments = restarted({ objects: away })
    const id = await create(deployments)
    expect((await reaches(id, 'running')).attempts).toBe(1)
    expect(asked).toBe(3)
  })

  test('does not hold up others while its archive cannot be read', async () => {
    let isAway = true
    let blocked = ''
    const get: Objects['get'] = (key, ...rest) => (isAway && key === blocked ? Promise.reject(new Unavailable('away', 1)) : host.objects.get(key, ...rest))
    const deployments = service({ objects: { ...host.objects, get } })
    const first = await create(deployments)
    blocked = `archives/${first}`
    const second = await create(deployments)
    deployments.start()
    await reaches(second, 'running')
    expect((await row(first)).state).toBe('queued')
    isAway = false
    await reaches(first, 'running')
  })

  test('whose archive breaks off on its way begins again, and uses up no attempt; one that always breaks off fails', async () => {
    let breaks = 2
    const get: Objects['get'] = async (key, ...rest) => {
      const found = await host.objects.get(key, ...rest)
      if (!found || !key.startsWith('archives/') || breaks-- <= 0) return found
      found.content.destroy()
      return {
        ...found,
        content: Readable.from(
          (async function* () {
            yield Buffer.from('half')
            throw new Unavailable('broke off', 1)
          })(),
        ),
      }
    }
    const deployments = restarted({ objects: { ...host.objects, get } })
    const id = await create(deployments)
    expect((await reaches(id, 'running')).attempts).toBe(1)
    expect(await lines(id)).toEqual(['The build was interrupted and begins again.', 'The build was interrupted and begins again.', 'installing'])
    breaks = 100
    const never = await create(deployments)
    await until('it to fail', 3 * NOTICE_MS, async () => (await row(never)).state === 'failed')
    expect((await row(never)).status_reason).toBe('its archive could not be read to its end, 10 times')
  })

  test('that cannot get a sandbox fails, and the log has the reason', async () => {
    const sandboxes = { ...host.driver.apps, start: () => Promise.reject(new Error('no room')) }
    const deployments = restarted({ sandboxes })
    const id = await create(deployments)
    expect((await reaches(id, 'failed')).status_reason).toBe('the build could not be started: the service could not make a sandbox for it')
    expect(host.logged.at(-1)).toMatchObject({ level: 'error', fields: { deployment: id } })
  })

  test.each(['app_events', 'app_versions'])('continues if the database refuses rows of %s at first: no line is lost or repeated', async (table) => {
    await sql`create sequence trouble`.execute(host.db)
    await sql`create function fail_twice() returns trigger language plpgsql as
      $$ begin if nextval('trouble') in (2, 3) then raise 'in trouble'; end if; return new; end $$`.execute(host.db)
    await sql`create trigger fail_twice before insert on ${sql.table(table)} for each row execute function fail_twice()`.execute(host.db)
    try {
      const deployments = restarted()
      const id = await create(deployments, { env: { FAKE_LOGS: '["one","two"]', ...fakeApps({ first: ['x'], second: ['y'] }) } })
      await reaches(id, 'running')
      expect([await lines(id), (await row(id)).attempts]).toEqual([['one', 'two'], 1])
    } finally {
      await sql`drop function fail_twice cascade`.execute(host.db)
      await sql`drop sequence trouble`.execute(host.db)
    }
  })

  test("gets its variables, and the service's own override them", async () => {
    const deployments = service({ apiUrl: () => 'http://127.0.0.1:4321' })
    const mine = { GREETING: 'hello', KERNEL_API_KEY: 'mine', KERNEL_BASE_URL: 'http://x', ENTRYPOINT_RELPATH: 'x', __proto__x: 'y' }
    const id = await create(deployments, { entrypoint: 'src/app.ts', env: mine })
    const environment = await deployments.environment(id)
    expect(environment).toEqual({
      ...mine,
      KERNEL_API_KEY: expect.stringMatching(/^cob_/) as string,
      KERNEL_BASE_URL: 'http://127.0.0.1:4321',
      ENTRYPOINT_RELPATH: 'src/app.ts',
    })
  })
})

describe('an upload of code', () => {
  const parts = async function* (content: Readable): AsyncGenerator<FormPart> {
    yield { name: 'entrypoint_rel_path', value: 'index.ts' }
    yield { name: 'file', filename: 'a.zip', content }
  }

  test('above the limit is refused with 413, and nothing of it is kept', async () => {
    const deployments = service({ maxArchiveBytes: 100_000 })
    const big = Readable.from(Array.from({ length: 20 }, () => Buffer.alloc(10_000)))
    await expect(deployments.create(DEFAULT_PROJECT, parts(big), signal)).rejects.toMatchObject({ status: 413 })
    const fits = Readable.from(Array.from({ length: 10 }, () => Buffer.alloc(10_000)))
    const { id } = await deployments.create(DEFAULT_PROJECT, parts(fits), signal)
    expect(readdirSync(join(host.paths.objects, 'archives'))).toEqual([id])
  })

  test('above the limit is answered over HTTP while it is still being sent', async () => {
    const context = makeServer({
      log: silentLog,
      authenticate: async () => ({ by: { kind: 'key', id: 'k', project: undefined, deployment: undefined }, project: DEFAULT_PROJECT }),
    })
    mount(context, contract, deploymentHandlers(service({ maxArchiveBytes: 100_000 })))
    await context.app.listen({ host: '127.0.0.1', port: 0 })
    const url = `http://127.0.0.1:${(context.app.server.address() as AddressInfo).port}/deployments`
    try {
      for (const bytes of [100_001, 8_000_000]) {
        const form = new FormData()
        form.set('entrypoint_rel_path', 'index.ts')
        form.set('file', new Blob([new Uint8Array(bytes)]), 'a.zip')
        const response = await fetch(url, { method: 'POST', body: form })
        expect([response.status, await response.json()]).toMatchObject([413, { code: 'payload_too_large' }])
      }
    } finally {
      await context.app.close()
    }
    expect(readdirSync(join(host.paths.objects, 'archives'))).toEqual([])
  })

  test('is answered with the reason when the object store is away', async () => {
    const away = () => Promise.reject(new Unavailable('the object store does not answer', 5))
    const deployments = service({ objects: { ...host.objects, put: away, delete: away } })
    await expect(deployments.create(DEFAULT_PROJECT, parts(Readable.from([Buffer.from('zip')])), signal)).rejects.toThrow(Unavailable)
  })

  test('whose caller leaves after the archive leaves nothing', async () => {
    const deployments = service()
    const caller = new AbortController()
    const leaving = async function* (): AsyncGenerator<FormPart> {
      yield* parts(Readable.from([Buffer.from('zip')]))
      caller.abort(new Error('left'))
    }
    await expect(deployments.create(DEFAULT_PROJECT, leaving(), caller.signal)).rejects.toThrow('left')
    expect([readdirSync(join(host.paths.objects, 'archives')), await host.db.selectFrom('deployments').selectAll().execute()]).toEqual([[], []])
  })
})

test('secrets are never in the database or the log in clear text', async () => {
  const deployments = restarted()
  const secrets = ['s3cret-of-a-file', 'ghp_s3cretOfGit', 's3cret-of-git']
  const id = await create(deployments, { env: { PASSWORD: secrets[0]! } })
  const git = async function* (): AsyncGenerator<FormPart> {
    const auth = { method: 'github_token', token: secrets[1] }
    yield { name: 'source', value: JSON.stringify({ type: 'github', url: 'https://github.com/a/b', ref: 'main', entrypoint: 'x.py', auth }) }
    yield { name: 'env_vars', value: JSON.stringify({ PASSWORD: secrets[2], FAKE_FAIL: 'x' }) }
  }
  const other = (await deployments.create(DEFAULT_PROJECT, git(), signal)).id
  const key = (await deployments.environment(id)).KERNEL_API_KEY!
  const isNowhere = async () => {
    const tables = await sql<{ name: string }>`select table_name as name from information_schema.tables where table_schema = 'public'`.execute(host.db)
    expect(tables.rows.length).toBeGreaterThan(5)
    for (const { name } of tables.rows) {
      const { rows } = await sql<{ text: string }>`select t::text as text from ${sql.table(name)} t`.execute(host.db)
      // Bytes are shown as hex.
      for (const text of rows.flatMap((found) => [found.text, Buffer.from(/\\x([0-9a-f]+)/.exec(found.text)?.[1] ?? '', 'hex').toString('latin1')]))
        for (const secret of [...secrets, key]) expect(text).not.toContain(secret)
    }
    const received = JSON.stringify(host.logged, (_, value: unknown) => (value instanceof Error ? String(value.stack) : value))
    for (const secret of [...secrets, key]) expect(received).not.toContain(secret)
  }
  await isNowhere()
  await reaches(id, 'running')
  await reaches(other, 'failed')
  await isNowhere()
})

test('a build of another scope is left to that scope', async () => {
  const elsewhere = service({ scope: 'elsewhere' })
  const id = await create(elsewhere)
  const deployments = restarted()
  await reaches(await create(deployments), 'running')
  expect([(await row(id)).state, (await row(id)).scope, HOST]).toEqual(['queued', 'elsewhere', 'here'])
})
