// Archives of profiles: unpacking restores what was packed, and a hostile archive is refused before it does harm.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createZstdCompress, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Fault } from '../../http/fault.ts'
import { scratchDir } from '../../../test/support/scratch.ts'
import { TAR_END, tarEntry as entry, typed } from '../../../test/support/tars.ts'
import { intoFolder, isNewer, packProfile, readArchive, tabsHave, type Manifest } from './archive.ts'
import { MAX_ENTRIES } from './contract.ts'

const signal = new AbortController().signal
const LIMIT = 10 * 1024 * 1024
const WRITER: Manifest = { version: 1, chromium: '156.0.7100.60' }

let dir: string
let from: string
let into: string
beforeEach(() => {
  dir = scratchDir('profile-')
  from = join(dir, 'from')
  into = join(dir, 'into')
  for (const folder of [from, into]) mkdirSync(folder)
})

afterEach(() => rmSync(dir, { recursive: true }))

async function unpack(archive: Buffer, { keepTabs = true, maxBytes = LIMIT, pieces = 1000 } = {}) {
  const cut = Array.from({ length: Math.ceil(archive.length / pieces) }, (_, at) => archive.subarray(at * pieces, (at + 1) * pieces))
  using files = intoFolder(into)
  return await readArchive(Readable.from(cut), files, { keepTabs, maxBytes }, signal)
}

const refusal = (archive: Buffer, options: { maxBytes?: number } = {}): Promise<Fault> =>
  unpack(archive, options).then(
    () => expect.fail('it was taken'),
    (error: Fault) => error,
  )

const packed = (...entries: Buffer[]): Buffer => zstdCompressSync(Buffer.concat([...entries, TAR_END]))
function put(path: string, content: string | Buffer): void {
  mkdirSync(join(from, path, '..'), { recursive: true })
  writeFileSync(join(from, path), content)
}

const namesIn = (folder: string): string[] => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()

describe('what is packed', () => {
  test('comes back: files of every size, deep folders, long and foreign names; GNU tar reads it too', async () => {
    const deep = `${'folder of a long name/'.repeat(20)}end`
    const files: Record<string, Buffer> = {
      Cookies: Buffer.from('cookies'),
      'IndexedDB/http_site_0.indexeddb.leveldb/000003.log': Buffer.alloc(511, 'a'),
      exact: Buffer.alloc(512, 'b'),
      larger: Buffer.alloc(1_000_001, 'c'),
      empty: Buffer.alloc(0),
      [deep]: Buffer.from('deep'),
      [`${'ü'.repeat(100)} name`]: Buffer.from('name'),
    }
    for (const [path, content] of Object.entries(files)) put(path, content)
    mkdirSync(join(from, 'empty folder'))
    const { bytes, archive } = await packProfile(from, WRITER)
    const whole = await buffer(archive)
    expect(bytes).toBe(Object.values(files).reduce((sum, { length }) => sum + length, 0))
    for (const pieces of [1, 511, 100_000]) {
      into = join(dir, `into ${pieces}`)
      mkdirSync(into)
      expect(await unpack(whole, { pieces })).toEqual({ manifest: WRITER })
      expect(namesIn(into)).toEqual(namesIn(from))
      for (const [path, content] of Object.entries(files)) expect(readFileSync(join(into, path)).equals(content)).toBe(true)
    }
    const listed = execFileSync('tar', ['--list', '--quoting-style=literal'], { input: zstdDecompressSync(whole), encoding: 'utf8' })
      .trim()
      .split('\n')
    expect(listed[0]).toBe('cob-profile.json')
    expect(
      listed
        .slice(1)
        .map((path) => path.replace(/\/$/, ''))
        .sort(),
    ).toEqual(namesIn(from))
  })

  test('has no caches, logs, locks, links or sockets, and no empty journals', async () => {
    for (const path of ['Cache/data', 'Code Cache/js/1', 'DawnWebGPUCache/1', 'Favicons', 'Local Storage/leveldb/LOCK', 'Local Storage/leveldb/LOG.old'])
      put(path, 'x')
    put('Service Worker/ScriptCache/1', 'script')
    put('Cookies-journal', '')
    put('History-journal', 'of a crash')
    symlinkSync('/etc/passwd', join(from, 'link'))
    execFileSync('mkfifo', [join(from, 'fifo')])
    await unpack(await buffer((await packProfile(from, WRITER)).archive))
    expect(namesIn(into)).toEqual([
      'History-journal',
      'Local Storage',
      'Local Storage/leveldb',
      'Service Worker',
      'Service Worker/ScriptCache',
      'Service Worker/ScriptCache/1',
    ])
  })

  test('is what Chromium has made: links, special files, odd names and what nobody may read are left out and counted, and no link is followed', async () => {
    put('Cookies', 'cookies')
    put('Network/state', 'state')
    put('elsewhere/secret', 'secret')
    for (const [target, name] of [
      ['/etc', 'directory'],
      ['/etc/passwd', 'Preferences'],
      ['nowhere', 'dangling'],
      ['loop', 'loop'],
      ['../elsewhere', 'Network/sibling'],
    ])
      symlinkSync(target!, join(from, name!))
    execFileSync('mkfifo', [join(from, 'fifo')])
    await using socket = createServer().listen(join(from, 'socket'))
    await once(socket, 'listening')
    const odd = Buffer.concat([Buffer.from(join(from, 'Network/')), Buffer.from([0xff, 0xfe])])
    mkdirSync(odd)
    writeFileSync(Buffer.concat([odd, Buffer.from('/x')]), 'x')
    const { leftOut, archive } = await packProfile(from, WRITER)
    await unpack(await buffer(archive))
    expect(leftOut).toBe(8)
    expect(namesIn(into)).toEqual(['Cookies', 'Network', 'Network/state', 'elsewhere', 'elsewhere/secret'])
  })

  test('is nothing of what a link in the place of the folder leads to', async () => {
    put('Cookies', 'cookies')
    const link = join(dir, 'link')
    symlinkSync(from, link)
    for (const folder of [link, join(from, 'Cookies'), join(dir, 'nowhere')])
      await expect(packProfile(folder, WRITER)).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('has moved or replaced its folder'),
      })
  })

  test('breaks off when a file has become a link meanwhile', async () => {
    put('a', 'a')
    put('b/c', 'c')
    put('other/c', 'd')
    const { archive } = await packProfile(from, WRITER)
    rmSync(join(from, 'b'), { recursive: true })
    symlinkSync('other', join(from, 'b'))
    await expect(buffer(archive)).rejects.toThrow('b/c was replaced while it was packed')
  })

  test('breaks off when a file becomes shorter meanwhile, so that it does not look whole', async () => {
    put('a', Buffer.alloc(1_000_000, 'a'))
    const { archive } = await packProfile(from, WRITER)
    writeFileSync(join(from, 'a'), 'short')
    await expect(buffer(archive)).rejects.toThrow('a became shorter while it was packed')
  })
})

describe('an archive of another program', () => {
  test.each(['gnu', 'posix', 'ustar', 'v7'])('is read: GNU tar, format %s', async (format) => {
    for (const path of ['Cookies', 'Network/state', ...(format === 'gnu' || format === 'posix' ? [`${'long/'.repeat(40)}${'n'.repeat(200)}`] : [])])
      put(path, path)
    const tar = execFileSync('tar', ['--create', `--format=${format}`, '--directory', from, '.'], { maxBuffer: LIMIT })
    expect(await unpack(zstdCompressSync(tar))).toEqual({ manifest: undefined })
    expect(namesIn(into)).toEqual(namesIn(from))
  })

  test('gets the folders that it does not name', async () => {
    await unpack(packed(entry('a/b/c', 'content')))
    expect(readFileSync(join(into, 'a/b/c'), 'utf8')).toBe('content')
  })
})

test('tabs are left out if nobody wants them', async () => {
  await unpack(packed(entry('Sessions/'), entry('Sessions/Tabs_1', 'x'), entry('Sessions 2', 'y')), { keepTabs: false })
  expect(namesIn(into)).toEqual(['Sessions 2'])
})

describe('a hostile archive is refused:', () => {
  const ATTACKS: [string, () => Buffer, number, string][] = [
    ['a symbolic link', () => packed(entry('a', '', typed('2', '/etc')), entry('a/b', 'x')), 400, 'body: the profile has a symbolic link: "a"'],
    ['a hard link', () => packed(entry('a', '', typed('1', '/etc/passwd'))), 400, 'body: the profile has a hard link: "a"'],
    ['a device', () => packed(entry('a', '', typed('3'))), 400, 'body: the profile has a device: "a"'],
    ['a block device', () => packed(entry('a', '', typed('4'))), 400, 'body: the profile has a device: "a"'],
    ['a FIFO', () => packed(entry('a', '', typed('6'))), 400, 'body: the profile has a FIFO: "a"'],
    ['a sparse file', () => packed(entry('d', '22 GNU.sparse.major=1\n', typed('x')), entry('a')), 400, 'body: the profile has a sparse file: "a"'],
    ['an unknown type', () => packed(entry('a', '', typed('Z'))), 400, 'body: the profile has an entry of an unknown type: "a"'],
    ['a path above the root', () => packed(entry('a/../../out', 'x')), 400, 'body: the profile has the name "a/../../out", which leads out of it'],
    ['a directory above the root', () => packed(entry('../out/')), 400, 'body: the profile has the name "../out/", which leads out of it'],
    ['an absolute path', () => packed(entry('/tmp/out', 'x')), 400, 'body: the profile has the absolute name "/tmp/out"'],
    ['a long path above the root', () => packed(entry(`${'a/'.repeat(60)}../x`, 'x')), 400, 'which leads out of it'],
    ['a name that is too long', () => packed(entry('n'.repeat(256), 'x')), 400, 'which is too long'],
    ['a path that is too long', () => packed(entry('long/'.repeat(201), '')), 400, 'which is too long'],
    ['a description that is too long', () => packed(entry('d', Buffer.alloc(65_537, 'x'), typed('L')), entry('a')), 400, 'which is too long'],
    ['a description of megabytes', () => packed(entry('d', Buffer.alloc(5_000_000, 'x'), typed('L')), entry('a')), 400, 'not a tar archive, or is damaged'],
    ['a name that is not UTF-8', () => packed(entry('a', '', (header) => header.writeUInt8(0xff, 0))), 400, 'body: the profile has a name that is not UTF-8'],
    ['a file without a name', () => packed(entry('./', 'x', typed('0'))), 400, 'body: the profile has a file without a name'],
    ['a file twice', () => packed(entry('a', '1'), entry('./a', '2')), 400, 'body: the profile has "./a" twice'],
    ['a file that is a directory', () => packed(entry('a/b'), entry('a', '2')), 400, 'body: the profile has "a" twice'],
    ['a directory that is a file', () => packed(entry('a', '1'), entry('a/b', '2')), 400, 'body: the profile has "a/b" below "a", which is not a directory'],
    ['a size that is no number', () => packed(entry('a', '', (header) => header.write('9z', 124))), 400, 'not a tar archive, or is damaged'],
    [
      'a size of 8 GiB',
      () => packed(entry('a', '', (header) => header.set([0x80, 0, 0, 0, 0, 0, 0, 2], 124))),
      413,
      `body: the profile unpacks to more than ${LIMIT} bytes`,
    ],
    [
      'a wrong checksum',
      () => zstdCompressSync(Buffer.concat([Buffer.alloc(512, 'x'), TAR_END])),
      400,
      'body: the profile is not a tar archive, or is damaged',
    ],
    ['a link after its end', () => packed(TAR_END, entry('a', '', typed('2', '/etc'))), 400, 'body: the profile has a symbolic link: "a"'],
    ['a bomb after its end', () => packed(Buffer.alloc(50_000_000)), 413, `more than ${LIMIT} bytes`],
    ['a bomb', () => packed(entry('a', Buffer.alloc(LIMIT + 1))), 413, `body: the profile unpacks to more than ${LIMIT} bytes`],
    [
      'a bomb of small files',
      () => packed(...Array.from({ length: 300 }, (_, at) => entry(`${at}`, Buffer.alloc(LIMIT / 256)))),
      413,
      `more than ${LIMIT} bytes`,
    ],
    [
      'a bomb of descriptions',
      () => packed(...Array.from({ length: 200 }, () => entry('d', Buffer.alloc(60_000, 'x'), typed('L')))),
      413,
      `more than ${LIMIT} bytes`,
    ],
    ['no archive', () => Buffer.from('hello'), 400, 'body: the profile is not zstd, or is damaged'],
    ['nothing', () => Buffer.alloc(0), 400, 'body: the profile'],
    ['an empty archive of nothing', () => zstdCompressSync(Buffer.alloc(0)), 400, 'body: the profile ends too early'],
    ['an end in a header', () => zstdCompressSync(entry('a').subarray(0, 300)), 400, 'body: the profile ends too early'],
    ['an end in a file', () => zstdCompressSync(entry('a', 'content').subarray(0, 515)), 400, 'body: the profile ends too early'],
    ['an end between two files', () => zstdCompressSync(entry('a', 'content')), 400, 'body: the profile ends too early'],
    ['a cut stream', () => packed(entry('a', Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))))).subarray(0, 40_000), 400, 'not zstd, or is damaged'],
    ['a manifest of another version', () => packed(entry('cob-profile.json', '{"version":2,"chromium":"1"}')), 400, 'has a cob-profile.json that is not'],
    ['a manifest that is no JSON', () => packed(entry('cob-profile.json', '{')), 400, 'has a cob-profile.json that is not'],
    ['a long manifest', () => packed(entry('cob-profile.json', ' '.repeat(5_000))), 400, 'has a cob-profile.json of more than 4096 bytes'],
    ['a manifest twice', () => packed(entry('cob-profile.json', JSON.stringify(WRITER)), entry('cob-profile.json', '{}')), 400, 'has "cob-profile.json" twice'],
  ]
  test.each(ATTACKS)('%s', async (_what, make, status, message) => {
    const error = await refusal(make())
    expect(error).toMatchObject({ status, message: expect.stringContaining(message) as string })
    expect(existsSync(join(dir, 'out'))).toBe(false)
    expect(namesIn(into).length).toBeLessThan(300)
  })

  test('more than 100,000 files and directories, of which some have no entry', async () => {
    let made = 0
    const sink = { directory: () => void made++, file: () => (made++, { write() {}, end() {} }) }
    async function* many(): AsyncGenerator<Buffer> {
      for (let at = 0; at < MAX_ENTRIES; at++) yield entry(`${at % 1000}/${at}`)
    }
    const archive = Readable.from(many()).pipe(createZstdCompress())
    await expect(readArchive(archive, sink, { keepTabs: true, maxBytes: LIMIT }, signal)).rejects.toThrow(`has more than ${MAX_ENTRIES} entries`)
    expect(made).toBe(MAX_ENTRIES)
  })
})

test('versions of Chromium are compared by their numbers', () => {
  expect(isNewer('156.0.7100.60', '156.0.7100.60')).toBe(false)
  expect(isNewer('156.0.7100.61', '156.0.7100.60')).toBe(true)
  expect(isNewer('99.9.9.9', '156.0.0.0')).toBe(false)
  expect(isNewer('157', '156.0.7100.60')).toBe(true)
  expect(isNewer('156', '156.0.7100.60')).toBe(false)
})

test.each([
  ['as it is', 'pa$$ word'],
  ['as a form', 'pa%24%24+word'],
  ['as a part of an address', 'pa%24%24%20word'],
])('a list of tabs with a password in it, %s, is not saved, nor is its encrypted copy', async (_, written) => {
  const password = 'pa$$ word'
  for (const folder of ['Sessions', 'Sessions_Encrypted']) mkdirSync(join(from, folder))
  writeFileSync(join(from, 'Sessions/Session_1'), 'https://site.test/login?user=kim')
  writeFileSync(join(from, 'Sessions_Encrypted/Session_1'), 'encrypted')
  writeFileSync(join(from, 'Cookies'), 'cookies')
  expect([await tabsHave(from, new Set([password])), await tabsHave(into, new Set([password]))]).toEqual([false, false])
  for (const bytes of [Buffer.from(written), Buffer.from(written, 'utf16le')]) {
    writeFileSync(join(from, 'Sessions/Tabs_1'), Buffer.concat([Buffer.from('https://site.test/login?p='), bytes]))
    expect([await tabsHave(from, new Set([password])), await tabsHave(from, new Set())]).toEqual([true, false])
  }
  await unpack(await buffer((await packProfile(from, WRITER, { withTabs: false })).archive))
  expect(readdirSync(into)).toEqual(['Cookies'])
})
