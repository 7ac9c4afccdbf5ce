// `cob backup` while real browsers run and record, and a second service from it on the same machine: its replays play, its profiles open, and it leaves the
// browsers of the first one alone.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { sleep, until, within } from '../../src/base/wait.ts'
import { callsTo, startCloud, type Cloud, type OwnCloud } from '../support/cloud.ts'
import { decode, probe } from '../support/films.ts'

const TEST_MS = 240_000
const SOON_MS = 60_000
const RUN_MS = 120_000

let cloud: OwnCloud
let folder: string
beforeAll(async () => {
  cloud = await startCloud()
  folder = mkdtempSync(join(tmpdir(), 'cob-restored-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await cloud[Symbol.asyncDispose]()
})

async function cob(args: string[], dataDir: string): Promise<void> {
  const child = spawn(join(PACKAGE_DIR, 'bin/cob'), args, {
    env: { PATH: process.env.PATH, COB_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_MS,
  })
  const [, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  expect([args[0], child.exitCode, err]).toEqual([args[0], 0, expect.any(String)])
}

type Calls = Pick<Cloud, 'client' | 'fetch' | 'remove'>

/** A service on a data directory, beside the other one. Disposing stops it, and fails when an instance is left. */
async function serviceOn(dataDir: string): Promise<Calls & AsyncDisposable> {
  const probing = createServer().listen(0, '127.0.0.1')
  await once(probing, 'listening')
  const { port } = probing.address() as AddressInfo
  probing.close()
  const env = { ...process.env, COB_DATA_DIR: dataDir, COB_PORT: String(port), COB_GREETING: '0', COB_WARM_BROWSERS: '1', COB_WARM_BROWSERS_MAX: '1' }
  const child = spawn(join(PACKAGE_DIR, 'bin/cob'), ['serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = Promise.all([text(child.stdout), text(child.stderr)])
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  const isUp = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  await Promise.race([
    until('the restored service', SOON_MS, isUp, { everyMs: 50 }),
    exited.then(async () => {
      throw new Error(`the restored service ended: ${(await said).join('').slice(-3000)}`)
    }),
  ])
  const calls = callsTo({ url, key: readFileSync(join(dataDir, 'api-key'), 'utf8').trim(), dataDir })
  return {
    client: calls.client,
    fetch: calls.fetch,
    remove: calls.remove,
    async [Symbol.asyncDispose]() {
      child.kill('SIGINT')
      await within('the restored service to stop', SOON_MS, exited).catch((error: unknown) => {
        child.kill('SIGKILL')
        throw error
      })
      expect([child.exitCode, readdirSync(join(dataDir, 'instances'))]).toEqual([0, []])
    },
  }
}

/** The film of a replay, as ffprobe reads it: how long it is. */
async function played({ fetch }: Calls, session: string, replay: string): Promise<number> {
  const bytes = await until(
    'the film',
    SOON_MS,
    async () => {
      const answer = await fetch(`/browsers/${session}/replays/${replay}`)
      const found = Buffer.from(await answer.arrayBuffer())
      return answer.status === 200 ? found : undefined
    },
    { everyMs: 200 },
  )
  const file = join(folder, `${replay}.mp4`)
  writeFileSync(file, bytes)
  await decode(file)
  return (await probe(file)).seconds
}

const evaluated = async ({ client }: Calls, session: string, code: string): Promise<unknown> => {
  const { success, result, error } = await client.browsers.playwright.execute(session, { code })
  expect([success, error]).toEqual([true, error])
  return result
}

test(
  'a backup of running browsers becomes a service whose replays play and whose profiles open, while those browsers go on',
  async () => {
    const { client } = cloud
    await client.profiles.create({ name: 'kept' })
    const first = await client.browsers.create({ profile: { name: 'kept', save_changes: true }, timeout_seconds: 600 })
    const recorded = await client.browsers.replays.start(first.session_id, {})
    const cookie = `await context.addCookies([{ name: 'who', value: 'kim', domain: 'site.test', path: '/', expires: Date.now() / 1000 + 3600 }])`
    await evaluated(cloud, first.session_id, `${cookie}; await page.goto('data:text/html,<h1>recorded</h1>'); return 1`)
    await sleep(3_000)
    await cloud.fetch(`/browsers/${first.session_id}/replays/${recorded.replay_id}/stop`, { method: 'POST' })
    await cloud.remove(first.session_id)
    await until('the profile', SOON_MS, async () => (await client.profiles.retrieve('kept')).updated_at !== undefined, { everyMs: 100 })
    const seconds = await played(cloud, first.session_id, recorded.replay_id)

    const running = await client.browsers.create({ timeout_seconds: 600 })
    const open = await client.browsers.replays.start(running.session_id, {})
    await evaluated(cloud, running.session_id, `await page.goto('data:text/html,<title>here</title><h1>running</h1>'); return 1`)
    await sleep(4_000)

    const file = join(folder, 'backup.tar')
    const dataDir = join(folder, 'data')
    await cob(['backup', file, '--with-keys'], cloud.dataDir)
    await cob(['restore', file], dataDir)
    {
      await using restored = await serviceOn(dataDir)
      expect(await played(restored, first.session_id, recorded.replay_id)).toBe(seconds)
      expect(await played(restored, running.session_id, open.replay_id)).toBeGreaterThan(1)
      const listed = await (await restored.fetch('/browsers')).json()
      expect(listed).toEqual([])
      const ended = (await (await restored.fetch(`/browsers/${running.session_id}?include_deleted=true`)).json()) as { deleted_at?: string }
      expect(ended.deleted_at).toEqual(expect.any(String))
      const again = await restored.client.browsers.create({ profile: { name: 'kept' } })
      expect(await evaluated(restored, again.session_id, `return (await context.cookies()).find((one) => one.name === 'who')?.value`)).toBe('kim')
      await restored.remove(again.session_id)
      // The browser of the first service is another one's, although both have its row.
      expect(await evaluated(cloud, running.session_id, 'return await page.title()')).toBe('here')
    }
    expect(await evaluated(cloud, running.session_id, 'return await page.title()')).toBe('here')
    expect(await (await cloud.fetch(`/browsers/${running.session_id}`)).json()).toMatchObject({ session_id: running.session_id })
    await cloud.remove(running.session_id)
    expect(await played(cloud, running.session_id, open.replay_id)).toBeGreaterThan(3)
  },
  TEST_MS,
)
