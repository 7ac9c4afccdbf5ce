// Zips of apps: a zip from the official command line is unpacked correctly; a harmful one is refused with the entry's name.
import { existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { amount } from '../../test/support/long.ts'
import { makeZip, type ZipEntry } from '../../test/support/zips.ts'
import { unpackArchive, ZIP_LIMITS } from './unzip.ts'

const LINK = 0o120777

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-unzip-'))
})
afterAll(() => rmSync(dir, { recursive: true }))

let count = 0
async function unpack(entries: ZipEntry[] | Buffer, limits = ZIP_LIMITS): Promise<{ root: string; files: number; bytes: number }> {
  const archive = join(dir, `${++count}.zip`)
  const root = join(dir, `${count}`, 'code')
  writeFileSync(archive, Buffer.isBuffer(entries) ? entries : makeZip(entries))
  return { root, ...(await unpackArchive(archive, root, AbortSignal.timeout(20_000), limits)) }
}
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)

describe('unpacking an archive', () => {
  test('without modes creates readable files and folders that can be entered', async () => {
    const { root, files } = await unpack([
      { name: 'a/', mode: 0 },
      { name: 'a/b.txt', content: 'b', mode: 0 },
      { name: 'run.sh', content: '', mode: 0o100700 },
    ])
    expect(files).toBe(2)
    expect([modeOf(join(root, 'a')), modeOf(join(root, 'a/b.txt')), modeOf(join(root, 'run.sh'))]).toEqual(['755', '644', '755'])
    expect(readFileSync(join(root, 'a/b.txt'), 'utf8')).toBe('b')
  })

  const MANY = amount(3_000, 20_000)
  test(`of ${MANY} files works`, async () => {
    const { root, files } = await unpack(Array.from({ length: MANY }, (_, at) => ({ name: `${at % 100}/${at}`, content: String(at), store: at % 2 === 0 })))
    expect(files).toBe(MANY)
    expect(readFileSync(join(root, `99/${MANY - 1}`), 'utf8')).toBe(String(MANY - 1))
  })

  test('keeps links that stay inside', async () => {
    const { root } = await unpack([
      { name: 'a/link', content: '../b/file', mode: LINK },
      { name: 'b/file', content: 'x' },
    ])
    expect(readlinkSync(join(root, 'a/link'))).toBe('../b/file')
    expect(readFileSync(join(root, 'a/link'), 'utf8')).toBe('x')
  })

  test('of large files works piece by piece', async () => {
    const content = Buffer.alloc(20 * 1024 ** 2, 'some text that is not quite the same all the time ')
    const { root, bytes } = await unpack([
      { name: 'packed', content },
      { name: 'stored', content, store: true },
    ])
    expect(bytes).toBe(2 * content.length)
    expect(readFileSync(join(root, 'packed')).equals(content) && readFileSync(join(root, 'stored')).equals(content)).toBe(true)
  })

  test.each<[string, ZipEntry[], RegExp]>([
    ['a way out', [{ name: '../evil', content: 'x' }], /invalid relative path: \.\.\/evil/],
    ['a way out within', [{ name: 'a/../../evil', content: 'x' }], /\.\.\/evil/],
    ['an absolute name', [{ name: '/etc/evil', content: 'x' }], /absolute path: \/etc\/evil/],
    ['a zero in a name', [{ name: 'a\0b', content: 'x' }], /U\+0000/],
    ['a name that is too long', [{ name: 'n'.repeat(5000), content: 'x' }], /too long/],
    ['a part of a name that is too long', [{ name: 'n'.repeat(300), content: 'x' }], /too long/],
    ['an absolute link', [{ name: 'evil', content: '/etc/passwd', mode: LINK }], /link "evil" that leads out/],
    ['a link out', [{ name: 'a/evil', content: '../../x', mode: LINK }], /link "a\/evil" that leads out/],
    ['a link out by way of another', [{ name: 'a/evil', content: 'b/../../..', mode: LINK }], /link "a\/evil" that leads out/],
    [
      'a file below a link',
      [
        { name: 'd', content: '.', mode: LINK },
        { name: 'd/x', content: 'x' },
      ],
      /has "d\/x" below "d", which is not a directory/,
    ],
    [
      'a name twice, once as a link',
      [
        { name: 'd', content: 'x', mode: LINK },
        { name: 'd', content: 'x' },
      ],
      /has "d" twice/,
    ],
    ['a lie about a size', [{ name: 'a', content: 'x'.repeat(100), size: 10 }], /is not a zip that can be read|damaged/],
    ['a wrong sum', [{ name: 'a', content: 'x', crc: 1 }], /is damaged at "a"/],
    ['encryption', [{ name: 'a', content: 'x', flags: 1 }], /is encrypted/],
    ['another method', [{ name: 'a', content: 'x', method: 12 }], /other than deflate/],
  ])('with %s is refused', async (_what, entries, reason) => {
    await expect(unpack(entries)).rejects.toThrow(reason)
    expect(existsSync(join(dir, 'evil')) || existsSync(join(dir, String(count), 'evil'))).toBe(false)
  })

  test('that is a zip bomb is refused by the size of its content', async () => {
    const content = Buffer.alloc(30 * 1024 ** 2)
    const small = { ...ZIP_LIMITS, ratioFromBytes: 10 * 1024 ** 2 }
    await expect(unpack([{ name: 'zeros', content }], small)).rejects.toThrow(/more than 200 times its size/)
    await expect(unpack([{ name: 'zeros', content }], { ...ZIP_LIMITS, bytes: 1024 ** 2 })).rejects.toThrow(/more than 1048576 bytes/)
    const again = Array.from({ length: 60 }, (_, at) => ({ name: `same-${at}`, content: Buffer.alloc(1024 ** 2), ...(at > 0 && { sameAs: 0 }) }))
    await expect(unpack(again, small)).rejects.toThrow(/more than 200 times its size/)
  })

  test('with too many entries is refused, including folders that only appear in paths', async () => {
    await expect(unpack([{ name: 'a/b/c/d', content: 'x' }], { ...ZIP_LIMITS, entries: 3 })).rejects.toThrow(/more than 3 entries/)
  })
})
