// Kills the service, its Postgres, agents and browsers, and checks that no session is lost and no process remains.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { isAlive, killAt } from '../../src/base/processes.ts'
import { isRoot } from '../../src/base/user.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { findLimits } from '../../src/instances/local/limits.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf, processesOf } from '../support/inside.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const gone = (cloud: Cloud, id: string) =>
  until(
    'the session to be gone',
    20_000,
    async () => (await cloud.query('select 1 from browsers where id = $1 and state = $2', [id, 'deleted'])).length === 1,
    { everyMs: 50 },
  )
/** The end reason that the API gives for an ended session. */
const endOf = async (cloud: Cloud, id: string): Promise<unknown> => {
  const listed = (await cloud.client.browsers.list({ include_deleted: true })).items.find(({ session_id }) => session_id === id)
  const found = await cloud.client.browsers.retrieve(id, { include_deleted: true })
  expect(listed).toMatchObject({ end_reason: (found as unknown as { end_reason: string }).end_reason })
  return (found as unknown as { end_reason: string }).end_reason
}
/** Connects a client to a session. `closed` resolves with the close code and reason of its connection. */
async function client(made: { cdp_ws_url: string }): Promise<{ closed: Promise<object> }> {
  const socket = new WebSocket(made.cdp_ws_url)
  await once(socket, 'open')
  return { closed: once(socket, 'close').then(([code, reason]) => ({ code: code as number, ...(JSON.parse(String(reason)) as object) })) }
}
const postmaster = (cloud: Cloud): number => Number(readFileSync(join(cloud.dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0])

/** Each test that uses this service leaves it running, with a warm browser. */
const own = forTests(() => startCloud())

test.each([
  ['the service', false],
  ['the service, its process group and its Postgres', true],
])('killing %s and starting it again keeps every session, its page and its URLs', async (_what, everything) => {
  await own.warm()
  const made = await own.client.browsers.create({ name: 'kept', tags: { a: 'b' }, timeout_seconds: 300 })
  const browser = await chromium.connectOverCDP(made.cdp_ws_url)
  const page = browser.contexts()[0]!.pages()[0]!
  await page.goto('data:text/html,<title>kept</title>')
  await page.evaluate('window.mark = 42')
  await own.warm()
  const warm = (await own.query<{ id: string }>(`select id from browsers where state = 'warm'`)).map(({ id }) => id)
  const database = postmaster(own)
  await own.kill(everything)
  if (everything) process.kill(database, 'SIGKILL')
  await browser.close().catch(() => {})
  await own.start()
  const found = await own.client.browsers.retrieve('kept')
  const { usage: _then, ...before } = made
  const { usage: _now, ...after } = found
  expect(after).toEqual(before)
  const again = await chromium.connectOverCDP(made.cdp_ws_url)
  expect(await again.contexts()[0]!.pages()[0]!.evaluate('window.mark')).toBe(42)
  await again.close()
  expect((await own.query<{ id: string }>(`select id from browsers where state = 'warm'`)).map(({ id }) => id)).toEqual(warm)
  if (!everything) expect(postmaster(own)).toBe(database)
  await own.client.browsers.deleteByID(made.session_id)
})

test.each([
  ['agent', (cloud: Cloud, id: string) => agentOf(cloud, id)],
  ['network (pasta)', (cloud: Cloud, id: string) => processesOf(cloud, id)[0]!.pid],
  ['sandbox (bwrap)', (cloud: Cloud, id: string) => processesOf(cloud, id)[1]!.pid],
  ['X server', (cloud: Cloud, id: string) => processesOf(cloud, id).find(({ command }) => command.startsWith('Xvfb'))!.pid],
])('a session whose %s dies is recorded as crashed, its clients are told, and nothing of it is left', async (_name, find) => {
  await using cloud = await shareCloud({ COB_WARM_BROWSERS: '0' })
  const made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const socket = new WebSocket(made.cdp_ws_url)
  await once(socket, 'open')
  const closed = once(socket, 'close')
  const processes = processesOf(cloud, made.session_id)
  process.kill(find(cloud, made.session_id), 'SIGKILL')
  expect((await closed)[0]).toBe(4003)
  await gone(cloud, made.session_id)
  await expect(cloud.client.browsers.retrieve(made.session_id)).rejects.toMatchObject({ status: 404 })
  expect(await endOf(cloud, made.session_id)).toBe('crashed')
  expect(processes.filter(({ pid, ticks }) => isAlive({ pid, ticks })).map(({ command }) => command)).toEqual([])
})

test('after downtime of the service, an instance that ended is detected, and one without a row is removed', async () => {
  await using cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  const [lost, orphan] = [await cloud.client.browsers.create({ timeout_seconds: 300 }), await cloud.client.browsers.create({ timeout_seconds: 300 })]
  await cloud.query('delete from browsers where id = $1', [orphan.session_id])
  const victims = [processesOf(cloud, lost.session_id)[0]!.pid]
  await cloud.kill()
  for (const pid of victims) process.kill(pid, 'SIGKILL')
  await cloud.start()
  await expect(cloud.client.browsers.retrieve(lost.session_id)).rejects.toMatchObject({ status: 404 })
  expect((await cloud.query('select end_reason from browsers where id = $1', [lost.session_id]))[0]).toEqual({ end_reason: 'lost' })
})

test('a create whose caller leaves creates no session', async () => {
  await using cloud = await shareCloud({ COB_WARM_BROWSERS: '0' })
  const leave = new AbortController()
  const call = cloud.fetch('/browsers', { method: 'POST', signal: leave.signal }).catch(() => 'left')
  await until('the start', 20_000, async () => (await cloud.query(`select 1 from browsers where state = 'starting'`)).length === 1, { everyMs: 5 })
  leave.abort()
  expect(await call).toBe('left')
  await until('the undo', 20_000, async () => (await cloud.query(`select 1 from browsers where state <> 'deleted'`)).length === 0, { everyMs: 50 })
})

test('a session whose Chromium crashes again and again ends as browser_failed, and one that is deleted or idle says so', async () => {
  await using cloud = await shareCloud({ COB_WARM_BROWSERS: '0' })
  const [failing, idle, deleted] = await Promise.all([300, 10, 300].map((timeout_seconds) => cloud.client.browsers.create({ timeout_seconds })))
  const leaving = await client(deleted!)
  await cloud.client.browsers.deleteByID(deleted!.session_id)
  expect(await leaving.closed).toEqual({ code: 4001, reason: 'deleted' })
  while ((await cloud.query(`select 1 from browsers where id = $1 and state = 'running'`, [failing!.session_id])).length > 0) {
    const chromium = processesOf(cloud, failing!.session_id).find(({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='))
    if (chromium) killAt(chromium.pid)
    await sleep(200)
  }
  await gone(cloud, failing!.session_id)
  await gone(cloud, idle!.session_id)
  expect(await Promise.all([failing!, idle!, deleted!].map(({ session_id }) => endOf(cloud, session_id)))).toEqual(['browser_failed', 'timeout', 'deleted'])
})

test.runIf(isRoot() && findLimits('probe').boundsMemory)('a session whose agent is killed by the kernel for memory ends as memory_limit', async () => {
  await using cloud = await startCloud({ COB_WARM_BROWSERS: '0', COB_INSTANCE_MEMORY_MB: '768' })
  const made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  // The kernel kills the agent first because of its oom_score_adj, which is set after the program has started: programs that the agent starts later would inherit it.
  const fill = `sleep 3; my @all; push @all, "x" x 10_000_000 for 1 .. 200`
  await cloud.client.browsers.process.spawn(made.session_id, { command: 'perl', args: ['-e', fill] })
  writeFileSync(`/proc/${agentOf(cloud, made.session_id)}/oom_score_adj`, '1000')
  await gone(cloud, made.session_id)
  expect(await endOf(cloud, made.session_id)).toBe('memory_limit')
})

test('Ctrl-C ends the service, its sessions and its Postgres, and two services cannot share their data', async () => {
  await using session = await openSession(own)
  const other = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(PACKAGE_DIR, 'src/cli/main.ts'), 'serve'], {
    env: { ...process.env, COB_DATA_DIR: own.dataDir, COB_PORT: '0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  other.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  expect((await once(other, 'exit'))[0]).toBe(1)
  expect(said).toMatch(/another Cob runs with this data directory already \(process \d+ on port \d+ of /)
  expect(await session.page.evaluate('1')).toBe(1)
})

test('a Postgres that is killed under a running service is started again, and sessions continue', async () => {
  await using session = await openSession(own, { timeout_seconds: 300 })
  process.kill(postmaster(own), 'SIGKILL')
  await until('the death to be noticed', 10_000, () => own.log().includes('Postgres ended by itself'))
  await until(
    'the service to answer again',
    30_000,
    () =>
      own.client.browsers.retrieve(session.id).then(
        () => true,
        () => false,
      ),
    { everyMs: 200 },
  )
  expect(await session.page.evaluate('1')).toBe(1)
  const made = await own.client.browsers.create()
  await own.client.browsers.deleteByID(made.session_id)
})
