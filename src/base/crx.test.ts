// CRX3 files, valid and tampered with.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { crxIdOf, crxWith, derOf, ecSigner, extensionIdOf, field, makeCrx, proofOf, rsaSigner } from '../../test/support/crx.ts'
import { extensionZip } from '../../test/support/extensions.ts'
import { BadCrx, readCrx } from './crx.ts'

const zip = extensionZip({ 'a.js': '1' })
const [own, publisher, ec] = [rsaSigner(), rsaSigner(), ecSigner()]
const id = extensionIdOf(own)
const data = field(1, crxIdOf(own))
const refusal = (file: Buffer, of = id) =>
  readCrx(file, of).then(
    () => 'taken',
    (error: unknown) => (error instanceof BadCrx ? error.message : Promise.reject(error as Error)),
  )

test.each([
  ['RSA', own, [own] as const],
  ['ECDSA', ec, [ec] as const],
  ['the key of the extension and that of the store', own, [own, publisher, ec] as const],
])('a file signed by %s gives exactly its zip and its id', async (_, first, signers) => {
  const file = makeCrx(zip, [...signers])
  for (const wanted of [extensionIdOf(first), undefined]) {
    const read = await readCrx(file, wanted)
    expect([read.id, read.zip.equals(zip)]).toEqual([extensionIdOf(first), true])
  }
})

test('fields that are not known are skipped, whatever their kind', async () => {
  const unknown = Buffer.concat([
    Buffer.from([0x28, 0x96, 0x01]),
    Buffer.from([0x31, 1, 2, 3, 4, 5, 6, 7, 8]),
    Buffer.from([0x3d, 1, 2, 3, 4]),
    field(4, Buffer.alloc(1000)),
  ])
  expect(await refusal(crxWith(Buffer.concat([unknown, proofOf(own, data, zip), field(10_000, data)]), zip))).toBe('taken')
})

describe('a file is refused', () => {
  const whole = makeCrx(zip, [own, publisher])
  const changed = (at: number) => {
    const copy = Buffer.from(whole)
    copy[at]! ^= 1
    return copy
  }
  const header = (...parts: Buffer[]) => crxWith(Buffer.concat(parts), zip)
  const otherData = field(1, crxIdOf(publisher))
  const small = rsaSigner(1024)

  test.each<[string, Buffer, string]>([
    ['that is empty', Buffer.alloc(0), 'is not a CRX file'],
    ['that is a zip', zip, 'is not a CRX file'],
    ['of version 2', changed(4), 'is not of version 3'],
    ['with a header that is longer than the file', crxWith(Buffer.alloc(100), Buffer.alloc(0)).subarray(0, 50), 'a header that is too long'],
    ['with a header of more than 256 KiB', crxWith(Buffer.alloc(256 * 1024 + 1), zip), 'a header that is too long'],
    ['with a changed zip', changed(whole.length - 30), 'has a signature that does not hold'],
    ['with a longer zip', Buffer.concat([whole, Buffer.from([0])]), 'has a signature that does not hold'],
    ['of another extension', makeCrx(zip, [publisher, own]), `is not the extension ${id}`],
    ['that says it is this extension and is signed by another key', header(proofOf(publisher, data, zip), field(10_000, data)), 'is not signed by the key'],
    ['whose signature is for another id', header(proofOf(own, otherData, zip), field(10_000, data)), 'has a signature that does not hold'],
    [
      'with one signature of two that does not hold',
      header(proofOf(own, data, zip), proofOf(publisher, data, Buffer.from('x')), field(10_000, data)),
      'does not hold',
    ],
    ['without a signature', header(field(10_000, data)), 'has no signature'],
    ['without signed data', header(proofOf(own, data, zip)), 'has its signed data missing'],
    ['with signed data twice', header(proofOf(own, data, zip), field(10_000, data), field(10_000, otherData)), 'has its signed data twice'],
    ['with two ids', header(field(10_000, Buffer.concat([data, otherData]))), 'has its id twice'],
    ['with a short id', header(field(10_000, field(1, Buffer.alloc(15)))), 'has an id of the wrong length'],
    ['with too many signatures', header(...Array.from({ length: 9 }, () => proofOf(own, data, zip)), field(10_000, data)), 'more than 8 signatures'],
    [
      'with a key that is none',
      header(field(2, Buffer.concat([field(1, Buffer.from('key')), field(2, Buffer.from('s'))])), field(10_000, data)),
      'has a key that cannot be read',
    ],
    [
      'with a key of 10 KB',
      header(field(2, Buffer.concat([field(1, Buffer.alloc(10_000)), field(2, Buffer.from('s'))])), field(10_000, data)),
      'that is too long',
    ],
    ['with an RSA key where ECDSA belongs', header(proofOf(own, data, zip, 3), field(10_000, data)), 'a key of another kind'],
    ['with a curve that Chromium does not take', header(proofOf(ecSigner('secp384r1'), data, zip), field(10_000, data)), 'a key of another kind'],
    [
      'with a key twice in one proof',
      header(field(2, Buffer.concat([field(1, derOf(own)), field(1, derOf(small)), field(2, Buffer.from('s'))])), field(10_000, data)),
      'has the key of a signature twice',
    ],
    ['that holds no zip', makeCrx(Buffer.from('no zip'), [own]), 'holds no zip'],
  ])('%s', async (_, file, why) => expect(await refusal(file)).toContain(why))

  test('for any changed byte', async () => {
    // With one signature left: the header itself is not signed, so other signatures can be removed.
    const alone = makeCrx(zip, [own])
    await fc.assert(
      fc.asyncProperty(fc.nat(alone.length - 1), fc.integer({ min: 1, max: 255 }), async (at, difference) => {
        const copy = Buffer.from(alone)
        copy[at]! ^= difference
        const found = await refusal(copy)
        expect(found).not.toBe('taken')
      }),
      { numRuns: 300 },
    )
  })

  test('for any header of random bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        expect(await refusal(crxWith(Buffer.from(bytes), zip))).not.toBe('taken')
      }),
      { numRuns: 500 },
    )
  })
})
