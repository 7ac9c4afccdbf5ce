// The code of deployments as objects: stored by builds, packed from folders of earlier versions, swept when no row names it.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { deployParts, fakeApps, hasCode as codeIsThere, HOST, leaveBuild, type Deploy } from '../../../../test/support/apps.ts'
import { silentLog } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { until } from '../../../base/wait.ts'
import type { Objects } from '../../../store/objects.ts'
import { sweepObjects } from '../../service/system/objects.ts'
import type { Deployments } from './deployments.ts'
import { cleaned, host, lines, NOTICE_MS, reaches, restarted, row, service } from './lab.suite.ts'
import { codeObjects } from './rows.ts'

const signal = new AbortController().signal

const hasCode = (id: string) => codeIsThere(host.paths, id)
const create = async (deployments: Deployments, what: Deploy = {}) => (await deployments.create(DEFAULT_PROJECT, deployParts(what), signal)).id
const leftBuild = (what: Deploy, read: number, isEarlier = false) => leaveBuild(host, service(), what, read, { isEarlier })

/** An object store that is away until `back` is called. */
function awayStore(): { objects: Objects; asked: () => number; back: () => void } {
  let asked = 0
  let isAway = true
  const put: Objects['put'] = async (key, ...rest) => {
    if (!isAway || !key.startsWith('code/')) return host.objects.put(key, ...rest)
    asked++
    throw new Unavailable('the object store does not answer', 1)
  }
  return { objects: { ...host.objects, put }, asked: () => asked, back: () => void (isAway = false) }
}
const codeOf = (id: string) => codeObjects(host.db, HOST).named([id])
const stored = () => (existsSync(join(host.paths.objects, 'code')) ? readdirSync(join(host.paths.objects, 'code')).map((name) => `code/${name}`) : [])

describe('the code of a build', () => {
  const env = fakeApps({ coded: ['x'] })

  test('is an object before its deployment runs, and its copy is kept', async () => {
    const deployments = restarted()
    const id = await create(deployments, { env })
    const { code_key, code_bytes } = await reaches(id, 'running')
    const code = await deployments.code(id)
    expect([code.key, code.bytes]).toEqual([code_key, code_bytes])
    expect(await text(await code.open(signal))).toBe(`code of ${(await row(id)).sandbox_id}`)
    await until('the copy', NOTICE_MS, () => existsSync(join(host.paths.apps, basename(code.key))))
  })

  test('waits for an object store that is away, without using up an attempt', async () => {
    const store = awayStore()
    const deployments = restarted({ objects: store.objects })
    const id = await create(deployments, { env })
    await until('two attempts to store it', NOTICE_MS, () => store.asked() >= 2)
    expect((await row(id)).state).toBe('in_progress')
    store.back()
    expect(await reaches(id, 'running')).toMatchObject({ attempts: 1 })
    expect(await lines(id)).toEqual(['installing'])
  })

  test('that is too large fails the build, and nothing of it is kept', async () => {
    const deployments = restarted({ maxCodeBytes: 10 })
    const id = await create(deployments, { env })
    expect((await reaches(id, 'failed')).status_reason).toBe('the built code, packed, has more than 10 bytes')
    await cleaned(id)
    expect([stored().filter((key) => key.includes(id)), hasCode(id)]).toEqual([[], false])
  })

  test('that the version clash refuses is removed', async () => {
    const deployments = restarted()
    await reaches(await create(deployments, { env, version: 'one' }), 'running')
    const id = await create(deployments, { env, version: 'one' })
    expect((await reaches(id, 'failed')).status_reason).toMatch(/exists already/)
    await cleaned(id)
    expect([stored().filter((key) => key.includes(id)), hasCode(id)]).toEqual([[], false])
  })

  test('is stored again when the service was killed between the object and the row; the sweep removes the first', async () => {
    const id = await leftBuild({ env }, 0)
    await host.db.updateTable('deployments').set({ runner_seq: 1 }).where('id', '=', id).execute()
    const orphan = `code/${id}.killed`
    await host.objects.put(orphan, Readable.from([Buffer.from('code')]), { maxBytes: 100 }, signal)
    restarted()
    await reaches(id, 'running')
    expect(stored()).toContain(orphan)
    await sweepObjects({ ...host, log: silentLog, owners: [codeObjects(host.db, HOST)] }, signal, -60_000)
    expect(stored()).toEqual(await codeOf(id))
    expect(stored()).toHaveLength(1)
  })
})

describe('a deployment of an earlier version, whose code is a folder', () => {
  /** A running deployment as an earlier version leaves it. */
  async function earlier(): Promise<string> {
    const before = restarted()
    const id = await create(before, { env: fakeApps({ earlier: ['x'] }) })
    const { code_key } = await reaches(id, 'running')
    await until('the copy', NOTICE_MS, () => existsSync(join(host.paths.apps, basename(code_key!))))
    await before[Symbol.asyncDispose]()
    renameSync(join(host.paths.apps, basename(code_key!)), join(host.paths.apps, id))
    await host.objects.delete(code_key!)
    await host.db.updateTable('deployments').set({ code_key: null, code_bytes: null }).where('id', '=', id).execute()
    return id
  }

  test('is packed by the next start, once, also when runs ask for it at the same time', async () => {
    const id = await earlier()
    const deployments = restarted()
    const codes = await Promise.all([deployments.code(id), deployments.code(id)])
    expect([...new Set(codes.map(({ key }) => key))]).toEqual(await codeOf(id))
    expect(await text(await codes[0]!.open(signal))).toMatch(/^code of /)
    expect(existsSync(join(host.paths.apps, id))).toBe(false)
    expect(stored()).toEqual(await codeOf(id))
  })

  test('is packed without being asked for', async () => {
    const id = await earlier()
    restarted()
    await until('its object', NOTICE_MS, async () => (await codeOf(id)).length > 0)
  })

  test('was built while the service was replaced: its runner does not pack, and its folder is packed afterwards', async () => {
    const id = await leftBuild({ env: { ...fakeApps({ between: ['x'] }), FAKE_UNPACKED: '1' } }, 1, true)
    mkdirSync(join(host.paths.apps, id))
    const deployments = restarted()
    await reaches(id, 'running')
    const { key } = await deployments.code(id)
    expect(await codeOf(id)).toEqual([key])
  })

  test('is stopped when the folder is gone, with a reason that says what to do', async () => {
    const id = await earlier()
    rmSync(join(host.paths.apps, id), { recursive: true })
    restarted()
    expect((await reaches(id, 'stopped')).status_reason).toBe('its code is no longer on this machine; deploy it again')
    expect(await host.db.selectFrom('app_versions').select('id').where('deployment_id', '=', id).execute()).toEqual([])
  })
})
