// Hostile paths, files, archives and callers. Each call gets an answer, touches nothing outside the session and leaves nothing behind, and memory stays bounded.
import type Kernel from '@onkernel/sdk'
import { toFile } from '@onkernel/sdk'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf, openFilesOf, processesOf, runInside } from '../support/inside.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { tempDir } from '../support/trees.ts'
import { makeZip } from '../support/zips.ts'

const MB = 1024 * 1024
const HOME = '/home/kernel'
/** The agent's memory growth in all these tests. Afterwards the agent holds 17 MB; the rest is garbage that Node has not collected yet, up to 120 MB. */
const GROWTH = 200 * MB

let fs: Kernel['browsers']['fs']
let id: string
let agent: number
let before: number
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  fs = cloud.client.browsers.fs
  id = (await cloud.client.browsers.create({ timeout_seconds: 3600 })).session_id
  agent = agentOf(cloud, id)
  await fs.writeFile(id, 'warm', { path: `${HOME}/warm` })
  before = rss()
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

const rss = (): number => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${agent}/status`, 'utf8'))![1]) * 1024
const filesOpen = (): number => openFilesOf(cloud, id)?.length ?? 0
const inside = async (line: string): Promise<string> => (await runInside(cloud, id, line)).output.trim()
/** Finds unfinished uploads anywhere in the session; the file calls do not show them. */
const unfinished = (): Promise<string> => inside(`find ${HOME} /tmp /dev/shm -name '.cob-part-*' 2>/dev/null`)
const status = async (answer: PromiseLike<unknown>): Promise<number> =>
  answer.then(
    () => 200,
    (error: { status?: number }) => error.status ?? 0,
  )

describe('paths', () => {
  const call = (path: string) => [
    () => fs.readFile(id, { path }, { timeout: 5_000 }),
    () => fs.writeFile(id, 'x', { path }, { timeout: 5_000 }),
    () => fs.fileInfo(id, { path }),
    () => fs.listFiles(id, { path }),
    () => fs.deleteFile(id, { path }),
    () => fs.deleteDirectory(id, { path }),
    () => fs.createDirectory(id, { path }),
    () => fs.downloadDirZip(id, { path }),
    () => fs.move(id, { src_path: path, dest_path: path }),
    () => fs.setFilePermissions(id, { path, mode: '777' }),
    () => fs.watch.start(id, { path }),
  ]
  test.each([
    ['that go up', `${HOME}/../../etc/passwd`],
    ['that are relative', 'etc/passwd'],
    ['with U+0000', `${HOME}/a\0b`],
    ['of 5,000 bytes', `/${'x'.repeat(5_000)}`],
    ['with a name of 4,000 bytes', `/tmp/${'y'.repeat(4_000)}`],
    ['that are empty', ''],
  ])('%s are refused by every call', async (_, path) => {
    for (const each of call(path)) expect(await status(each())).toBe(400)
  })

  test.each([
    '/proc/self/mem',
    '/proc/1/mem',
    '/proc/kcore',
    '/proc/kmsg',
    '/proc/self/pagemap',
    '/dev/zero',
    '/dev/random',
    '/dev/tty',
    '/dev/ptmx',
    '/dev/stdin',
    '/proc/self/fd/0',
  ])('%s is answered immediately by every call, and still exists afterwards', async (path) => {
    for (const each of call(path)) expect([200, 400, 404]).toContain(await status(each()))
    expect(await status(fs.readFile(id, { path }, { timeout: 5_000 }))).not.toBe(200)
    await fs.fileInfo(id, { path: `${HOME}/warm` })
  })

  test("with links lead to the session's own files, and to nothing of the machine or of another session", async () => {
    const other = (await cloud.client.browsers.create()).session_id
    await fs.writeFile(other, 'secret of another', { path: `${HOME}/secret` })
    writeFileSync(join(cloud.dataDir, 'secret'), 'secret of the machine')
    const targets = [
      cloud.dataDir,
      join(cloud.dataDir, 'secret'),
      join(cloud.dataDir, 'instances', other, 'home/secret'),
      '/srv',
      '/etc/shadow',
      '/proc/1/root/etc/shadow',
    ]
    for (const [index, target] of targets.entries()) {
      await inside(`ln -s ${target} ${HOME}/link${index}`)
      expect([400, 404]).toContain(await status(fs.readFile(id, { path: `${HOME}/link${index}` })))
      expect([400, 404]).toContain(await status(fs.readFile(id, { path: `${HOME}/link${index}/secret` })))
      expect([400, 404]).toContain(await status(fs.writeFile(id, 'x', { path: `${HOME}/link${index}/x` })))
      await fs.deleteFile(id, { path: `${HOME}/link${index}` })
    }
    await inside(`ln -s /etc ${HOME}/etc`)
    expect(await (await fs.readFile(id, { path: `${HOME}/etc/passwd` })).text()).toContain('kernel:x:1000')
    expect(await (await fs.readFile(id, { path: `${HOME}/etc/passwd` })).text().then((text) => text.split('\n').length)).toBeLessThan(6)
    await fs.deleteFile(id, { path: `${HOME}/etc` })
    expect(readFileSync(join(cloud.dataDir, 'secret'), 'utf8')).toBe('secret of the machine')
    await cloud.client.browsers.deleteByID(other)
  })

  test('to FIFOs and sockets block nobody, and directories deeper than any path can be deleted', async () => {
    await inside(
      `mkdir ${HOME}/odd; cd ${HOME}/odd; mkfifo pipe; node -e "require('net').createServer().listen('socket', () => process.kill(process.pid, 'SIGKILL'))"; ln -s pipe link`,
    )
    for (const name of ['pipe', 'socket', 'link']) {
      expect(await status(fs.readFile(id, { path: `${HOME}/odd/${name}` }, { timeout: 5_000 }))).toBe(400)
      expect(await status(fs.writeFile(id, 'x', { path: `${HOME}/odd/${name}` }, { timeout: 5_000 }))).toBe(400)
    }
    expect(await status(fs.downloadDirZip(id, { path: `${HOME}/odd` }))).toBe(200)
    await inside(`cd ${HOME}/odd; node -e "for (let i = 0; i < 600; i++) { require('fs').mkdirSync('x'.repeat(100)); process.chdir('x'.repeat(100)) }"`)
    await fs.deleteDirectory(id, { path: `${HOME}/odd` })
    expect(await status(fs.fileInfo(id, { path: `${HOME}/odd` }))).toBe(404)
  })
})

describe('archives', () => {
  test.each([
    ['that go up', makeZip([{ name: '../../evil' }])],
    ['that are absolute', makeZip([{ name: '/tmp/evil' }])],
    [
      'with a link to the outside and a file through it',
      makeZip([
        { name: 'l', content: '/tmp', mode: 0o120777 },
        { name: 'l/evil', content: 'x' },
      ]),
    ],
    ['that are bombs of 1 GB', makeZip([{ name: 'bomb', content: Buffer.alloc(1024 * MB) }])],
    [
      'that are many bombs in one',
      makeZip([
        { name: 'a', content: Buffer.alloc(64 * MB) },
        ...Array.from({ length: 99 }, (_, index) => ({ name: `b${index}`, content: '', size: 64 * MB, sameAs: 0 })),
      ]),
    ],
  ])('%s are refused and leave nothing', async (_, zip) => {
    expect(await status(fs.uploadZip(id, { dest_path: `${HOME}/unpacked`, zip_file: await toFile(zip, 'a.zip') }))).toBe(400)
    expect([await status(fs.fileInfo(id, { path: `${HOME}/unpacked` })), await status(fs.fileInfo(id, { path: '/tmp/evil' }))]).toEqual([404, 404])
    expect(await unfinished()).toBe('')
    expect(rss() - before).toBeLessThan(GROWTH)
  })
})

const head = (method: string, path: string, more = '') =>
  `${method} /browsers/${id}/fs/${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cloud.key}\r\n${more}\r\n`
function line(): Socket {
  const { hostname, port } = new URL(cloud.url)
  return connect(Number(port), hostname).on('error', () => {})
}

describe('hostile callers', () => {
  test('that leave during an upload leave nothing', async () => {
    const open = filesOpen()
    const sockets = Array.from({ length: 20 }, (_, index) => {
      const socket = line()
      socket.write(head('PUT', `write_file?path=${HOME}/gone/${index}/f`, 'Content-Length: 50000000\r\n'))
      socket.write(Buffer.alloc(2 * MB))
      return socket
    })
    await expect.poll(async () => (await unfinished()).split('\n').length, { timeout: 30_000 }).toBe(20)
    for (const socket of sockets) socket.destroy()
    await expect.poll(unfinished, { timeout: 30_000 }).toBe('')
    expect(await status(fs.fileInfo(id, { path: `${HOME}/gone` }))).toBe(404)
    await expect.poll(filesOpen).toBeLessThanOrEqual(open + 5)
  })

  test('that send a form which ends in the middle of a file get a 400, and the agent continues', async () => {
    const body = `--b\r\nContent-Disposition: form-data; name="files[0][dest_path]"\r\n\r\n/tmp/half\r\n--b\r\nContent-Disposition: form-data; name="files[0][file]"; filename="f"\r\n\r\nhalf of it`
    for (let i = 0; i < 5; i++)
      expect(
        (await cloud.fetch(`/browsers/${id}/fs/upload`, { method: 'POST', headers: { 'content-type': 'multipart/form-data; boundary=b' }, body })).status,
      ).toBe(400)
    expect(await status(fs.fileInfo(id, { path: '/tmp/half' }))).toBe(404)
    expect(agentOf(cloud, id)).toBe(agent)
  })

  test('that stop reading block nobody and cost no memory; when they leave, their files are closed', async () => {
    await inside(`truncate -s 2G ${HOME}/huge`)
    const open = filesOpen()
    const sockets = Array.from({ length: 20 }, (_, index) => {
      const socket = line()
      socket.pause()
      socket.write(head('GET', index % 2 ? `read_file?path=${HOME}/huge` : `download_dir_zip?path=${HOME}`))
      return socket
    })
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    expect(await (await fs.readFile(id, { path: `${HOME}/warm` })).text()).toBe('warm')
    expect(rss() - before).toBeLessThan(GROWTH)
    for (const socket of sockets) socket.destroy()
    await expect.poll(filesOpen, { timeout: 10_000 }).toBeLessThanOrEqual(open + 5)
    await fs.deleteFile(id, { path: `${HOME}/huge` })
  })

  test('that are fifty at once each get their own file back', async () => {
    const texts = Array.from({ length: 50 }, (_, index) => String(index).repeat(200_000))
    await Promise.all(texts.map((text, index) => fs.writeFile(id, text, { path: `${HOME}/many/${index}` })))
    const back = await Promise.all(texts.map(async (_, index) => (await fs.readFile(id, { path: `${HOME}/many/${index}` })).text()))
    expect(back).toEqual(texts)
    await Promise.all(texts.map((text) => fs.writeFile(id, text, { path: `${HOME}/many/one` })))
    expect(texts).toContain(await (await fs.readFile(id, { path: `${HOME}/many/one` })).text())
    await fs.deleteDirectory(id, { path: `${HOME}/many` })
    expect(rss() - before).toBeLessThan(GROWTH)
  })
})

test('10,000 files are listed in order', async () => {
  await inside(`mkdir /tmp/list; cd /tmp/list; seq -w 10000 | xargs touch`)
  const list = await fs.listFiles(id, { path: '/tmp/list' })
  expect(list.length).toBe(10_000)
  expect(list.map(({ name }) => name)).toEqual(list.map(({ name }) => name).toSorted())
  await fs.deleteDirectory(id, { path: '/tmp/list' })
})

test.each([
  ['while nobody reads', 'unread'],
  ['while its reader has stopped reading', 'stopped'],
  ['while its program gets no turn', 'held'],
])('a watch that is flooded %s reports missing events: a new list shows everything, and memory stays limited', async (_, how) => {
  await fs.createDirectory(id, { path: '/tmp/flood' })
  const { watch_id } = await fs.watch.start(id, { path: '/tmp/flood', recursive: true })
  const helper = processesOf(cloud, id).find(({ command }) => /^\S*perl .*inotify\.pl/.test(command))!.pid
  const stopped = line().pause()
  if (how === 'stopped') stopped.write(head('GET', `watch/${watch_id}/events`))
  if (how === 'held') process.kill(helper, 'SIGSTOP')
  // The names are long, so that their events exceed the buffers of a connection several times.
  await inside(`node -e "for (let i = 0; i < 60000; i++) require('fs').writeFileSync('/tmp/flood/' + 'x'.repeat(150) + i, '')"`)
  if (how === 'held') process.kill(helper, 'SIGCONT')
  expect(rss() - before).toBeLessThan(GROWTH)
  stopped.destroy()
  let known = new Set<string>()
  let overflows = 0
  for await (const event of await fs.watch.events(watch_id!, { id })) {
    const { type, name, error } = event as { type?: string; name?: string; error?: { code: string } }
    if (error?.code === 'overflow') {
      known = new Set((await inside('ls /tmp/flood | tr -d x')).split('\n'))
      if (++overflows === 1) await fs.writeFile(id, 'x', { path: '/tmp/flood/last' })
    } else if (type === 'CREATE') known.add(name!.replaceAll('x', ''))
    // The event of the last file arrives, or another overflow drops it, and then the file is in the list.
    if (known.has('last')) break
  }
  expect(overflows).toBeGreaterThan(0)
  expect(known.size).toBe(60_001)
  expect(rss() - before).toBeLessThan(GROWTH)
  await fs.watch.stop(watch_id!, { id })
  await fs.deleteDirectory(id, { path: '/tmp/flood' })
})

test('a full disk is reported as such, and incomplete files are removed', () => {
  using dir = tempDir()
  const zip = join(dir.path, 'a.zip')
  writeFileSync(
    zip,
    makeZip([
      { name: 'small', content: 'x' },
      { name: 'large', content: Buffer.alloc(5 * MB, 'ab'), store: true },
    ]),
  )
  const script = `
    import { readdirSync, writeFileSync } from 'node:fs'
    import { Readable } from 'node:stream'
    import { openFiles } from '${PACKAGE_DIR}/src/agent/fs/files.ts'
    import { unzip } from '${PACKAGE_DIR}/src/agent/fs/unzip.ts'
    const files = openFiles('/mnt', { warn() {}, error() {} })
    const signal = AbortSignal.timeout(10000)
    const large = () => Readable.from(Array.from({ length: 50 }, () => Buffer.alloc(100000)))
    const say = async (work) => console.log(await work().then(() => 'done', ({ code, message }) => code + ': ' + message), readdirSync('/mnt'))
    writeFileSync('/mnt/kept', 'kept')
    await say(() => files.write('/mnt/a/b', undefined, large(), signal))
    await say(() => files.write('/mnt/kept', undefined, large(), signal))
    await say(() => files.upload((async function* () { yield { name: 'files[0][file]', filename: 'x', content: large() } })(), signal))
    await say(() => unzip('${zip}', '/mnt/to', signal))
    await say(() => files.move('${zip}', '/mnt/moved', signal))
    await say(() => files.write('/mnt/fits', undefined, Readable.from([Buffer.from('x')]), signal))
  `
  const bwrap = [
    '--dev-bind',
    '/',
    '/',
    '--size',
    String(MB),
    '--tmpfs',
    '/mnt',
    '--',
    process.execPath,
    '--disable-warning=ExperimentalWarning',
    '--input-type=module',
    '-e',
    script,
  ]
  const said = execFileSync('bwrap', bwrap).toString().trim().split('\n')
  const full = /^unavailable: there is no space left on the disk \[ 'kept' \]$/
  expect(
    said.slice(0, 5).every((line) => full.test(line)),
    said.join('\n'),
  ).toBe(true)
  expect(said[5]).toBe("done [ 'fits', 'kept' ]")
})
