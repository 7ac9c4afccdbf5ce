// The published SDK and the files of a session: every operation, large files in both directions, watches, and the browser's downloads.
import type Kernel from '@onkernel/sdk'
import { BadRequestError, NotFoundError, toFile } from '@onkernel/sdk'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, openAsBlob, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { within } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf } from '../support/inside.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { tempDir, treeOf } from '../support/trees.ts'

const MB = 1024 * 1024
const HOME = '/home/kernel'

let fs: Kernel['browsers']['fs']
let id: string
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  fs = cloud.client.browsers.fs
  id = (await cloud.client.browsers.create({ timeout_seconds: 3600 })).session_id
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

const read = async (path: string, session = id): Promise<string> => (await fs.readFile(session, { path })).text()
const names = async (path: string, session = id): Promise<string[]> => (await fs.listFiles(session, { path })).map(({ name }) => name)

describe('files and directories', () => {
  test('can be created, written, read, described, moved and deleted', async () => {
    await fs.createDirectory(id, { path: `${HOME}/papers/deep`, mode: '700' })
    await fs.writeFile(id, 'hello', { path: `${HOME}/papers/new/a.txt` })
    expect(await read(`${HOME}/papers/new/a.txt`)).toBe('hello')
    const info = await fs.fileInfo(id, { path: `${HOME}/papers/new/a.txt` })
    conforms('FFileInfoResponse', info)
    expect(info).toMatchObject({ name: 'a.txt', path: `${HOME}/papers/new/a.txt`, is_dir: false, size_bytes: 5, mode: '-rw-r--r--' })
    expect(Math.abs(Date.parse(info.mod_time) - Date.now())).toBeLessThan(60_000)
    await fs.writeFile(id, new Uint8Array([1, 2, 3]), { path: `${HOME}/papers/b.bin`, mode: '600' })
    const list = await fs.listFiles(id, { path: `${HOME}/papers` })
    conforms('FListFilesResponse', list)
    expect(list.map(({ name, mode, size_bytes, is_dir }) => [name, mode, size_bytes, is_dir])).toEqual([
      ['b.bin', '-rw-------', 3, false],
      ['deep', 'drwx------', 0, true],
      ['new', 'drwxr-xr-x', 0, true],
    ])
    await fs.move(id, { src_path: `${HOME}/papers/new`, dest_path: `${HOME}/papers/moved` })
    // Move from disk to memory, which is another file system.
    await fs.move(id, { src_path: `${HOME}/papers/moved`, dest_path: '/tmp/moved' })
    expect(await read('/tmp/moved/a.txt')).toBe('hello')
    await fs.deleteFile(id, { path: '/tmp/moved/a.txt' })
    await fs.deleteDirectory(id, { path: '/tmp/moved' })
    await fs.deleteDirectory(id, { path: `${HOME}/papers` })
    await expect(fs.fileInfo(id, { path: `${HOME}/papers` })).rejects.toBeInstanceOf(NotFoundError)
    await expect(fs.readFile(id, { path: '/tmp/moved/a.txt' })).rejects.toBeInstanceOf(NotFoundError)
  })

  test('have permissions that can be set, and only one owner', async () => {
    await fs.writeFile(id, '#!/bin/sh\n', { path: `${HOME}/run` })
    await fs.setFilePermissions(id, { path: `${HOME}/run`, mode: '0755', owner: 'kernel', group: '1000' })
    expect((await fs.fileInfo(id, { path: `${HOME}/run` })).mode).toBe('-rwxr-xr-x')
    for (const wrong of [{ owner: 'root' }, { owner: '0' }, { owner: 'somebody' }, { group: 'nogroup' }])
      await expect(fs.setFilePermissions(id, { path: `${HOME}/run`, mode: '600', ...wrong })).rejects.toMatchObject({
        status: 400,
        error: { details: [{ code: 'invalid_input', message: expect.stringContaining(Object.keys(wrong)[0]!) }] },
      })
    expect((await fs.fileInfo(id, { path: `${HOME}/run` })).mode).toBe('-rwxr-xr-x')
    await fs.deleteFile(id, { path: `${HOME}/run` })
  })

  test.each([
    ['path', () => fs.readFile(id, { path: 'etc/passwd' })],
    ['path', () => fs.readFile(id, { path: `${HOME}/../x` })],
    ['path', () => fs.writeFile(id, 'x', { path: HOME })],
    ['path', () => fs.writeFile(id, 'x', { path: '/usr/x' })],
    ['mode', () => fs.writeFile(id, 'x', { path: `${HOME}/x`, mode: '9' })],
    ['path', () => fs.deleteDirectory(id, { path: HOME })],
    ['path', () => fs.deleteFile(id, { path: HOME })],
    ['dest_path', () => fs.move(id, { src_path: `${HOME}/Downloads`, dest_path: `${HOME}/Downloads/x` })],
    ['path', () => fs.watch.start(id, { path: '/etc/passwd' })],
  ])('refuse what is impossible, and the error names %s', async (field, call) => {
    await expect(call()).rejects.toBeInstanceOf(BadRequestError)
    await expect(call()).rejects.toMatchObject({
      error: { code: 'bad_request', details: [{ code: 'invalid_input', message: expect.stringContaining(`${field}: `) }] },
    })
  })
})

describe('many files at once', () => {
  test('can be uploaded together, zipped, unpacked elsewhere, and come back unchanged', async () => {
    using dir = tempDir()
    const large = Buffer.alloc(3 * MB, 'large ')
    await fs.upload(id, {
      files: [
        { dest_path: `${HOME}/set/a.txt`, file: await toFile(Buffer.from('A'), 'a') },
        { dest_path: `${HOME}/set/sub/large`, file: await toFile(large, 'b') },
        { dest_path: `${HOME}/set/ü 🌽`, file: await toFile(Buffer.alloc(0), 'c') },
      ],
    })
    await fs.createDirectory(id, { path: `${HOME}/set/empty` })
    const zip = Buffer.from(await (await fs.downloadDirZip(id, { path: `${HOME}/set` })).arrayBuffer())
    writeFileSync(join(dir.path, 'a.zip'), zip)
    execFileSync('unzip', ['-q', join(dir.path, 'a.zip'), '-d', join(dir.path, 'x')], { env: { ...process.env, LC_ALL: 'C.UTF-8' } })
    expect(treeOf(join(dir.path, 'x'))).toEqual({ 'a.txt': 'A 644', empty: '/ 755', sub: '/ 755', 'sub/large': `${large.toString()} 644`, 'ü 🌽': ' 644' })
    await fs.uploadZip(id, { dest_path: '/tmp/copy', zip_file: await toFile(zip, 'a.zip') })
    expect(Buffer.from(await (await fs.downloadDirZip(id, { path: '/tmp/copy' })).arrayBuffer()).length).toBe(zip.length)
    expect(await names('/tmp/copy')).toEqual(['a.txt', 'empty', 'sub', 'ü 🌽'])
    for (const path of [`${HOME}/set`, '/tmp/copy']) await fs.deleteDirectory(id, { path })
  })

  test('in a zip made outside keep their permissions and links', async () => {
    using dir = tempDir()
    mkdirSync(join(dir.path, 'in/bin'), { recursive: true })
    writeFileSync(join(dir.path, 'in/bin/tool'), 'tool', { mode: 0o755 })
    symlinkSync('bin/tool', join(dir.path, 'in/tool'))
    execFileSync('zip', ['-qry', '../a.zip', '.'], { cwd: join(dir.path, 'in') })
    await fs.uploadZip(id, { dest_path: `${HOME}/tools`, zip_file: await toFile(readFileSync(join(dir.path, 'a.zip')), 'a.zip') })
    expect((await fs.listFiles(id, { path: `${HOME}/tools` })).map(({ name, mode }) => [name, mode])).toEqual([
      ['bin', 'drwxr-xr-x'],
      ['tool', 'lrwxrwxrwx'],
    ])
    expect(await read(`${HOME}/tools/tool`)).toBe('tool')
    expect((await fs.fileInfo(id, { path: `${HOME}/tools/bin/tool` })).mode).toBe('-rwxr-xr-x')
    await fs.deleteDirectory(id, { path: `${HOME}/tools` })
  })
})

const rssOf = (pid: number): number => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024

test('300 MB are uploaded and downloaded with equal checksums, and neither agent nor service grows by half of that', async () => {
  using dir = tempDir()
  const path = join(dir.path, 'large')
  writeFileSync(path, execFileSync('head', ['-c', String(8 * MB), '/dev/urandom'], { maxBuffer: 16 * MB }))
  truncateSync(path, 300 * MB)
  const processes = [agentOf(cloud, id), cloud.pid()]
  const before = processes.map(rssOf)
  const most = [...before]
  const watcher = setInterval(() => processes.forEach((pid, index) => (most[index] = Math.max(most[index]!, rssOf(pid)))), 20)
  try {
    await fs.writeFile(id, await openAsBlob(path), { path: `${HOME}/large` })
    const sums = [createHash('sha256'), createHash('sha256')]
    for await (const chunk of (await fs.readFile(id, { path: `${HOME}/large` })).body as unknown as AsyncIterable<Uint8Array>) sums[0]!.update(chunk)
    for await (const chunk of (await openAsBlob(path)).stream() as unknown as AsyncIterable<Uint8Array>) sums[1]!.update(chunk)
    expect(sums[0]!.digest('hex')).toBe(sums[1]!.digest('hex'))
  } finally {
    clearInterval(watcher)
  }
  const grown = most.map((bytes, index) => Math.round((bytes - before[index]!) / MB))
  console.log(`300 MB both ways: the agent grew by ${grown[0]} MB, the service by ${grown[1]} MB`)
  expect(Math.max(...grown)).toBeLessThan(150)
  const part = await fs.readFile(id, { path: `${HOME}/large` }, { headers: { range: 'bytes=8388600-8388615' } })
  expect([part.status, part.headers.get('content-range'), (await part.arrayBuffer()).byteLength]).toEqual([206, `bytes 8388600-8388615/${300 * MB}`, 16])
  await fs.deleteFile(id, { path: `${HOME}/large` })
})

describe('watches', () => {
  /** Collects the events of a watch until `last` is true for one. */
  const follow = async (watchId: string, last: (path: string, type: string) => boolean, session = id): Promise<string[]> =>
    receivedBy(await fs.watch.events(watchId, { id: session }), last)

  /** Collects the events of an open stream in the same way. */
  async function receivedBy(events: Awaited<ReturnType<typeof fs.watch.events>>, last: (path: string, type: string) => boolean): Promise<string[]> {
    const received: string[] = []
    const read = async (): Promise<string[]> => {
      for await (const event of events) {
        conforms('WatchEventsResponse', event)
        received.push(`${event.type} ${event.path}${event.is_dir ? '/' : ''}`)
        if (last(event.path, event.type)) return received
      }
      return [...received, 'end']
    }
    return within('the last of the events', 20_000, read())
  }

  test('report what happened before the first reader came, and what happens in new directories', async () => {
    const started = await fs.watch.start(id, { path: HOME, recursive: true })
    conforms('WatchStartResponse', started)
    await fs.writeFile(id, 'x', { path: `${HOME}/seen/deep/down/f` })
    const received = await follow(started.watch_id!, (path, type) => path.endsWith('/f') && type === 'WRITE')
    const mine = received.filter((line) => line.includes('/seen'))
    expect(mine).toEqual([
      `CREATE ${HOME}/seen/`,
      `CREATE ${HOME}/seen/deep/`,
      `CREATE ${HOME}/seen/deep/down/`,
      `CREATE ${HOME}/seen/deep/down/f`,
      `WRITE ${HOME}/seen/deep/down/f`,
    ])
    await fs.watch.stop(started.watch_id!, { id })
    await fs.deleteDirectory(id, { path: `${HOME}/seen` })
  })

  test('can have several readers, end when they are stopped, and are then gone', async () => {
    await fs.createDirectory(id, { path: '/tmp/watched' })
    const { watch_id } = await fs.watch.start(id, { path: '/tmp/watched' })
    const streams = await Promise.all([1, 2].map(() => fs.watch.events(watch_id!, { id })))
    const readers = streams.map((events) => receivedBy(events, () => false))
    await fs.writeFile(id, 'x', { path: '/tmp/watched/last' })
    await fs.watch.stop(watch_id!, { id })
    for (const received of await Promise.all(readers)) expect(received).toEqual(['CREATE /tmp/watched/last', 'WRITE /tmp/watched/last', 'end'])
    await expect(fs.watch.stop(watch_id!, { id })).rejects.toBeInstanceOf(NotFoundError)
    await expect(fs.watch.events(watch_id!, { id })).rejects.toBeInstanceOf(NotFoundError)
  })

  test("end with the session, and so do their readers' streams", async () => {
    const other = (await cloud.client.browsers.create()).session_id
    const { watch_id } = await fs.watch.start(other, { path: HOME })
    const received = follow(watch_id!, () => false, other).catch(() => ['cut off'])
    await cloud.client.browsers.deleteByID(other)
    expect((await received).at(-1)).toMatch(/end|cut off/)
  })
})
