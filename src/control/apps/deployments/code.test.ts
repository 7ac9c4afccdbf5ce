// The code of deployments as objects: stored by builds, swept when no row names it.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { existsSync, readdirSync } from 'node:fs'
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
const leftBuild = (what: Deploy, read: number) => leaveBuild(host, service(), what, read)

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
