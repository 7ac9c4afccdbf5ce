// Archives of extensions, valid and hostile, as bytes in memory.
import { describe, expect, test } from 'vitest'
import { extensionZip, MANIFEST } from '../../test/support/extensions.ts'
import { makeZip } from '../../test/support/zips.ts'
import { checkExtension, checkPacked, EXTENSION_LIMITS, withoutComments } from './extension-zip.ts'
import { BadArchive } from './archive/contents.ts'
import { bytesSource, type ZipSource } from './archive/zip.ts'

const check = (zip: Buffer) => checkExtension(bytesSource(zip), AbortSignal.timeout(10_000))
/** Why a zip is refused. */
const refusal = (zip: Buffer) =>
  check(zip).then(
    () => 'taken',
    (error: unknown) => (error instanceof BadArchive ? error.message : Promise.reject(error as Error)),
  )
const manifest = (changes: object) => extensionZip({}, { ...MANIFEST, ...changes })
const withEntry = (entry: Parameters<typeof makeZip>[0][number]) => makeZip([{ name: 'manifest.json', content: JSON.stringify(MANIFEST) }, entry])

describe('an extension is taken', () => {
  test.each([
    ['with its manifest at the root', extensionZip({ 'a.js': '1' }), ''],
    ['in one folder that holds everything', makeZip([{ name: 'ext/' }, { name: 'ext/manifest.json', content: JSON.stringify(MANIFEST) }]), 'ext'],
    [
      'in a folder that macOS has packed',
      makeZip([
        { name: 'ext/manifest.json', content: JSON.stringify(MANIFEST) },
        { name: '__MACOSX/ext/._manifest.json', content: 'x' },
      ]),
      'ext',
    ],
    ['whose manifest has comments', extensionZip({}, `// one\n{"name":"a // b","version":"1",/* two */"manifest_version":3}`), ''],
    ['whose manifest has a byte order mark', extensionZip({}, `\ufeff${JSON.stringify(MANIFEST)}`), ''],
  ])('%s', async (_, zip, root) => expect(await check(zip)).toEqual({ root }))

  test('with what an installation by policy needs, and this is told', async () => {
    const zip = extensionZip({ 'update.xml': '<gupdate/>', 'ext.crx': 'Cr24' }, { ...MANIFEST, permissions: ['webRequestBlocking'] })
    expect(await check(zip)).toEqual({ root: '', crx: 'ext.crx' })
  })
})

describe('an archive is refused', () => {
  test.each([
    ['that is no zip', Buffer.from('not a zip'), 'is not a zip that can be read'],
    ['that is cut off', extensionZip({ 'a.js': 'x'.repeat(1000) }).subarray(0, 200), 'is not a zip that can be read'],
    ['without a manifest', extensionZip({ 'a.js': '1' }, null), 'has no manifest.json'],
    ['with its manifest two folders down', makeZip([{ name: 'a/b/manifest.json', content: '{}' }]), 'has no manifest.json'],
    [
      'with its manifest in one of several folders',
      makeZip([{ name: 'a/manifest.json', content: JSON.stringify(MANIFEST) }, { name: 'b/x' }]),
      'has no manifest.json',
    ],
    ['whose manifest is no JSON', extensionZip({}, '{"name":'), 'that is not JSON'],
    ['whose manifest has a comment without an end', extensionZip({}, '{} /* x'), 'whose manifest_version'],
    ['whose manifest is a list', extensionZip({}, '[]'), 'that is not a JSON object'],
    ['whose manifest is not UTF-8', makeZip([{ name: 'manifest.json', content: Buffer.from([0xff, 0xfe, 0x7b]) }]), 'that is not UTF-8'],
    ['whose manifest is too large', extensionZip({}, ' '.repeat(1024 * 1024 + 1)), 'of more than 1048576 bytes'],
    ['of manifest version 2', manifest({ manifest_version: 2 }), 'manifest_version 2, which Chromium no longer supports'],
    ['of manifest version "3"', manifest({ manifest_version: '3' }), 'manifest_version is not 3'],
    ['without a name', manifest({ name: '' }), 'without a name'],
    ['with an impossible version', manifest({ version: '1.x' }), 'without a version'],
    ['with an update.xml alone', extensionZip({ 'update.xml': '' }), 'an update.xml and no .crx file'],
    ['with two .crx files', extensionZip({ 'update.xml': '', 'a.crx': '', 'b.crx': '' }), 'more than one .crx file'],
    ['with a .crx alone', extensionZip({ 'a.crx': '' }), 'a .crx file and no update.xml'],
    ['that needs a policy without its files', manifest({ permissions: ['webRequest', 'webRequestBlocking'] }), 'asks for the permission webRequestBlocking'],
    ['with an absolute name', withEntry({ name: '/etc/passwd' }), 'is not a zip that can be read (absolute path'],
    ['with a name that goes up', withEntry({ name: '../x' }), 'is not a zip that can be read (invalid relative path'],
    ['with a backslash in a name', withEntry({ name: '..\\x' }), 'is not a zip that can be read (invalid characters'],
    ['with a link', withEntry({ name: 'a', content: 'manifest.json', mode: 0o120777 }), 'has a link "a"'],
    ['with a device', withEntry({ name: 'a', mode: 0o020666 }), 'has "a", which is neither a file nor a directory'],
    ['with a pipe', withEntry({ name: 'a', mode: 0o010666 }), 'has "a", which is neither'],
    ['with a name twice', withEntry({ name: 'manifest.json' }), 'has "manifest.json" twice'],
    ['with a file below a file', withEntry({ name: 'manifest.json/x' }), 'has "manifest.json/x" below "manifest.json"'],
    ['that is encrypted', withEntry({ name: 'a', flags: 0x801 }), 'is encrypted'],
    ['with a manifest that is damaged', makeZip([{ name: 'manifest.json', content: JSON.stringify(MANIFEST), crc: 1 }]), 'is damaged at "manifest.json"'],
    [
      'with a manifest that is longer than it says',
      makeZip([{ name: 'manifest.json', content: JSON.stringify(MANIFEST), size: 3 }]),
      'is not a zip that can be read',
    ],
  ])('%s', async (_, zip, why) => expect(await refusal(zip)).toContain(why))

  test('with too many entries, and with too many that only names imply', async () => {
    const names = (count: number, name: (at: number) => string) => makeZip(Array.from({ length: count }, (__, at) => ({ name: name(at), store: true })))
    expect(await refusal(names(EXTENSION_LIMITS.entries + 1, String))).toContain(`more than ${EXTENSION_LIMITS.entries} entries`)
    expect(await refusal(names(EXTENSION_LIMITS.entries / 2 + 1, (at) => `${at}/x`))).toContain(`more than ${EXTENSION_LIMITS.entries} entries`)
  })

  test('with thousands of files two thousand folders down, in no more time than their names take to read', async () => {
    const deep = 'a/'.repeat(1_990)
    const zip = makeZip(Array.from({ length: 4_000 }, (__, at) => ({ name: `${deep}${at}`, store: true })))
    // CPU time, so that a busy machine does not matter. A check of each folder of each name takes a minute.
    const from = process.cpuUsage()
    expect(await refusal(zip)).toContain('no manifest.json')
    expect(process.cpuUsage(from).user / 1000).toBeLessThan(8_000)
  })

  test('that would unpack to too much, although its bytes are few: one content for many entries', async () => {
    const large = { name: 'x0', content: Buffer.alloc(64 * 1024 * 1024) }
    const same = Array.from({ length: 9 }, (__, at) => ({ name: `x${at + 1}`, sameAs: 0, size: large.content.length }))
    expect(await refusal(makeZip([large]))).toContain(`unpacks to more than ${EXTENSION_LIMITS.ratio} times its size`)
    const padded = makeZip([large, ...same, { name: 'pad', content: Buffer.alloc(4 * 1024 * 1024, 1), store: true }])
    expect(await refusal(padded)).toContain(`unpacks to more than ${EXTENSION_LIMITS.bytes} bytes`)
  })
})

test('of the zip in a .crx its version is told, whatever lies beside the manifest; it is at the root and has version 3', async () => {
  const packed = (zip: Buffer) => checkPacked(bytesSource(zip), AbortSignal.timeout(10_000))
  expect(await packed(extensionZip({ 'update.xml': '' }, { ...MANIFEST, version: '1.2.3', permissions: ['webRequestBlocking'] }))).toBe('1.2.3')
  await expect(packed(makeZip([{ name: 'ext/manifest.json', content: JSON.stringify(MANIFEST) }]))).rejects.toThrow('has no manifest.json at its root')
  await expect(packed(manifest({ manifest_version: 2 }))).rejects.toThrow('manifest_version 2, which Chromium no longer supports')
})

test('an error of the source is not taken for an error of the zip', async () => {
  const failing: ZipSource = { size: 1000, read: () => Promise.reject(new Error('the store is away')) }
  await expect(checkExtension(failing, AbortSignal.timeout(5_000))).rejects.toThrow('the store is away')
})

test.each([
  ['/* a */1', ' 1'],
  ['1// a\n2', '1 \n2'],
  ['"/* a */ // \\" b"', '"/* a */ // \\" b"'],
  ['1 /* a', '1  '],
  ['/*/ 1 */2', ' 2'],
  ['1/2', '1/2'],
])('the comments of %j are left out', (json, kept) => expect(withoutComments(json)).toBe(kept))

test('a manifest of nothing but openings of strings and comments takes no time', () => {
  // CPU time, so that a busy machine does not matter. An algorithm of quadratic time takes minutes.
  const from = process.cpuUsage()
  for (const piece of ['/*', '"\\"', '//', '"']) withoutComments(piece.repeat(512 * 1024))
  expect(process.cpuUsage(from).user / 1000).toBeLessThan(5_000)
})
