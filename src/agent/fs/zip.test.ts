// Directories to zips and back: nothing is lost, nothing escapes the destination, and a refused zip changes nothing.
import fc from 'fast-check'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, chmodSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { amount } from '../../../test/support/long.ts'
import { makeZip, type ZipEntry } from '../../../test/support/zips.ts'
import { until } from '../../base/wait.ts'
import { staysWithin } from '../../base/archive/zip.ts'
import { unzip, ZIP_LIMITS } from './unzip.ts'
import { zipDirectory } from './zip.ts'

const signal = new AbortController().signal

async function zipped(path: string, into: string): Promise<string> {
  const archive = join(into, 'made.zip')
  writeFileSync(archive, await buffer(await zipDirectory(path)))
  return archive
}

/** In another locale unzip cannot create the names. */
const UTF8 = { env: { ...process.env, LC_ALL: 'C.UTF-8' } }

describe('a directory as a zip', () => {
  test('contains files, permissions, empty folders and links unchanged, and unzip can read it', async () => {
    using dir = tempDir()
    using out = tempDir()
    const at = (name: string) => join(dir.path, name)
    mkdirSync(at('a/b'), { recursive: true })
    mkdirSync(at('empty'))
    writeFileSync(at('a/b/ü 🌽.txt'), 'corn', { mode: 0o600 })
    writeFileSync(at('a/run'), '#!/bin/sh\n')
    chmodSync(at('a/run'), 0o755)
    writeFileSync(at('a/nothing'), '')
    writeFileSync(at('big'), Buffer.alloc(3_000_000, 'abc'))
    symlinkSync('b/../run', at('a/link'))
    symlinkSync('/etc/passwd', at('outward'))
    execFileSync('mkfifo', [at('pipe')])
    writeFileSync(at('.cob-part-0123456789abcdef01234567'), 'half of an upload')
    const archive = await zipped(dir.path, out.path)
    execFileSync('unzip', ['-q', archive, '-d', join(out.path, 'x')], UTF8)
    rmSync(at('pipe'))
    rmSync(at('.cob-part-0123456789abcdef01234567'))
    expect(treeOf(join(out.path, 'x'))).toEqual(treeOf(dir.path))
    const names = execFileSync('unzip', ['-Z1', archive], UTF8).toString().trim().split('\n')
    expect(names).toEqual(['a/', 'a/b/', 'a/b/ü 🌽.txt', 'a/link', 'a/nothing', 'a/run', 'big', 'empty/', 'outward'])
  })

  test.each(['0001-01-01', '1901-01-01', '1969-12-31', '1975-06-01', '2040-01-01', '2200-01-01'])('of files and folders of %s ends', async (time) => {
    using dir = tempDir()
    mkdirSync(join(dir.path, 'folder'))
    writeFileSync(join(dir.path, 'file'), 'old')
    symlinkSync('file', join(dir.path, 'link'))
    for (const name of ['folder', 'file', 'link']) execFileSync('touch', ['-h', '-d', time, join(dir.path, name)])
    using out = tempDir()
    const archive = await zipped(dir.path, out.path)
    expect(execFileSync('unzip', ['-Z1', archive], UTF8).toString().trim().split('\n')).toEqual(['file', 'folder/', 'link'])
  })

  test('gives the same directory when it is unpacked, whatever the directory contains', { timeout: 60_000 }, async () => {
    const name = fc
      .oneof(fc.constantFrom('a', 'b', 'ü', ' ', '-', 'x'.repeat(255), '...'), fc.stringMatching(/^[^/\0\\:]{1,20}$/))
      .filter((text) => !['.', '..'].includes(text) && Buffer.byteLength(text) <= 255)
    const file = fc.record({
      path: fc.array(name, { minLength: 1, maxLength: 4 }),
      content: fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.constant(new Uint8Array(70_000))),
      mode: fc.constantFrom(0o644, 0o755, 0o600),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(file, { maxLength: 12 }), async (files) => {
        using dir = tempDir()
        using out = tempDir()
        for (const { path, content, mode } of files) {
          try {
            mkdirSync(dirname(join(dir.path, ...path)), { recursive: true })
            writeFileSync(join(dir.path, ...path), content, { mode })
          } catch {} // a folder exists where a file should go
        }
        await unzip(await zipped(dir.path, out.path), join(out.path, 'x'), signal)
        expect(treeOf(join(out.path, 'x'))).toEqual(treeOf(dir.path))
      }),
      { numRuns: 60 },
    )
  })

  test('omits files that vanish meanwhile, and takes files that grow or shrink as they are', async () => {
    using dir = tempDir()
    using out = tempDir()
    for (let i = 0; i < 200; i++) writeFileSync(join(dir.path, `f${String(i).padStart(3, '0')}`), randomBytes(50_000))
    const stream = await zipDirectory(dir.path)
    const chunks: Buffer[] = []
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      if (chunks.length === 3) {
        for (let i = 150; i < 200; i++) rmSync(join(dir.path, `f${i}`))
        execFileSync('mkfifo', [join(dir.path, 'f160')])
        appendFileSync(join(dir.path, 'f140'), 'more')
        truncateSync(join(dir.path, 'f141'), 5)
      }
    }
    const archive = join(out.path, 'made.zip')
    writeFileSync(archive, Buffer.concat(chunks))
    execFileSync('unzip', ['-tq', archive])
    rmSync(join(dir.path, 'f160'))
    await unzip(archive, join(out.path, 'x'), signal)
    expect(treeOf(join(out.path, 'x'))).toEqual(treeOf(dir.path))
  })

  test('of many small files is sent in few blocks, not in pieces for each file', async () => {
    using dir = tempDir()
    for (let i = 0; i < 1_000; i++) writeFileSync(join(dir.path, `a-file-of-many-${i}`), 'x')
    const sizes: number[] = []
    for await (const chunk of (await zipDirectory(dir.path)) as AsyncIterable<Buffer>) sizes.push(chunk.length)
    // Without blocks, each file would be four pieces. A slow disk makes some blocks that are not full.
    expect(sizes.length).toBeLessThan(200)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(100_000)
  })

  test('leaves no file open if it is not read to its end', async () => {
    using dir = tempDir()
    for (let i = 0; i < 20; i++) writeFileSync(join(dir.path, `f${i}`), Buffer.alloc(2_000_000, i))
    for (let i = 0; i < 5; i++) {
      const stream = await zipDirectory(dir.path)
      if (i > 0) await new Promise((resolve) => stream.once('data', resolve))
      stream.destroy()
    }
    await expect.poll(() => readdirSync('/proc/self/fd').filter((fd) => linkOf(fd).startsWith(dir.path)), { timeout: 10_000 }).toEqual([])
  })

  test('needs no more time per file if there are many files', { timeout: 60_000 }, async () => {
    using dir = tempDir()
    const perFile = async (from: number, to: number): Promise<number> => {
      for (let i = from; i < to; i++) symlinkSync('x', join(dir.path, String(i)))
      // CPU time, so that a busy machine has no effect.
      const before = process.cpuUsage()
      let length = 0
      for await (const chunk of (await zipDirectory(dir.path)) as AsyncIterable<Buffer>) length += chunk.length
      expect(length).toBeGreaterThan(to * 80)
      const { user, system } = process.cpuUsage(before)
      return (user + system) / to
    }
    const FEW = amount(500, 1_000)
    const few = await perFile(0, FEW)
    expect(await perFile(FEW, FEW * 12)).toBeLessThan(few * 4)
  })

  test('is refused for anything but a directory, and for directories of the kernel', async () => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'f'), '')
    await expect(zipDirectory(join(dir.path, 'f'))).rejects.toMatchObject({ code: 'bad_request' })
    await expect(zipDirectory(join(dir.path, 'none'))).rejects.toMatchObject({ code: 'not_found' })
    await expect(zipDirectory('/proc/self')).rejects.toMatchObject({ code: 'bad_request' })
  })
})

const linkOf = (fd: string): string => {
  try {
    return execFileSync('readlink', [`/proc/${process.pid}/fd/${fd}`]).toString()
  } catch {
    return ''
  }
}

describe('unpacking a zip', () => {
  const MB = 1024 * 1024
  const small = { ...ZIP_LIMITS, entries: 50, bytes: 3 * MB, ratioFromBytes: MB }
  const link = (name: string, content: string): ZipEntry => ({ name, content, mode: 0o120777 })
  const refused: [string, Buffer][] = [
    ['a name that goes up', makeZip([{ name: 'ok' }, { name: '../evil' }])],
    ['a name that goes down and up', makeZip([{ name: 'a/b/../../../evil' }])],
    ['an absolute name', makeZip([{ name: '/tmp/evil' }])],
    ['a name with a disk', makeZip([{ name: 'C:/evil' }])],
    ['backslashes', makeZip([{ name: '..\\evil' }])],
    ['a name with U+0000', makeZip([{ name: 'a\0b' }])],
    ['a name that is too long', makeZip([{ name: 'x'.repeat(300) }])],
    ['a name kept for unfinished files', makeZip([{ name: '.cob-part-0123456789abcdef01234567' }])],
    ['a link that leads up', makeZip([link('l', '../../etc')])],
    ['an absolute link', makeZip([link('l', '/etc')])],
    ['a link that leads up by way of another', makeZip([link('d/e/up', '../..'), link('d/e/out', 'up/../..')])],
    ['an empty link', makeZip([link('l', '')])],
    ['a link without end', makeZip([link('l', 'x'.repeat(10_000))])],
    ['a file below a link', makeZip([{ name: 'd/' }, link('l', 'd'), { name: 'l/f', content: 'x' }])],
    ['a file below a file', makeZip([{ name: 'f' }, { name: 'f/g' }])],
    ['a folder where a file is', makeZip([{ name: 'f' }, { name: 'f/' }])],
    ['a file where a folder is', makeZip([{ name: 'd/x' }, { name: 'd' }])],
    [
      'a file twice',
      makeZip([
        { name: 'f', content: '1' },
        { name: './f', content: '2' },
      ]),
    ],
    ['an encrypted file', makeZip([{ name: 'f', flags: 1, content: 'x' }])],
    ['an unknown method', makeZip([{ name: 'f', method: 14, content: 'x' }])],
    ['a damaged file', makeZip([{ name: 'f', content: 'text', crc: 1 }])],
    ['a damaged file that is not packed', makeZip([{ name: 'f', content: 'text', crc: 1, store: true }])],
    ['a file longer than it says', makeZip([{ name: 'f', content: 'x'.repeat(100_000), size: 10 }])],
    ['a file shorter than it says', makeZip([{ name: 'f', content: 'text', size: 4_000 }])],
    ['too many entries', makeZip(Array.from({ length: 51 }, (_, index) => ({ name: `f${index}` })))],
    [
      'more entries than it says',
      makeZip(
        Array.from({ length: 40 }, (_, index) => ({ name: `f${index}` })),
        { count: 45 },
      ),
    ],
    ['too many folders by a single name', makeZip([{ name: `${'d/'.repeat(60)}f` }])],
    [
      'more bytes than allowed',
      makeZip([{ name: 'f', content: Buffer.from(Array.from({ length: 4 * MB }, (_, index) => (index * index) % 251)), store: true }]),
    ],
    ['a bomb', makeZip([{ name: 'f', content: Buffer.alloc(2 * MB) }])],
    ['a bomb of many files', makeZip(Array.from({ length: 20 }, (_, index) => ({ name: `f${index}`, content: Buffer.alloc(100_000) })))],
    [
      'a bomb whose entries share one content',
      makeZip([
        { name: 'f', content: Buffer.alloc(100_000) },
        ...Array.from({ length: 30 }, (_, index) => ({ name: `g${index}`, content: Buffer.alloc(100_000), sameAs: 0 })),
      ]),
    ],
    ['no zip', Buffer.from('this is no zip')],
    ['nothing', Buffer.alloc(0)],
    ['the end of a zip alone', makeZip([]).subarray(4)],
    ['a zip cut short', makeZip([{ name: 'f', content: 'x'.repeat(1_000) }]).subarray(50)],
  ]
  test.each(refused)('is refused for %s, and nothing changes', async (_, archive) => {
    using dir = tempDir()
    const [zip, to] = [join(dir.path, 'a.zip'), join(dir.path, 'deep/to')]
    writeFileSync(zip, archive)
    const error = await unzip(zip, to, signal, small).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'bad_request', message: expect.stringMatching(/^zip_file: /) })
    expect(readdirSync(dir.path)).toEqual(['a.zip'])
    // An existing folder does not change.
    mkdirSync(to, { recursive: true })
    writeFileSync(join(to, 'f'), 'mine')
    await expect(unzip(zip, to, signal, small)).rejects.toMatchObject({ code: 'bad_request' })
    expect(treeOf(dir.path)).toMatchObject({ 'deep/to/f': 'mine 644' })
    expect(readdirSync(to)).toEqual(['f'])
  })

  test('replaces files, adds to folders, keeps other files, and sets no set-uid bits', async () => {
    using dir = tempDir()
    const to = join(dir.path, 'to')
    mkdirSync(join(to, 'd/old'), { recursive: true })
    mkdirSync(join(to, 'hollow'))
    writeFileSync(join(to, 'd/f'), 'old')
    writeFileSync(join(to, 'd/old/kept'), 'kept')
    symlinkSync('/etc/passwd', join(to, 'link'))
    writeFileSync(
      join(dir.path, 'a.zip'),
      makeZip([
        { name: './' },
        { name: 'd/f', content: 'new', mode: 0o104755 },
        { name: 'd/new/g', content: 'g', mode: 0o100600 },
        { name: 'link', content: 'no link' },
        { name: 'hollow/h', content: 'h', mode: 0 },
        { name: 'd/l', content: '../hollow//./h', mode: 0o120777 },
      ]),
    )
    await unzip(join(dir.path, 'a.zip'), to, signal)
    expect(treeOf(to)).toEqual({
      d: '/ 755',
      'd/f': 'new 755',
      'd/l': '-> ../hollow//./h',
      'd/new': '/ 755',
      'd/new/g': 'g 600',
      'd/old': '/ 755',
      'd/old/kept': 'kept 644',
      hollow: '/ 755',
      'hollow/h': 'h 644',
      link: 'no link 644',
    })
    expect(readFileSync('/etc/passwd', 'utf8')).toContain('root')
  })

  test.each([
    ['a folder for a file', 'x/f', (to: string) => writeFileSync(join(to, 'x'), 'mine')],
    ['a file for a folder', 'x', (to: string) => mkdirSync(join(to, 'x'))],
    ['a folder for a link to a folder', 'x/f', (to: string) => symlinkSync('/tmp', join(to, 'x'))],
  ])('is refused if the zip has %s that exists', async (_, name, make) => {
    using dir = tempDir()
    const to = join(dir.path, 'to')
    mkdirSync(to)
    make(to)
    const before = treeOf(to)
    writeFileSync(join(dir.path, 'a.zip'), makeZip([{ name: 'a', content: 'first' }, { name }]))
    await expect(unzip(join(dir.path, 'a.zip'), to, signal)).rejects.toMatchObject({ code: 'bad_request', message: expect.stringContaining('dest_path') })
    expect(treeOf(to)).toEqual(before)
  })

  test('is refused if the target is not a directory', async () => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'a.zip'), makeZip([{ name: 'f' }]))
    await expect(unzip(join(dir.path, 'a.zip'), join(dir.path, 'a.zip'), signal)).rejects.toMatchObject({ code: 'bad_request' })
    await expect(unzip(join(dir.path, 'a.zip'), '/proc/x', signal)).rejects.toBeInstanceOf(Error)
  })

  test('is aborted when its caller leaves', async () => {
    using dir = tempDir()
    const random = Buffer.from(Array.from({ length: 1_000_000 }, () => Math.floor(Math.random() * 256)))
    writeFileSync(join(dir.path, 'a.zip'), makeZip(Array.from({ length: 30 }, (_, index) => ({ name: `f${index}`, content: random, store: true }))))
    const left = new AbortController()
    const unpacking = unzip(join(dir.path, 'a.zip'), join(dir.path, 'to'), left.signal)
    const begun = until('its first file', 10_000, () => readdirSync(dir.path).length > 1, { everyMs: 1 })
    void begun.finally(() => left.abort(new Error('gone')))
    await expect(unpacking).rejects.toThrow('gone')
    expect(readdirSync(dir.path)).toEqual(['a.zip'])
  })

  test('never causes an internal error, for random bytes or for valid archives with changed bytes', { timeout: 60_000 }, async () => {
    const right = makeZip([{ name: 'd/f', content: 'text'.repeat(50) }, { name: 'g', content: 'x', store: true }, link('l', 'g')])
    const changed = fc.array(fc.tuple(fc.nat(right.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 }).map((changes) => {
      const bytes = Buffer.from(right)
      for (const [at, value] of changes) bytes[at] = value
      return bytes
    })
    await fc.assert(
      fc.asyncProperty(fc.oneof({ weight: 9, arbitrary: changed }, fc.uint8Array({ maxLength: 200 }).map(Buffer.from)), async (archive) => {
        using dir = tempDir()
        writeFileSync(join(dir.path, 'a.zip'), archive)
        const error = await unzip(join(dir.path, 'a.zip'), join(dir.path, 'to'), signal).catch((thrown: unknown) => thrown)
        if (error !== undefined) expect(error).toMatchObject({ code: 'bad_request' })
        expect(readdirSync(dir.path)).toEqual(error === undefined ? ['a.zip', 'to'] : ['a.zip'])
      }),
      { numRuns: amount(50, 400) },
    )
  })
})

test('no set of links in a zip makes unpacking write outside its directory', async () => {
  const parts = fc.array(fc.constantFrom('..', '.', 'a', 'b', 'c', ''), { maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom('.', 'a', 'a/b', 'c'), fc.constantFrom('x', 'y', 'z', 'a', 'b', 'c'), parts), { minLength: 1, maxLength: 6 }),
      async (links) => {
        using dir = tempDir()
        const root = join(dir.path, 'outer/root')
        mkdirSync(join(root, 'a/b'), { recursive: true })
        mkdirSync(join(root, 'c'))
        const made: string[] = []
        for (const [from, name, target] of links) {
          if (!staysWithin(from, target.join('/'))) continue
          try {
            symlinkSync(target.join('/'), join(root, from, name))
            made.push(join(root, from, name))
          } catch {} // it exists already
        }
        for (const path of made) {
          let real: string
          try {
            real = realpathSync(path)
          } catch {
            continue // the link is dangling or circular
          }
          expect(real === root || real.startsWith(`${root}/`), `${path} leads to ${real}`).toBe(true)
        }
      },
    ),
    { numRuns: amount(75, 500) },
  )
})
