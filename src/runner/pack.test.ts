// Code that is moved: packed by the runner that built it, and unpacked by another one into the same tree. A hostile tree or package causes no harm.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join, relative } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { packFolder } from './pack.ts'
import { openLab, type Lab } from './runner.suite.ts'

const PACK_MS = 60_000

let lab: Lab
beforeAll(() => {
  lab = openLab()
})
afterAll(() => lab[Symbol.asyncDispose]())

let count = 0
const folder = (): string => {
  const dir = join(lab.dir, `tree-${++count}`)
  mkdirSync(dir)
  return dir
}
async function pack(tree: string): Promise<Buffer> {
  const into = `${folder()}/packed`
  await packFolder(tree, into, AbortSignal.timeout(PACK_MS))
  return readFileSync(into)
}
async function unpack(packed: Buffer, into = folder()): Promise<string> {
  await using runner = await lab.start({ kind: 'unpack' }, into)
  await runner.unpack(packed)
  return into
}
/** Every path below `dir`, with its kind, mode, time and content. With types, because reading names alone follows links out of the tree. */
const listing = (dir: string): string[] =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const [name, found] = [relative(dir, path), lstatSync(path)]
      const content = found.isSymbolicLink() ? readlinkSync(path) : found.isFile() && found.size < 1e6 ? readFileSync(path, 'latin1') : ''
      return [name, found.mode.toString(8), found.isDirectory() ? '' : Math.floor(found.mtimeMs / 1000), found.isFile() ? found.size : '', content].join(' ')
    })
    .toSorted()
/** A package as an attacker makes it. */
const tarOf = (dir: string, ...args: string[]): Buffer =>
  zstdCompressSync(execFileSync('tar', ['--create', '--file=-', '--directory', dir, ...args], { stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1e9 }))

test('what a build has packed is the same tree again elsewhere, and it runs there', async () => {
  const files = {
    'package.json': '{"type":"module"}',
    'index.js': `import Kernel from '@onkernel/sdk'\nnew Kernel().app('app').action('go', (ctx, payload) => payload)`,
    'deep/er/füßchen.txt': 'x',
  }
  const { app, last } = await (async () => {
    const into = folder()
    await using runner = await lab.start({ kind: 'build', source: { type: 'archive', entrypoint: 'index.js' } }, into)
    await expect(runner.packed()).rejects.toMatchObject({ status: 409 })
    const { makeZip } = await import('../../test/support/zips.ts')
    await runner.archive(makeZip(Object.entries(files).map(([name, content]) => ({ name, content }))))
    const events = await runner.events()
    const copy = await unpack(await runner.packed())
    // A killed service requests the code again.
    expect((await runner.packed()).length).toBeGreaterThan(0)
    expect(listing(copy)).toEqual(listing(into))
    return { app: copy, last: events.at(-1)! }
  })()
  expect(last).toMatchObject({ type: 'loaded' })
  expect((await lab.run(app, 'go', { n: 1 })).last).toMatchObject({ type: 'result', ok: true, output: '{"n":1}' })
})

test('links, holes, long names and modes stay; sockets, set-uid bits and files that nobody may read do not', async () => {
  const tree = folder()
  const long = join(tree, ...Array.from({ length: 20 }, (_, n) => `${n}`.padEnd(100, 'x')))
  mkdirSync(long, { recursive: true })
  writeFileSync(join(tree, 'file'), 'text', { mode: 0o755 })
  linkSync(join(tree, 'file'), join(tree, 'second name'))
  symlinkSync('/etc/passwd', join(tree, 'absolute'))
  symlinkSync('../../../../../../etc', join(tree, 'upwards'))
  symlinkSync('nowhere', join(tree, 'dangling'))
  writeFileSync(join(tree, 'holes'), 'x')
  truncateSync(join(tree, 'holes'), 1024 ** 4)
  const kept = listing(tree)
  writeFileSync(join(tree, 'setuid'), 'x')
  chmodSync(join(tree, 'setuid'), 0o6755)
  const server = createServer().listen(join(tree, 'socket'))
  const packed = await pack(tree)
  server.close()
  expect(packed.length).toBeLessThan(64 * 1024)
  const copy = await unpack(packed)
  expect(listing(copy).filter((line) => !line.startsWith('setuid'))).toEqual(kept)
  expect(lstatSync(join(copy, 'setuid')).mode & 0o7777).toBe(0o755)
  expect(lstatSync(join(copy, 'holes')).blocks).toBeLessThan(100)
  expect(lstatSync(join(copy, 'file')).nlink).toBe(2)
})

test('a tree whose paths are too long to be unpacked is refused when it is packed', async () => {
  const tree = folder()
  execFileSync('/bin/sh', ['-c', 'n=$(printf %0200d 0); for i in $(seq 25); do mkdir $n && cd -P $n || exit 1; done'], { cwd: tree })
  await expect(pack(tree)).rejects.toThrow('a path has more than 4000 bytes')
  execFileSync('rm', ['-rf', tree])
})

describe('a hostile package', () => {
  test('writes nothing outside of its folder: not by names with "..", absolute names, or through links', async () => {
    const outside = folder()
    const made = folder()
    writeFileSync(join(made, 'evil'), 'evil')
    symlinkSync(outside, join(made, 'way'))
    mkdirSync(join(lab.dir, 'second', 'way'), { recursive: true })
    writeFileSync(join(lab.dir, 'second', 'way', 'evil'), 'evil')
    const attacks = [
      tarOf(made, '--absolute-names', '--transform', `s,^evil$,${outside}/evil,`, 'evil'),
      tarOf(made, '--absolute-names', '--transform', 's,^evil$,../evil-upwards,', 'evil'),
      tarOf(made, 'way', '-C', join(lab.dir, 'second'), 'way/evil'),
    ]
    for (const attack of attacks) {
      const into = folder()
      await unpack(attack, into).catch(() => {})
      expect(readdirSync(outside)).toEqual([])
      expect(existsSync(join(into, '..', 'evil-upwards'))).toBe(false)
    }
  })

  test.each([
    { what: 'that is no package', packed: Buffer.from('no package at all') },
    { what: 'with no tar in it', packed: zstdCompressSync(Buffer.alloc(4096, 'x')) },
    { what: 'that is empty', packed: Buffer.alloc(0) },
  ])('$what is refused with a reason', async ({ packed }) => {
    await expect(unpack(packed)).rejects.toMatchObject({ status: 400, said: expect.stringMatching(/"message":".+"/) as string })
  })

  test('that breaks off is refused: half of the code is no code', async () => {
    const tree = folder()
    for (let n = 0; n < 50; n++) writeFileSync(join(tree, `${n}`), Buffer.alloc(10_000, n))
    const packed = await pack(tree)
    await expect(unpack(packed.subarray(0, packed.length - 100))).rejects.toMatchObject({ status: 400 })
    const whole = zstdDecompressSync(packed)
    await expect(unpack(zstdCompressSync(whole.subarray(0, 200_100)))).rejects.toMatchObject({ status: 400 })
  })

  test('cannot come twice', async () => {
    const [tree, into] = [folder(), folder()]
    const packed = await pack(tree)
    await using runner = await lab.start({ kind: 'unpack' }, into)
    await runner.unpack(packed)
    await expect(runner.unpack(packed)).rejects.toMatchObject({ status: 409 })
  })
})
