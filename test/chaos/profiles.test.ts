// Kills something at each step of saving and of loading a profile. A profile is never half written, no whole version is lost, and the session says how it was saved.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { chromium } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { readArchive } from '../../src/agent/profile/archive.ts'
import { newId } from '../../src/base/ids.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { isAlive, nameProcess, signalProcess, type ProcessName } from '../../src/base/processes.ts'
import { isRoot } from '../../src/base/user.ts'
import { until } from '../../src/base/wait.ts'
import type { ProfileEnd } from '../../src/store/tables.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf, chromiumOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { servePages } from '../support/pages.ts'

/** The limit of one step on a busy machine, with the end and the start of processes. */
const STEP_MS = 60_000
/** Random bytes in the profile. They slow the steps that move it, so that a kill can hit these steps. */
const FILLER_BYTES = 16 * 1024 * 1024
const FILLER = 'zz-filler'
const PROFILE = 'victim'
/** Files that Chromium creates when it opens a profile, and that an archive never has. */
const MADE_BY_CHROMIUM = ['Favicons', 'Top Sites', 'shared_proto_db', 'Site Characteristics Database', 'Segmentation Platform']

/** The mark in the newest version of the profile. */
let mark: string
const pages = forTests(() => servePages())
const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '1' }))
beforeAll(async () => {
  await cloud.client.profiles.create({ name: PROFILE })
  const { session_id: id } = await cloud.client.browsers.create({ profile: { name: PROFILE, save_changes: true }, timeout_seconds: 300 })
  const filled = { command: 'sh', args: ['-c', `head -c ${FILLER_BYTES} /dev/urandom > /home/kernel/user-data/Default/${FILLER}`] }
  expect((await cloud.client.browsers.process.exec(id, filled)).exit_code).toBe(0)
  mark = await leave(id)
  await cloud.remove(id)
  expect(await endOf(id)).toMatchObject({ saved: 'whole' })
})

const address = () => pages.url('chooser.html')
async function inPage<T>(id: string, expression: string): Promise<T> {
  const { cdp_ws_url } = await cloud.client.browsers.retrieve(id)
  const connection = await chromium.connectOverCDP(cdp_ws_url)
  try {
    const page = await connection.contexts()[0]!.newPage()
    await page.goto(address())
    return await page.evaluate<T>(expression)
  } finally {
    await connection.close()
  }
}
/** Writes a new mark in the profile of a session. */
async function leave(id: string): Promise<string> {
  const left = newId()
  await inPage(id, `localStorage.mark = ${JSON.stringify(left)}`)
  return left
}

const rowOf = async (id: string) =>
  (
    await cloud.query<{ state: string; profile_id: string | null; profile_end: ProfileEnd | null }>(
      'select state, profile_id, profile_end from browsers where id = $1',
      [id],
    )
  )[0]
const endOf = async (id: string) => (await rowOf(id))?.profile_end
const versions = () =>
  cloud.query<{ id: string; session_id: string; object: string; bytes: number; sha256: string; is_whole: boolean; is_current: boolean }>(
    `select v.id, session_id, object, bytes::float8, sha256, is_whole, v.id = p.version_id as is_current
     from profile_versions v join profiles p on p.id = profile_id order by number desc`,
  )
const objects = (folder: string): string[] => {
  const path = join(dataPaths(cloud.dataDir).objects, folder)
  return existsSync(path) ? readdirSync(path).map((name) => join(path, name)) : []
}

/** Reads a version to its end, as a load does. Resolves with the bytes of its local storage and the length of its filler. @throws when the version is not whole */
async function read({ object, bytes, sha256 }: { object: string; bytes: number; sha256: string }): Promise<{ local: Buffer; filler: number }> {
  const content = readFileSync(join(dataPaths(cloud.dataDir).objects, object))
  expect([content.length, createHash('sha256').update(content).digest('hex')]).toEqual([bytes, sha256])
  const local: Buffer[] = []
  let filler = 0
  const file = (path: string) => ({
    write(piece: Buffer) {
      if (path.startsWith('Local Storage/')) local.push(Buffer.from(piece))
      if (path === FILLER) filler += piece.length
    },
    end() {},
  })
  await readArchive(Readable.from([content]), { directory() {}, file }, { keepTabs: true, maxBytes: 1024 ** 3 }, AbortSignal.timeout(STEP_MS))
  return { local: Buffer.concat(local), filler }
}

/** Checks that the current version is whole and has one of these marks, and remembers that mark. */
async function expectCurrent(marks: readonly string[]): Promise<void> {
  const current = (await versions()).find(({ is_current }) => is_current)!
  const { local, filler } = await read(current)
  expect(filler).toBe(FILLER_BYTES)
  const found = marks.find((one) => local.includes(one))
  expect(found).toBeDefined()
  mark = found!
}

/** The files of the profile in the session's browser, read from the host. Only root can read them. */
function folderOf(chromiumPid: number): string[] {
  try {
    return readdirSync(`/proc/${chromiumPid}/root/home/kernel/user-data/Profile 1`)
  } catch {
    return []
  }
}
const fillerIn = (chromiumPid: number): number =>
  statSync(`/proc/${chromiumPid}/root/home/kernel/user-data/Profile 1/${FILLER}`, { throwIfNoEntry: false })?.size ?? 0

interface Watched {
  id: string
  /** The agent and Chromium before the kill. */
  agent: ProcessName
  chromium: ProcessName
  /** The number of stored profile objects before the kill. */
  objects: number
}
type Step = [name: string, isReached: (watched: Watched) => boolean | Promise<boolean>]

const SAVE: Step[] = [
  ['its end is in the row', async ({ id }) => (await rowOf(id))!.state !== 'running'],
  ['Chromium has closed', ({ chromium: first }) => !isAlive(first)],
  ['its archive is on the way', () => objects('.new').some((path) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0)],
  ['the object is there', (watched) => objects('profiles').length > watched.objects],
  ['the version is in its row', async ({ id }) => (await versions()).some(({ session_id }) => session_id === id)],
]
const LOAD: Step[] = [
  ['a browser is claimed', () => true],
  ['the first file is unpacked', ({ chromium: { pid } }) => folderOf(pid).length > 0],
  ['the last file is unpacked', ({ chromium: { pid } }) => fillerIn(pid) === FILLER_BYTES],
  ['Chromium opens it', ({ chromium: { pid } }) => folderOf(pid).some((name) => MADE_BY_CHROMIUM.includes(name))],
  ['the row names it', async ({ id }) => (await rowOf(id))?.profile_id !== null],
]

const KILLS = {
  service: async () => {
    await cloud.kill()
    await cloud.start()
  },
  agent: async ({ agent }: Watched) => signalProcess(agent, 'SIGKILL'),
  Chromium: async ({ chromium: first }: Watched) => signalProcess(first, 'SIGKILL'),
}
type Victim = keyof typeof KILLS

/** In the long form, each victim at each step; in the short form, the service at each step and the others at every third. */
const cases = (steps: readonly Step[]): [Victim, ...Step][] =>
  steps.flatMap((step, at) =>
    (Object.keys(KILLS) as Victim[])
      .filter((victim, which) => victim === 'service' || (at + (which % 2)) % amount(3, 1) === 0)
      .map((victim): [Victim, ...Step] => [victim, ...step]),
  )

const watch = (id: string): Watched => ({
  id,
  agent: nameProcess(agentOf(cloud, id))!,
  chromium: nameProcess(chromiumOf(cloud, id))!,
  objects: objects('profiles').length,
})

/** The steps at which a kill has happened. */
const met = new Set<string>()

/** Kills at a step, or at the end of the work when the step was not seen. */
async function killAt(victim: Victim, [name, isReached]: Step, watched: Watched, work: Promise<unknown>): Promise<void> {
  let isOver = false
  void work.finally(() => (isOver = true)).catch(() => {})
  const look = async () => {
    // Read this before the look, so that the last look happens after the end of the work.
    const isLast = isOver
    if (await isReached(watched)) return met.add(name)
    return isLast
  }
  await until('the step', STEP_MS, look, { everyMs: 1 })
  await KILLS[victim](watched)
}
const gone = (id: string) => until('the end of the session', STEP_MS, async () => (await rowOf(id))?.state === 'deleted', { everyMs: 20 })

describe('saving', () => {
  test.each(cases(SAVE))('%s is killed when %s', async (victim, ...step) => {
    const { session_id: id } = await cloud.client.browsers.create({ profile: { name: PROFILE, save_changes: true }, timeout_seconds: 300 })
    const left = await leave(id)
    const before = await versions()
    const watched = watch(id)
    const saved = cloud.remove(id).catch(() => {})
    await killAt(victim, step, watched, saved)
    await saved
    await gone(id)
    const end = (await endOf(id))!
    const after = await versions()
    const mine = after.filter(({ session_id }) => session_id === id)
    // While the agent lives, only data that a killed Chromium had not written is lost.
    if (victim === 'service') expect(end.saved).toBe('whole')
    if (victim === 'Chromium') expect(['whole', 'in_part']).toContain(end.saved)
    expect(end.message).not.toBe('')
    if (end.saved === 'not') {
      expect(after).toEqual(before)
      return
    }
    expect(mine).toMatchObject([{ id: end.version_id, is_whole: end.saved === 'whole', is_current: true }])
    await expectCurrent(end.saved === 'whole' ? [left] : [left, mark])
  })
})

describe.runIf(isRoot())('loading', () => {
  test.each(cases(LOAD))('%s is killed when %s', async (victim, ...step) => {
    const name = `loads-${newId()}`
    const created = cloud.client.browsers.create({ name, profile: { name: PROFILE, save_changes: true }, timeout_seconds: 300 }).then(
      () => true,
      () => false,
    )
    const [{ id } = { id: '' }] = await until(
      'its row',
      STEP_MS,
      async () => {
        const rows = await cloud.query<{ id: string }>(`select id from browsers where name = $1 and state = 'running'`, [name])
        return rows.length > 0 && rows
      },
      { everyMs: 1 },
    )
    await killAt(victim, step, watch(id), created)
    const isCreated = await created
    if (isCreated && victim !== 'agent') {
      const shown = () => inPage(id, 'localStorage.mark').catch(() => undefined)
      await expect.poll(shown, { timeout: STEP_MS }).toBe(mark)
    }
    // If the service died, the caller may have no session id. Such a session would live until its timeout, so delete it here.
    await cloud.remove(id).catch(() => {})
    await gone(id)
    await expectCurrent([mark])
  })
})

test('each step has been met; all versions that are kept are whole, and the newest is loaded', async () => {
  expect([...SAVE, ...(isRoot() ? LOAD : [])].map(([name]) => name).filter((name) => !met.has(name))).toEqual([])
  const kept = await versions()
  expect(kept.length).toBeLessThanOrEqual(11)
  for (const version of kept) expect((await read(version)).filler).toBe(FILLER_BYTES)
  const { session_id: id } = await cloud.client.browsers.create({ profile: { name: PROFILE }, timeout_seconds: 300 })
  expect(await inPage(id, 'localStorage.mark')).toBe(mark)
  await cloud.remove(id)
})
