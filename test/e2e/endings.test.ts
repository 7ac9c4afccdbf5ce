// Removes the files of ended sessions. Separate processes remove them, and continue until no file remains.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { isAlive, processesUsing, signalProcess } from '../../src/base/processes.ts'
import { until, within } from '../../src/base/wait.ts'
import { imageOf } from '../../src/instances/local/storage.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { processesOf } from '../support/inside.ts'
import { openSession } from '../support/session.ts'

/** With so many files their removal takes seconds. Hard links take as long to remove as files, but less time to create. */
const FOLDERS = 60
/** The limit for removers, which run at the lowest priority, on a loaded machine. */
const REMOVED_MS = 60_000

const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '0' }))

const trashOf = (): string[] => {
  const { trash } = dataPaths(cloud.dataDir)
  return existsSync(trash) ? readdirSync(trash) : []
}
const emptied = () => until('the trash to be empty', REMOVED_MS, () => trashOf().length === 0, { everyMs: 20 })

const runInside = async (id: string, script: string): Promise<void> => {
  const { exit_code, stderr_b64 } = await cloud.client.browsers.process.exec(id, { command: 'perl', args: ['-e', script], timeout_sec: 60 })
  expect([exit_code, Buffer.from(stderr_b64 ?? '', 'base64').toString()]).toEqual([0, ''])
}
const MANY_FILES = `mkdir "many";
for my $dir (1..${FOLDERS}) { mkdir "many/$dir"; open(F, ">", "many/$dir/0") or die $!; for (1..999) { link("many/$dir/0", "many/$dir/$_") or die $! } }`

/** Fills the folder of a session. If its disk is an image, all its files are one file for the host; then this fills the host's folder instead. */
async function fill(id: string): Promise<void> {
  const dir = dataPaths(cloud.dataDir).instance(id)
  if (existsSync(imageOf(dir))) execFileSync('perl', ['-e', MANY_FILES], { cwd: dir })
  else await runInside(id, `chdir "/home/kernel" or die; ${MANY_FILES}`)
}

test('a session with very many files is deleted immediately, another process removes its files, and a crash does not stop that', async () => {
  await using other = await openSession(cloud, { timeout_seconds: 300 })
  const { session_id: id } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  await fill(id)
  await cloud.remove(id)
  expect(trashOf()).toEqual([expect.stringContaining(id)])
  // A separate process removes the files. Stop it before it finishes, then kill it and the service.
  const removers = await until('a remover', REMOVED_MS, async () => {
    const found = await processesUsing(dataPaths(cloud.dataDir).trash, 'rm')
    return found.length > 0 && found
  })
  for (const remover of removers) signalProcess(remover, 'SIGSTOP')
  expect(existsSync(dataPaths(cloud.dataDir).instance(id))).toBe(false)
  expect(await other.page.evaluate('6 * 7')).toBe(42)
  expect(removers.map(({ pid }) => pid)).not.toContain(cloud.pid())
  await cloud.kill()
  for (const remover of removers) signalProcess(remover, 'SIGKILL')
  expect(trashOf()).toEqual([expect.stringContaining(id)])
  await cloud.start()
  await emptied()
})

test('a deleted session is out of use when that is answered: its sockets are closed, its processes are killed; nothing is left of it soon after', async () => {
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const browser = await chromium.connectOverCDP(cdp_ws_url)
  const processes = processesOf(cloud, id)
  const closed = new Promise<void>((resolve) => browser.once('disconnected', () => resolve()))
  await cloud.client.browsers.deleteByID(id)
  const row = await cloud.query('select state, end_reason from browsers where id = $1', [id])
  expect([
    { state: 'stopping', end_reason: 'deleted' },
    { state: 'deleted', end_reason: 'deleted' },
  ]).toContainEqual(row[0])
  expect([(await cloud.fetch(`/browsers/${id}`)).status, (await fetch(cdp_ws_url.replace('ws', 'http'))).status]).toEqual([404, 404])
  await within('the end of its connection', REMOVED_MS, closed)
  await until('its processes to leave', REMOVED_MS, () => !processes.some((name) => isAlive(name)))
  await until(
    'its row to be closed',
    REMOVED_MS,
    async () => (await cloud.query(`select 1 from browsers where id = $1 and state = 'deleted'`, [id])).length === 1,
  )
  expect([await processesUsing(dataPaths(cloud.dataDir).instance(id), ''), existsSync(dataPaths(cloud.dataDir).instance(id))]).toEqual([[], false])
})

test('unreadable folders, names with any bytes and folders nested deeper than the longest path are removed', async () => {
  const { session_id: id } = await cloud.client.browsers.create()
  await runInside(
    id,
    `chdir "/home/kernel" or die; mkdir "closed"; mkdir "closed/in"; open(F, ">", "closed/in/file") or die; chmod 0, "closed/in", "closed";
     mkdir "\\xff\\n\\x01-rf *"; symlink "/", "root"; for (1..2000) { mkdir "deep" or die $!; chdir "deep" or die $! }`,
  )
  await cloud.remove(id)
  await emptied()
})

test('a session that cannot be removed is deleted for its callers, and is removed as soon as that works', async () => {
  const { session_id: id, cdp_ws_url } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const processes = processesOf(cloud, id)
  const { trash, instance } = dataPaths(cloud.dataDir)
  if (existsSync(trash)) rmSync(trash, { recursive: true })
  writeFileSync(trash, 'in the way')
  await cloud.remove(id)
  expect(processes.filter(({ pid, ticks }) => isAlive({ pid, ticks }))).toEqual([])
  expect(existsSync(instance(id))).toBe(true)
  expect(await cloud.query('select state, deleted_at from browsers where id = $1', [id])).toEqual([{ state: 'stopping', deleted_at: expect.any(Date) as Date }])
  expect((await fetch(cdp_ws_url.replace('ws', 'http'))).status).toBe(404)
  expect((await cloud.fetch(`/browsers/${id}`)).status).toBe(404)
  // A second delete makes one more attempt, and is no error.
  await cloud.remove(id)
  rmSync(trash)
  await until('the end', REMOVED_MS, async () => (await cloud.query(`select 1 from browsers where id = $1 and state = 'deleted'`, [id])).length === 1)
  expect(existsSync(instance(id))).toBe(false)
})

test('an end that a crash interrupted, and that fails again at the next start, is retried until nothing is left', async () => {
  const { session_id: id } = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const { trash, instance } = dataPaths(cloud.dataDir)
  if (existsSync(trash)) rmSync(trash, { recursive: true })
  writeFileSync(trash, 'in the way')
  await cloud.remove(id)
  await cloud.kill()
  await cloud.start()
  expect(existsSync(instance(id))).toBe(true)
  rmSync(trash)
  // The row may end before or after the folder, because the service found the session as lost.
  const rows = () => cloud.query(`select 1 from browsers where id = $1 and state = 'deleted'`, [id])
  await until('the end', REMOVED_MS, async () => !existsSync(instance(id)) && (await rows()).length === 1)
})

test('remains that could not be removed at the start are removed when the service stops', async () => {
  const { trash, instance } = dataPaths(cloud.dataDir)
  await cloud.stop()
  const remains = instance(newId())
  mkdirSync(remains)
  writeFileSync(join(remains, 'replica'), newId())
  await emptied()
  if (existsSync(trash)) rmSync(trash, { recursive: true })
  writeFileSync(trash, 'in the way')
  await cloud.start()
  expect(existsSync(remains)).toBe(true)
  rmSync(trash)
  expect((await cloud.stop()).code).toBe(0)
  expect(existsSync(remains)).toBe(false)
  await cloud.start()
})
