// KeePass files that are made to be expensive, or to be more than they seem, are refused before they cost anything.
import { createCipheriv, createHash, createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openKdbx } from './kdbx.ts'
import { compositeKey } from './kdbx-key.ts'
import { readEntries } from './keepass-xml.ts'

const never = new AbortController().signal
const key = compositeKey('x', undefined)
const sha256 = (...parts: Buffer[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const sha512 = (...parts: Buffer[]) => createHash('sha512').update(Buffer.concat(parts)).digest()
const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer)
const u64 = (value: bigint) => Buffer.from(BigUint64Array.of(value).buffer)
const field = (id: number, value: Buffer) => Buffer.concat([Buffer.from([id]), u32(value.length), value])

type Kdf = Record<string, bigint | Buffer>
function variants(kdf: Kdf): Buffer {
  const parts = Object.entries(kdf).map(([name, value]) => {
    const content = Buffer.isBuffer(value) ? value : u64(value)
    return Buffer.concat([Buffer.from([Buffer.isBuffer(value) ? 0x42 : 0x05]), u32(name.length), Buffer.from(name), u32(content.length), content])
  })
  return Buffer.concat([Buffer.from([0, 1]), ...parts, Buffer.from([0])])
}
const AES: Kdf = { $UUID: Buffer.from('c9d9f39a628a4460bf740d08c18a4fea', 'hex'), S: Buffer.alloc(32, 1), R: 2n }
const argon = (more: Kdf): Kdf => ({
  $UUID: Buffer.from('9e298b1956db4773b23dfc3ec6f0a1e6', 'hex'),
  S: Buffer.alloc(32, 1),
  M: 65_536n,
  I: 1n,
  P: 1n,
  V: 0x13n,
  ...more,
})

/** A database that is right in every signature. Its key is derived by two rounds of AES unless the header says something else. */
function database(content: Buffer, kdf = AES): Buffer {
  const [seed, iv] = [Buffer.alloc(32, 2), Buffer.alloc(16, 3)]
  const header = Buffer.concat([
    u32(0x9aa2d903),
    u32(0xb54bfb67),
    u32(0x40000),
    field(2, Buffer.from('31c1f2e6bf714350be5805216afc5aff', 'hex')),
    field(3, u32(1)),
    field(4, seed),
    field(7, iv),
    field(11, variants(kdf)),
    field(0, Buffer.from('\r\n\r\n')),
  ])
  const rounds = createCipheriv('aes-256-ecb', AES.S as Buffer, null).setAutoPadding(false)
  const transformed = sha256(rounds.update(rounds.update(key)))
  const macKey = sha512(seed, transformed, Buffer.from([1]))
  const mac = (block: bigint, ...parts: Buffer[]) =>
    createHmac('sha256', sha512(u64(block), macKey))
      .update(Buffer.concat(parts))
      .digest()
  const cipher = createCipheriv('aes-256-cbc', sha256(seed, transformed), iv)
  const encrypted = Buffer.concat([cipher.update(content), cipher.final()])
  const block = (number: bigint, part: Buffer) => Buffer.concat([mac(number, u64(number), u32(part.length), part), u32(part.length), part])
  return Buffer.concat([header, sha256(header), mac(2n ** 64n - 1n, header), block(0n, encrypted), block(1n, Buffer.alloc(0))])
}
const inner = (xml: string) => Buffer.concat([field(1, u32(3)), field(2, Buffer.alloc(64, 4)), field(0, Buffer.alloc(0)), Buffer.from(xml)])
const read = async (bytes: Buffer) => readEntries(await openKdbx(bytes, key, never), never)
const problem = (bytes: Buffer) =>
  read(bytes).then(
    () => 'none',
    (error: Error) => `${error.name}: ${error.message}`,
  )

test('a database that is right is read, so that the refusals below say something', async () => {
  const xml =
    '<KeePassFile><Root><Group><Name>R</Name><Entry><UUID>a</UUID><String><Key>Title</Key><Value>&lt;t&gt;</Value></String></Entry></Group></Root></KeePassFile>'
  expect(await read(database(gzipSync(inner(xml))))).toEqual([{ id: 'a', groups: [{ id: '', name: 'R' }], fields: new Map([['Title', '<t>']]) }])
})

test('a derivation that takes too much memory or time is refused, and impossible settings too', async () => {
  const refused = async (kdf: Kdf) => problem(database(Buffer.alloc(0), kdf))
  expect(await refused(argon({ M: 512n * 1024n * 1024n }))).toMatch(/takes too much: Argon2 may have at most 256 MiB/)
  expect(await refused(argon({ M: 2n ** 63n }))).toMatch(/takes too much/)
  expect(await refused(argon({ M: 64n * 1024n * 1024n, I: 1_000n }))).toMatch(/takes too much/)
  expect(await refused(argon({ P: 1_000n }))).toMatch(/takes too much/)
  expect(await refused(argon({ M: 0n }))).toMatch(/impossible settings of Argon2/)
  expect(await refused(argon({ I: 0n }))).toMatch(/impossible settings of Argon2/)
  expect(await refused(argon({ V: 0x10n }))).toMatch(/old version of Argon2/)
  expect(await refused({ ...AES, R: 2n ** 40n })).toMatch(/more than 20000000 rounds of AES/)
  expect(await refused({ ...AES, $UUID: Buffer.alloc(16) })).toMatch(/unknown key derivation/)
})

test('what is unpacked has a limit: some kilobytes that become many megabytes are refused', async () => {
  const bomb = gzipSync(Buffer.alloc(128 * 1024 * 1024))
  expect(bomb.length).toBeLessThan(200 * 1024)
  expect(await problem(database(bomb))).toMatch(/larger than 67108864 bytes when it is unpacked/)
})

test('documents that nest without end, have entities of their own, or are no XML, are refused', async () => {
  const refused = async (xml: string) => problem(database(gzipSync(inner(xml))))
  expect(await refused('<Group>'.repeat(100_000))).toMatch(/damaged/)
  expect(await refused('<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>')).toMatch(/damaged/)
  expect(await refused('{"no": "xml"}')).toMatch(/damaged/)
})

test('a caller who goes away does not wait for the derivation', async () => {
  const reason = new Error('gone')
  await expect(openKdbx(database(Buffer.alloc(0), { ...AES, R: 10_000_000n }), key, AbortSignal.abort(reason))).rejects.toBe(reason)
  await expect(openKdbx(database(Buffer.alloc(0), argon({ M: 64n * 1024n * 1024n, I: 20n })), key, AbortSignal.abort(reason))).rejects.toBe(reason)
})
