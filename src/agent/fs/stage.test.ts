// Write, create, move and delete: atomically, and a cancelled operation leaves nothing.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { createDirectory, deleteDirectory, deleteFile, move, setPermissions } from './change.ts'
import { onPath } from './faults.ts'
import { writeFile } from './stage.ts'

const signal = new AbortController().signal
const write = (path: string, text: string | Readable, mode?: number, until = signal) =>
  onPath('path', path, () => writeFile(path, mode, typeof text === 'string' ? Readable.from([Buffer.from(text)]) : text, until))
const refused = { code: 'bad_request' }
const absent = { code: 'not_found' }

describe('writing a file', () => {
  test('creates missing folders, sets permissions, and keeps the permissions of an existing file', async () => {
    using dir = tempDir()
    await write(`${dir.path}/a/b/f`, 'one')
    expect(treeOf(dir.path)).toEqual({ a: '/ 755', 'a/b': '/ 755', 'a/b/f': 'one 644' })
    await write(`${dir.path}/a/b/f`, 'two', 0o755)
    await write(`${dir.path}/a/b/f`, 'three')
    expect(treeOf(dir.path)['a/b/f']).toBe('three 755')
    await write(`${dir.path}/empty`, Readable.from([]), 0o600)
    expect(treeOf(dir.path)['empty']).toBe(' 600')
  })

  test('shows readers the old file or the new one, always complete', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    const texts = ['a', 'b'].map((letter) => letter.repeat(3_000_000))
    await write(path, texts[0]!)
    let writing = true
    const seen = new Set<string>()
    const reader = (async () => {
      while (writing) {
        const text = readFileSync(path, 'latin1')
        seen.add(`${text.length} ${new Set([text[0], text[1_500_000], text.at(-1)]).size}`)
        await sleep(1)
      }
    })()
    for (let i = 1; i < 20; i++) await write(path, texts[i % 2]!)
    writing = false
    await reader
    expect([...seen]).toEqual(['3000000 1'])
  })

  test('leaves nothing if it is aborted, not even the folders that it created', async () => {
    using dir = tempDir()
    const left = new AbortController()
    const body = new Readable({ read() {} })
    body.on('error', () => {})
    body.push(Buffer.alloc(100_000))
    const writing = write(`${dir.path}/a/b/f`, body, undefined, left.signal)
    await expect.poll(() => existsSync(`${dir.path}/a/b`) && readdirSync(`${dir.path}/a/b`).length, { timeout: 10_000 }).toBe(1)
    left.abort(new Error('gone'))
    await expect(writing).rejects.toThrow('gone')
    expect(readdirSync(dir.path)).toEqual([])
    await write(`${dir.path}/f`, 'kept')
    const broken = new Readable({ read: () => void broken.destroy(new Error('the line broke')) })
    await expect(write(`${dir.path}/f`, broken)).rejects.toThrow('the line broke')
    expect(treeOf(dir.path)).toEqual({ f: 'kept 644' })
  })

  test('leaves nothing of shared folders if many are aborted at once, except what a successful one needs', async () => {
    using dir = tempDir()
    const left = new AbortController()
    const begin = (name: string, until: AbortSignal) => {
      const body = new Readable({ read() {} })
      body.on('error', () => {})
      body.push('x')
      return { body, writing: write(`${dir.path}/${name}/f`, body, undefined, until) }
    }
    const given = Array.from({ length: 10 }, (_, index) => begin(`a/b/${index % 3}`, left.signal))
    await expect.poll(() => readdirSync(`${dir.path}/a/b`).length).toBe(3)
    left.abort(new Error('gone'))
    await Promise.allSettled(given.map(({ writing }) => writing))
    expect(readdirSync(dir.path)).toEqual([])
    const again = new AbortController()
    const [first, second, third] = [begin('a/b/c', again.signal), begin('a/b/d', signal), begin('a/e', again.signal)]
    await expect.poll(() => readdirSync(`${dir.path}/a`).length).toBe(2)
    again.abort(new Error('gone'))
    second.body.push(null)
    await Promise.allSettled([first, second, third].map(({ writing }) => writing))
    expect(treeOf(dir.path)).toEqual({ a: '/ 755', 'a/b': '/ 755', 'a/b/d': '/ 755', 'a/b/d/f': 'x 644' })
  })

  test('tells every one of many aborted writes the reason, and leaves no shared folder, however they meet', { timeout: 120_000 }, async () => {
    // Without the lock, one of 300 rounds fails. They take 8 s on an idle machine.
    for (let round = 0; round < 300; round++) {
      using dir = tempDir()
      const left = new AbortController()
      const writing = Array.from({ length: 10 }, (_, index) => {
        const body = new Readable({ read() {} })
        body.on('error', () => {})
        return write(`${dir.path}/a/b/${index % 3}/f`, body, undefined, left.signal)
      })
      const ends = Promise.allSettled(writing)
      await expect.poll(() => existsSync(`${dir.path}/a/b`) && readdirSync(`${dir.path}/a/b`).length, { interval: 1 }).toBe(3)
      left.abort(new Error('gone'))
      expect((await ends).map((end) => end.status === 'rejected' && (end.reason as Error).message)).toEqual(Array.from({ length: 10 }, () => 'gone'))
      expect(readdirSync(dir.path)).toEqual([])
    }
  })

  test('keeps a folder that another call asked for, if it is aborted', async () => {
    using dir = tempDir()
    const left = new AbortController()
    const body = new Readable({ read() {} })
    body.on('error', () => {})
    const writing = write(`${dir.path}/a/b/f`, body, undefined, left.signal)
    await expect.poll(() => existsSync(`${dir.path}/a/b`) && readdirSync(`${dir.path}/a/b`).length, { timeout: 10_000 }).toBe(1)
    await createDirectory(`${dir.path}/a`, 0o755)
    left.abort(new Error('gone'))
    await expect(writing).rejects.toThrow('gone')
    expect(treeOf(dir.path)).toEqual({ a: '/ 755' })
  })

  test('follows links, also to files that do not exist yet, and keeps the links', async () => {
    using dir = tempDir()
    mkdirSync(`${dir.path}/real`)
    symlinkSync('real/f', `${dir.path}/link`)
    symlinkSync('link', `${dir.path}/second`)
    await write(`${dir.path}/second`, 'text')
    expect(treeOf(dir.path)).toEqual({ link: '-> real/f', real: '/ 755', 'real/f': 'text 644', second: '-> link' })
    // A link's target is relative to the link's real folder, not to the path that led to the link.
    mkdirSync(`${dir.path}/deep/er`, { recursive: true })
    symlinkSync('deep/er', `${dir.path}/short`)
    symlinkSync('../up', `${dir.path}/deep/er/link`)
    await write(`${dir.path}/short/link`, 'up')
    symlinkSync('short/../over', `${dir.path}/around`)
    await write(`${dir.path}/around`, 'over')
    expect(treeOf(`${dir.path}/deep`)).toEqual({ er: '/ 755', 'er/link': '-> ../up', over: 'over 644', up: 'up 644' })
    symlinkSync('circle', `${dir.path}/circle`)
    await expect(write(`${dir.path}/circle`, 'x')).rejects.toMatchObject(refused)
  })

  test.each([
    ['a folder', (path: string) => mkdirSync(path)],
    ['a FIFO', (path: string) => void execFileSync('mkfifo', [path])],
    ['a socket', (path: string) => new Promise<void>((resolve) => void createServer().listen(path, resolve).unref())],
    ['a link to a device', (path: string) => symlinkSync('/dev/null', path)],
  ])('refuses %s as the target', async (_, make) => {
    using dir = tempDir()
    await Promise.resolve(make(`${dir.path}/there`))
    await expect(write(`${dir.path}/there`, 'x')).rejects.toMatchObject(refused)
    expect(readdirSync(dir.path)).toEqual(['there'])
  })

  test.each([
    ['below a file', 'f/below-a-file'],
    ['with a name of 256 bytes', 'x'.repeat(256)],
    ['of 6,000 bytes', `${'y'.repeat(200)}/`.repeat(30)],
  ])('refuses a path %s', async (_, name) => {
    using dir = tempDir()
    writeFileSync(`${dir.path}/f`, 'f')
    await expect(write(`${dir.path}/${name}`, 'x')).rejects.toMatchObject(refused)
    expect(readdirSync(dir.path)).toEqual(['f'])
  })

  test('refuses directories of the kernel where nothing can be written', async () => {
    for (const path of ['/proc/nope', '/proc/self/nope/x', '/sys/nope']) await expect(write(path, 'x')).rejects.toBeInstanceOf(Error)
    expect(existsSync('/proc/nope')).toBe(false)
  })
})

describe('folders', () => {
  test('are created with their parents; an existing one stays unchanged', async () => {
    using dir = tempDir()
    await createDirectory(`${dir.path}/a/b`, 0o700)
    await createDirectory(`${dir.path}/a/b`, 0o777)
    await createDirectory(`${dir.path}/a`, 0o777)
    expect(treeOf(dir.path)).toEqual({ a: '/ 755', 'a/b': '/ 700' })
    writeFileSync(`${dir.path}/f`, '')
    symlinkSync('nowhere', `${dir.path}/dangling`)
    await expect(createDirectory(`${dir.path}/f`, 0o755)).rejects.toMatchObject(refused)
    await expect(createDirectory(`${dir.path}/f/g/h`, 0o755)).rejects.toMatchObject(refused)
    await expect(createDirectory(`${dir.path}/dangling`, 0o755)).rejects.toBeInstanceOf(Error)
    await expect(createDirectory(`${dir.path}/c/${'x'.repeat(300)}`, 0o755)).rejects.toMatchObject(refused)
    expect(readdirSync(dir.path).sort()).toEqual(['a', 'dangling', 'f'])
  })

  test('are deleted with everything in them at any depth, and links in them are not followed', async () => {
    using dir = tempDir()
    using outside = tempDir()
    writeFileSync(`${outside.path}/precious`, '')
    mkdirSync(`${dir.path}/d/sub`, { recursive: true })
    symlinkSync(outside.path, `${dir.path}/d/link`)
    execFileSync('mkfifo', [`${dir.path}/d/pipe`])
    writeFileSync(Buffer.concat([Buffer.from(`${dir.path}/d/`), Buffer.from([0xff, 0xfe])]), '')
    // 600 folders of 100 letters: ten times the longest path.
    execFileSync('python3', ['-c', `import os\nos.chdir(${JSON.stringify(`${dir.path}/d/sub`)})\nfor i in range(600):\n  os.mkdir('x'*100); os.chdir('x'*100)`])
    await expect(deleteFile(`${dir.path}/d`)).rejects.toMatchObject(refused)
    await deleteDirectory(`${dir.path}/d`, signal)
    expect(readdirSync(dir.path)).toEqual([])
    expect(readdirSync(outside.path)).toEqual(['precious'])
    await expect(deleteDirectory(`${dir.path}/d`, signal)).rejects.toMatchObject(absent)
  })

  test('and files are deleted by their own calls only; a link is deleted itself', async () => {
    using dir = tempDir()
    mkdirSync(`${dir.path}/d`)
    symlinkSync('d', `${dir.path}/link`)
    symlinkSync('nowhere', `${dir.path}/dangling`)
    writeFileSync(`${dir.path}/f`, '')
    await expect(deleteDirectory(`${dir.path}/link`, signal)).rejects.toMatchObject(refused)
    await expect(deleteDirectory(`${dir.path}/f`, signal)).rejects.toMatchObject(refused)
    await expect(deleteFile(`${dir.path}/none`)).rejects.toMatchObject(absent)
    for (const name of ['link', 'dangling', 'f']) await deleteFile(`${dir.path}/${name}`)
    expect(readdirSync(dir.path)).toEqual(['d'])
  })

  test('that the session needs cannot be deleted or moved', async () => {
    using dir = tempDir()
    for (const path of ['/', '/proc', '/dev']) {
      await expect(deleteDirectory(path, signal)).rejects.toMatchObject(refused)
      await expect(move(path, `${dir.path}/x`, signal)).rejects.toMatchObject(refused)
    }
  })
})

describe('moving', () => {
  test('renames, replaces a file, and refuses what is impossible', async () => {
    using dir = tempDir()
    const at = (name: string) => `${dir.path}/${name}`
    writeFileSync(at('a'), 'a')
    writeFileSync(at('b'), 'b')
    mkdirSync(at('full/x'), { recursive: true })
    mkdirSync(at('d'))
    symlinkSync('nowhere', at('link'))
    await move(at('a'), at('b'), signal)
    await move(at('link'), at('moved'), signal)
    expect(readFileSync(at('b'), 'utf8')).toBe('a')
    expect(readlinkSync(at('moved'))).toBe('nowhere')
    await expect(move(at('none'), at('c'), signal)).rejects.toMatchObject({ ...absent, message: expect.stringContaining('none') })
    await expect(move(at('b'), at('no/such/c'), signal)).rejects.toMatchObject({ ...absent, message: expect.stringContaining('no/such') })
    await expect(move(at('b'), at('d'), signal)).rejects.toMatchObject(refused)
    await expect(move(at('d'), at('full'), signal)).rejects.toMatchObject(refused)
    await expect(move(at('d'), at('d/inside'), signal)).rejects.toMatchObject({ ...refused, message: expect.stringContaining('dest_path') })
    await expect(move(at('d'), at('b/x'), signal)).rejects.toMatchObject(refused)
    expect(readdirSync(dir.path).sort()).toEqual(['b', 'd', 'full', 'moved'])
  })

  test.skipIf(statSync('/dev/shm').dev === statSync('/tmp').dev)('to another file system keeps everything unchanged', async () => {
    using dir = tempDir()
    const there = `/dev/shm/cob-${process.pid}`
    try {
      mkdirSync(`${dir.path}/d/sub`, { recursive: true })
      writeFileSync(`${dir.path}/d/sub/f`, 'text', { mode: 0o640 })
      symlinkSync('sub/f', `${dir.path}/d/link`)
      execFileSync('mkfifo', [`${dir.path}/d/pipe`])
      const before = treeOf(`${dir.path}/d`)
      await move(`${dir.path}/d`, there, signal)
      expect(treeOf(there)).toEqual(before)
      expect(readdirSync(dir.path)).toEqual([])
      writeFileSync(`${dir.path}/f`, '')
      await expect(move(`${dir.path}/f`, `${there}/none/f`, signal)).rejects.toMatchObject(absent)
      await expect(move(`${dir.path}/f`, `${there}/sub`, signal)).rejects.toMatchObject(refused)
      expect(treeOf(there)).toEqual(before)
    } finally {
      if (existsSync(there)) await deleteDirectory(there, signal)
    }
  })
})

describe('permissions and owners', () => {
  test('are set on the target of a link; only the existing owner is accepted', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    writeFileSync(path, '')
    symlinkSync('f', `${dir.path}/link`)
    const [uid, gid] = [String(process.getuid!()), String(process.getgid!())]
    await setPermissions(`${dir.path}/link`, 0o4711, uid, gid)
    expect((lstatSync(path).mode & 0o7777).toString(8)).toBe('4711')
    for (const owner of ['daemon', '12345', 'nobody-knows', '-1', '1e3'])
      await expect(setPermissions(path, 0o600, owner, undefined)).rejects.toMatchObject({ ...refused, message: expect.stringContaining('owner') })
    await expect(setPermissions(path, 0o600, undefined, 'daemon')).rejects.toMatchObject({ ...refused, message: expect.stringContaining('group') })
    expect((lstatSync(path).mode & 0o7777).toString(8)).toBe('4711')
    await expect(setPermissions(`${dir.path}/none`, 0o600, undefined, undefined)).rejects.toMatchObject(absent)
    chmodSync(path, 0o644)
  })
})
