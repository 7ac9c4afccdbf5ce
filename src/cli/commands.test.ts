// `cob keys`, `cob env` and `cob upgrade`, as users run them.
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { run, serviceOn, type Env } from '../../test/support/filled-service.ts'
import { scratchDir } from '../../test/support/scratch.ts'
import { fastCloud } from '../../test/support/fast-cloud.ts'
import { copyTemplate } from '../../test/support/template.ts'
import { PACKAGE_DIR } from '../base/paths.ts'
import { migrationNames } from '../store/schema.ts'

const COMMANDS_MS = 120_000
let env: Env
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  env = { COB_DATA_DIR: cloud.paths.root }
})

const opens = async (key: string) => (await fetch(`${cloud.url}/browsers`, { headers: { authorization: `Bearer ${key}` } })).status
const keys = (...args: string[]) => run(args, env, 'keys')
const saying = (text: string) => expect.stringContaining(text) as string
/** A new key, and its id. */
async function made(...args: string[]): Promise<{ key: string; id: string }> {
  const { code, out, err } = await keys(...args)
  expect([code, out, err]).toEqual([0, expect.stringMatching(/^cob_[0-9a-f]{40}\n$/), saying('shown only this once')])
  return { key: out.trim(), id: /\(([a-z0-9]{24})\)/.exec(err)![1]! }
}

describe('cob keys, while the service runs,', () => {
  test(
    'makes, lists, rotates and deletes',
    async () => {
      const { key, id } = await made('create', 'for a job', '--expires-days', '30')
      expect(await opens(key)).toBe(200)
      const { out } = await keys('list')
      expect(out).toMatch(/^ID +NAME +KEY +PROJECT +CREATED +EXPIRES\n/)
      expect(out).toMatch(new RegExp(`^${id} +for a job +${key.slice(0, 8)}….* +all +\\d{4}-.* +\\d{4}-`, 'm'))
      expect(out).not.toContain(key)

      const next = await made('rotate', id, '--old-expires-days', '0')
      await expect.poll(() => opens(key), { timeout: 10_000 }).toBe(401)
      expect(await opens(next.key)).toBe(200)
      expect(await keys('delete', next.id)).toMatchObject({ code: 0, out: '' })
      await expect.poll(() => opens(next.key), { timeout: 10_000 }).toBe(401)
    },
    COMMANDS_MS,
  )

  test(
    'makes one of a project, by its name',
    async () => {
      await cloud.send('POST', '/org/projects', { name: 'Team' })
      const { key } = await made('create', 'of a team', '--project', 'team')
      const [row] = await cloud.query<{ name: string }>('select p.name from api_keys k join projects p on p.id = k.project_id where k.name = $1', ['of a team'])
      expect([row?.name, await opens(key)]).toEqual(['Team', 200])
    },
    COMMANDS_MS,
  )

  test(
    'shows no control characters of names',
    async () => {
      await cloud.send('POST', '/org/api_keys', { name: 'evil\u001b]0;owned\u0007\u202e' })
      const { out } = await keys('list')
      expect(out).toContain('evil?]0;owned??')
      for (const mark of ['\u001b', '\u0007', '\u202e']) expect(out).not.toContain(mark)
    },
    COMMANDS_MS,
  )

  test.each<[string[], string]>([
    [['create', ''], 'cob: name: expected 1 to 255 characters\n'],
    [['create', 'x', '--project', 'nowhere'], '--project: there is no active project "nowhere"'],
    [['create', 'x', '--expires-days', '0'], 'cob: --expires-days: expected number to be >=1\n'],
    [['create', 'x', '--expires-days', '3651'], 'cob: --expires-days: expected number to be <=3650\n'],
    [['create', 'x', '--expires-days', '1e2'], 'must be a whole number'],
    [['create'], "missing required argument 'name'"],
    [['rotate', 'nothing'], 'there is no API key "nothing"'],
    [['delete', 'nothing'], 'there is no API key "nothing"'],
  ])('refuses %j', async (args, why) => {
    expect(await keys(...args)).toMatchObject({ code: 1, out: '', err: saying(why) })
  })

  test("does not delete the service's own key, which its next start would make again", async () => {
    const [own] = await cloud.query<{ id: string }>(`select id from api_keys where setting is not null`)
    expect(await keys('delete', own!.id)).toMatchObject({ code: 1, out: '' })
    expect(await opens(cloud.key)).toBe(200)
  })
})

test(
  'cob keys works while no service runs, and the next one takes the key; without a service there are none',
  async () => {
    const dir = scratchDir('cob-keys-')
    try {
      const nowhere = { COB_DATA_DIR: join(dir, 'x') }
      expect(await run(['list'], nowhere, 'keys')).toMatchObject({ code: 1, err: saying('is not the data directory of a service') })
      expect(existsSync(nowhere.COB_DATA_DIR)).toBe(false)
      copyTemplate(dir)
      await (await serviceOn(dir))[Symbol.asyncDispose]()
      const { code, out } = await run(['create', 'between'], { COB_DATA_DIR: dir }, 'keys')
      expect(code).toBe(0)
      await using service = await serviceOn(dir)
      expect((await fetch(`${service.url}/browsers`, { headers: { authorization: `Bearer ${out.trim()}` } })).status).toBe(200)
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
  COMMANDS_MS,
)

describe('cob env', () => {
  const shown = (command: string, given: Env = {}) => {
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
      cwd: PACKAGE_DIR,
      env: { PATH: process.env.PATH, COB_DATA_DIR: cloud.paths.root, COB_PUBLIC_URL: cloud.url, ...given },
      encoding: 'utf8',
    })
    return { status, out: stdout, err: stderr }
  }

  test('sets what a client needs, by eval', () => {
    const { out } = shown(
      'eval "$(bin/cob env --project "a\'b \\$x")"; printf "%s\\n" "$KERNEL_BASE_URL" "$KERNEL_AUTH_BASE_URL" "$KERNEL_API_KEY" "$KERNEL_PROJECT"',
    )
    expect(out.split('\n')).toEqual([cloud.url, cloud.url, cloud.key, "a'b $x", ''])
  })

  test('for fish and as JSON', () => {
    expect(shown('bin/cob env', { SHELL: '/usr/bin/fish' }).out).toContain(`set -gx KERNEL_API_KEY '${cloud.key}'`)
    expect(JSON.parse(shown('bin/cob env --json').out)).toEqual({ KERNEL_BASE_URL: cloud.url, KERNEL_AUTH_BASE_URL: cloud.url, KERNEL_API_KEY: cloud.key })
  })

  test('on a terminal reads the key from its file, unless it is to be shown', () => {
    const onTerminal = (args: string) => shown(`script --quiet --return --command "bin/cob env ${args}" /dev/null`).out
    expect(onTerminal('')).toContain(`KERNEL_API_KEY="$(cat '${cloud.paths.apiKey}')"`)
    for (const args of ['', '--json']) expect(onTerminal(args)).not.toContain(cloud.key)
    for (const args of ['--show-key', '--json --show-key']) expect(onTerminal(args)).toContain(cloud.key)
  })

  test('says the address of the settings, and what is missing', () => {
    expect(shown('bin/cob env', { COB_PUBLIC_URL: '', COB_HOST: '0.0.0.0', COB_PORT: '4000' }).out).toContain("KERNEL_BASE_URL='http://127.0.0.1:4000'")
    expect(shown('bin/cob env', { COB_API_KEY: 'the-key-of-settings-1' }).out).toContain("KERNEL_API_KEY='the-key-of-settings-1'")
    expect(shown('bin/cob env', { COB_PUBLIC_URL: '', COB_PORT: '0' })).toMatchObject({ status: 1, err: saying('cob: COB_PORT: is 0') })
    expect(shown('bin/cob env', { COB_DATA_DIR: '/nowhere' })).toMatchObject({ status: 1, err: saying('/nowhere/api-key is not there') })
  })
})

describe('cob status', () => {
  const here = () => ({ ...env, COB_PORT: new URL(cloud.url).port })

  test('says how the service is, and counts its sessions', { timeout: COMMANDS_MS }, async () => {
    await cloud.create()
    const { code, out, err } = await run([], here(), 'status')
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/^service +port \d+ of 127\.0\.0\.1: operational\n/)
    for (const line of [/^database +operational$/m, /^sessions +1 running$/m, /^free disk +[\d.]+ GB$/m, /^replicas +none/m]) expect(out).toMatch(line)
    expect(out).not.toContain(cloud.key)
    const parsed = JSON.parse((await run(['--json'], here(), 'status')).out) as object
    expect(parsed).toMatchObject({
      status: 'operational',
      browsers: { running: 1 },
      replicas: [],
      components: expect.arrayContaining([{ name: 'disk', status: 'operational' }]) as object[],
    })
  })

  test('says that none answers, or that another one does', { timeout: COMMANDS_MS }, async () => {
    expect(await run([], { ...env, COB_PORT: '1' }, 'status')).toMatchObject({ code: 1, out: 'no service answers at port 1 of 127.0.0.1\n' })
    expect(await run([], { ...here(), COB_API_KEY: 'the-key-of-another-one' }, 'status')).toMatchObject({
      code: 1,
      err: saying('/metrics answers 401: is another service there'),
    })
    expect(await run([], { ...env, COB_PORT: '0' }, 'status')).toMatchObject({ code: 1, err: saying('cob: COB_PORT: is 0') })
  })
})

describe('cob upgrade', () => {
  test('says how; --check says that there is nothing to do', async () => {
    expect(await run([], env, 'upgrade')).toMatchObject({ code: 0, out: saying('cob backup <folder>') })
    const { code, out } = await run(['--check'], env, 'upgrade')
    expect([code, out]).toEqual([0, saying('a start        changes nothing')])
    expect(out).toContain(`, ${migrationNames().length} migrations`)
  })

  test(
    '--check says what a start would do, and refuses a newer database',
    async () => {
      const last = migrationNames().at(-1)!
      const [row] = await cloud.query<{ timestamp: string }>('delete from kysely_migration where name = $1 returning timestamp', [last])
      try {
        expect(await run(['--check'], env, 'upgrade')).toMatchObject({ code: 0, out: saying(`makes 1 migration: ${last}`) })
        expect(await run([join(cloud.paths.root, 'x.tar')], env, 'backup')).toMatchObject({ code: 1, err: saying('of an older version of Cob') })
        await cloud.query('insert into kysely_migration values ($1, $2)', ['0001-foundation', row!.timestamp])
        const tooOld = { code: 1, err: saying('is of a version before the first release (its last migration is 0001-foundation)') }
        expect(await run(['list'], env, 'keys')).toMatchObject(tooOld)
        expect(await run(['--check'], env, 'upgrade')).toMatchObject({ code: 1, out: tooOld.err })
      } finally {
        await cloud.query('delete from kysely_migration where name = $1', ['0001-foundation'])
        await cloud.query('insert into kysely_migration values ($1, $2)', [last, row!.timestamp])
      }
      for (const [later, code, said] of [
        ['9999-later', 0, 'a newer version of Cob has added to the tables (9999-later), and this one works with them'],
        [
          '9999-later.breaks',
          1,
          'is refused: the database was upgraded by a newer version of Cob, and this one cannot work with its tables (9999-later.breaks)',
        ],
      ] as const) {
        await cloud.query('insert into kysely_migration values ($1, $2)', [later, '2030-01-01T00:00:00.000Z'])
        try {
          expect(await run(['--check'], env, 'upgrade')).toMatchObject({ code, out: saying(said) })
          expect(await run(['list'], env, 'keys')).toMatchObject({ code: 1, err: saying('of a newer version of Cob') })
        } finally {
          await cloud.query('delete from kysely_migration where name = $1', [later])
        }
      }
    },
    COMMANDS_MS,
  )
})
