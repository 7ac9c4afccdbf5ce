// Sealed values can be opened for their owner, purpose and key only, including values from before keys had ids.
import { createCipheriv, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { derivedKey } from './derived-key.ts'
import { fixedKeys } from './keys.ts'
import { headerOf, keyIdOf, makeSealer } from './sealed.ts'

const ROOT = Buffer.alloc(32, 1)
const [NEW, OTHER] = [Buffer.alloc(32, 2), Buffer.alloc(32, 3)]
const keys = fixedKeys(ROOT)
const sealer = makeSealer(keys, 'tests')

/** As earlier versions of Cob have sealed it. */
function sealedBefore(text: string, owner: string, nonce: Buffer = randomBytes(12)): Buffer {
  const cipher = createCipheriv('aes-256-gcm', derivedKey(ROOT, 'cob-sealed-tests'), nonce).setAAD(Buffer.from(owner))
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}

test.each(['', 'hush', 'ü🌽\0', 'x'.repeat(100_000)])('what is sealed opens again, and names its key', (text) => {
  const sealed = sealer.seal(text, 'owner')
  expect(sealer.open(sealed, 'owner')).toBe(text)
  expect(keyIdOf(sealed)).toBe(keys.root.id)
  expect(sealed.subarray(0, headerOf(keys.root).length)).toEqual(headerOf(keys.root))
  expect(sealer.seal(text, 'owner')).not.toEqual(sealed)
})

test('it opens for no other owner, purpose or key', () => {
  const sealed = sealer.seal('hush', 'owner')
  expect(() => sealer.open(sealed, 'other')).toThrow()
  expect(() => makeSealer(keys, 'others').open(sealed, 'owner')).toThrow()
  expect(() => makeSealer(fixedKeys(OTHER), 'tests').open(sealed, 'owner')).toThrow(`encrypted with the key ${keys.root.id}, which this service does not have`)
})

test('no byte of it can be changed, and nothing left out or added', () => {
  const sealed = sealer.seal('hush', 'owner')
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at]! ^= 1
    expect(() => sealer.open(changed, 'owner')).toThrow()
  }
  for (let length = 0; length < sealed.length; length++) expect(() => sealer.open(sealed.subarray(0, length), 'owner')).toThrow()
  expect(() => sealer.open(Buffer.concat([sealed, Buffer.alloc(1)]), 'owner')).toThrow()
})

test('a new key seals, and what older keys have sealed opens', () => {
  const sealed = sealer.seal('hush', 'owner')
  const newer = makeSealer(fixedKeys(ROOT, NEW, OTHER), 'tests')
  expect(newer.open(sealed, 'owner')).toBe('hush')
  expect(keyIdOf(newer.seal('hush', 'owner'))).toBe(fixedKeys(NEW).root.id)
  expect(newer.open(makeSealer(fixedKeys(OTHER), 'tests').seal('hush', 'owner'), 'owner')).toBe('hush')
})

test('what was sealed before keys had ids opens with the first key of the service, whatever its first bytes are', () => {
  for (const opener of [sealer, makeSealer(fixedKeys(ROOT, NEW), 'tests')]) {
    const sealed = sealedBefore('hush', 'owner')
    expect([keyIdOf(sealed), opener.open(sealed, 'owner')]).toEqual([undefined, 'hush'])
    const unlucky = sealedBefore('hush', 'owner', headerOf(fixedKeys(OTHER).root).subarray(0, 12))
    expect([keyIdOf(unlucky), opener.open(unlucky, 'owner')]).toEqual([expect.any(String), 'hush'])
  }
  expect(() => makeSealer(fixedKeys(OTHER), 'tests').open(sealedBefore('hush', 'owner'), 'owner')).toThrow()
})
