// Runs `cob backup` while real browsers run and record, and starts a second service from the backup on the same machine. Its replays play and its profiles open, while
// the browsers of the first service continue.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { decode, probe } from '../support/films.ts'
import { forTests } from '../support/for-tests.ts'

const TEST_MS = 240_000
const SOON_MS = 60_000
const RUN_MS = 120_000

let folder: string
const cloud = forTests(() => startCloud())
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cob-restored-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
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

type Calls = Pick<Cloud, 'client' | 'fetch'>

/** The length of a replay's video in seconds, from ffprobe. */
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
      await using restored = await startCloud({}, { dataDir })
      expect(await played(restored, first.session_id, recorded.replay_id)).toBe(seconds)
      expect(await played(restored, running.session_id, open.replay_id)).toBeGreaterThan(1)
      const listed = await (await restored.fetch('/browsers')).json()
      expect(listed).toEqual([])
      const ended = (await (await restored.fetch(`/browsers/${running.session_id}?include_deleted=true`)).json()) as { deleted_at?: string }
      expect(ended.deleted_at).toEqual(expect.any(String))
      const again = await restored.client.browsers.create({ profile: { name: 'kept' } })
      expect(await evaluated(restored, again.session_id, `return (await context.cookies()).find((one) => one.name === 'who')?.value`)).toBe('kim')
      await restored.remove(again.session_id)
      // Both services have a row of this browser, but it still belongs to the first one.
      expect(await evaluated(cloud, running.session_id, 'return await page.title()')).toBe('here')
    }
    expect(await evaluated(cloud, running.session_id, 'return await page.title()')).toBe('here')
    expect(await (await cloud.fetch(`/browsers/${running.session_id}`)).json()).toMatchObject({ session_id: running.session_id })
    await cloud.remove(running.session_id)
    expect(await played(cloud, running.session_id, open.replay_id)).toBeGreaterThan(3)
  },
  TEST_MS,
)
