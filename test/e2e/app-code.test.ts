// The object store has the code of apps. The driver's disk has only copies, which may disappear at any time. Files that a build leaves do no harm.
import { toFile } from '@onkernel/sdk'
import { existsSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { createZstdCompress, zstdCompressSync } from 'node:zlib'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { beforeAll, describe, expect, test } from 'vitest'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { hasCode, zipOf } from '../support/apps.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'

/** The first install downloads packages. */
const BUILD_MS = 180_000
const RUN_MS = 90_000
const DISK_MB = 300

let paths: DataPaths
const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '0', COB_APP_MEMORY_MB: '512', COB_APP_DISK_MB: String(DISK_MB) }))
beforeAll(async () => {
  paths = dataPaths(cloud.dataDir)
})

/** Creates every kind of file that a hostile install script may leave. */
const HOSTILE = `
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const attempt = (work) => { try { work() } catch (error) { console.log('not possible: ' + error.message) } }
fs.mkdirSync('odd')
process.chdir('odd')
fs.symlinkSync('/etc/passwd', 'absolute')
fs.symlinkSync('../../../../../../../../etc', 'upwards')
fs.symlinkSync('.', 'loop')
fs.writeFileSync('setuid', '#!/bin/sh\\nid', { mode: 0o755 })
fs.chmodSync('setuid', 0o6777)
fs.writeFileSync('nobody may read', 'x')
fs.chmodSync('nobody may read', 0)
fs.writeFileSync('line\\nbreak and \\u{1f98a}', 'x')
fs.writeFileSync('-rf', 'x')
attempt(() => execFileSync('mkfifo', ['pipe']))
attempt(() => execFileSync('mknod', ['device', 'c', '1', '1']))
attempt(() => execFileSync('truncate', ['--size=200M', 'holes']))
for (let n = 0; n < 15; n++) { fs.mkdirSync('d'.repeat(200)); process.chdir('d'.repeat(200)) }
fs.writeFileSync('deep', 'x')
`
const SOURCE = (name: string) => `
import Kernel from '@onkernel/sdk'
import { execFileSync } from 'node:child_process'
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
const app = new Kernel().app('${name}')
app.action('echo', async (ctx, payload) => payload)
app.action('odd', async (ctx) => Object.fromEntries(readdirSync('/app/code/odd').map((name) => {
  const found = lstatSync('/app/code/odd/' + name)
  return [name, found.isSymbolicLink() ? readlinkSync('/app/code/odd/' + name) : (found.mode & 0o7777).toString(8)]
})))
app.action('deep', async (ctx) => execFileSync('find', ['/app/code/odd', '-name', 'deep']).length > 3000)
`

async function deploy(name: string, hostile = false): Promise<string> {
  const manifest = { name: 'app', private: true, type: 'module', dependencies: { '@onkernel/sdk': '0.84.0' } }
  const files = {
    'package.json': JSON.stringify({ ...manifest, ...(hostile && { scripts: { postinstall: 'node hostile.cjs' } }) }),
    'index.js': SOURCE(name),
    'hostile.cjs': HOSTILE,
  }
  const { id } = await cloud.client.deployments.create({ file: await toFile(await zipOf(files), 'app.zip'), entrypoint_rel_path: 'index.js' })
  const logs: string[] = []
  for await (const event of await cloud.client.deployments.follow(id, {}, { signal: AbortSignal.timeout(BUILD_MS) })) {
    if (event.event === 'log') logs.push(event.message)
    if (event.event !== 'deployment_state') continue
    if (event.deployment.status === 'running') return id
    if (event.deployment.status === 'failed') break
  }
  throw new Error(`the build failed:\n${logs.slice(-20).join('\n')}`)
}
const call = async (app: string, action: string, payload: unknown = 1) => {
  const body = { app_name: app, action_name: action, version: 'latest', payload: JSON.stringify(payload) }
  const { status, output, status_reason: reason } = await cloud.client.invocations.create(body, { signal: AbortSignal.timeout(RUN_MS) })
  return { status, output, reason }
}
const worked = { status: 'succeeded', output: '7', reason: undefined }
const keyOf = async (id: string) => (await cloud.query<{ code_key: string }>('select code_key from deployments where id = $1', [id]))[0]!.code_key
const objectOf = async (id: string) => join(paths.objects, await keyOf(id))
const copyOf = async (id: string) => join(paths.apps, basename(await keyOf(id)))
/** A compressed tar with one file of `bytes` zeros. */
function packedZeros(bytes: number): Promise<Buffer> {
  const tar = pack()
  const zeros = Buffer.alloc(8 * 1024 * 1024)
  const file = tar.entry({ name: 'zeros', size: bytes }, () => tar.finalize())
  Readable.from(Array.from({ length: bytes / zeros.length }, () => zeros)).pipe(file)
  return buffer(tar.pipe(createZstdCompress()))
}
/** Restarts the service without copies, as on a new machine. */
async function withoutCopies(change: () => void = () => {}): Promise<void> {
  await cloud.kill()
  for (const name of readdirSync(paths.apps)) rmSync(join(paths.apps, name), { recursive: true })
  change()
  await cloud.start()
}

describe('an app', () => {
  let id: string
  beforeAll(async () => {
    id = await deploy('usual')
  }, BUILD_MS)

  test('runs when its copies are gone: the object is fetched, once for all callers', async () => {
    expect(await call('usual', 'echo', 7)).toEqual(worked)
    await withoutCopies()
    const all = await Promise.all(Array.from({ length: 4 }, () => call('usual', 'echo', 7)))
    expect(all).toEqual(Array.from({ length: 4 }, () => worked))
    expect(readdirSync(paths.apps)).toEqual([basename(await keyOf(id))])
  })

  test('whose object is not what was stored does not run, and says why', async () => {
    const object = await objectOf(id)
    const whole = readFileSync(object)
    for (const { content, why } of [
      { content: Buffer.from('no package'), why: /could not be unpacked: .+/ },
      { content: whole.subarray(0, whole.length / 2), why: /could not be unpacked: .+/ },
      { content: zstdCompressSync(Buffer.alloc(10_000, 'x')), why: /could not be unpacked: tar: .+/ },
    ]) {
      await withoutCopies(() => writeFileSync(object, content))
      expect(await call('usual', 'echo', 7)).toMatchObject({ status: 'failed', reason: expect.stringMatching(why) as string })
      expect(existsSync(await copyOf(id))).toBe(false)
    }
    await withoutCopies(() => writeFileSync(object, whole))
    expect(await call('usual', 'echo', 7)).toEqual(worked)
  })

  test('whose code unpacks to more than a sandbox may write is ended at that limit', async () => {
    const object = await objectOf(id)
    const whole = readFileSync(object)
    const bomb = await packedZeros(1024 ** 3)
    expect(bomb.length).toBeLessThan(1024 * 1024)
    await withoutCopies(() => writeFileSync(object, bomb))
    const { status, reason } = await call('usual', 'echo', 7)
    expect([status, reason]).toEqual(['failed', expect.stringMatching(/could not be unpacked: (it has \d+ MiB .*300 (MiB )?are allowed|.*File too large)/s)])
    await withoutCopies(() => writeFileSync(object, whole))
  })

  test('whose object is gone does not run, says why, and runs again when it is back', async () => {
    const object = await objectOf(id)
    await withoutCopies(() => renameSync(object, `${object}.away`))
    const { status, reason } = await call('usual', 'echo', 7)
    expect([status, reason]).toEqual(['failed', 'the code of its deployment is gone from the object store; deploy it again'])
    renameSync(`${object}.away`, object)
    expect(await call('usual', 'echo', 7)).toEqual(worked)
  })
})

test('what a hostile build leaves runs as it was left, before and after it has been packed, and is nothing more than files', async () => {
  const id = await deploy('hostile', true)
  const before = JSON.parse((await call('hostile', 'odd')).output!) as Record<string, string>
  expect(before).toMatchObject({ absolute: '/etc/passwd', upwards: '../../../../../../../../etc', loop: '.', 'line\nbreak and \u{1f98a}': '644' })
  await withoutCopies()
  const { 'nobody may read': _, ...rest } = before
  expect(JSON.parse((await call('hostile', 'odd')).output!)).toEqual({ ...rest, setuid: '755' })
  expect((await call('hostile', 'deep')).output).toBe('true')
  expect(statSync(await objectOf(id)).size).toBeLessThan(50 * 1024 * 1024)
  await cloud.client.deployments.delete(id)
  await until('its code to go', 20_000, () => !hasCode(paths, id))
})
