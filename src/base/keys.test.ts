// The file of keys: its content, its readers, and how a running service applies a change.
import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { scratchDir } from '../../test/support/scratch.ts'
import { fixedKeys, openKeys, readKeyFile, sealingKey, writeKeyFile, type FileKey } from './keys.ts'

const ROOT = Buffer.alloc(32, 1)
const fresh = (others: Partial<FileKey> = {}): FileKey => ({ ...sealingKey(randomBytes(32)), madeAt: new Date(), isTakingOver: false, ...others })
const ids = (keys: { sealing(): readonly { id: string }[] }) => keys.sealing().map(({ id }) => id)

let file: string
beforeEach(() => {
  const dir = scratchDir('cob-keys-')
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  file = join(dir, 'sealing-keys')
})

test('an id is the same for the same key, differs between keys, and is no part of it', () => {
  const key = sealingKey(ROOT)
  expect(sealingKey(Buffer.alloc(32, 1)).id).toBe(key.id)
  expect(sealingKey(Buffer.alloc(32, 2)).id).not.toBe(key.id)
  expect(key.id).toMatch(/^[0-9a-f]{16}$/)
  expect(ROOT.toString('hex')).not.toContain(key.id)
})

test('without a file the first key of the service encrypts; with one its first key does, and all decrypt', () => {
  const keys = openKeys({ root: ROOT, set: [], file })
  expect(ids(keys)).toEqual([keys.root.id])
  const [older, newer] = [fresh(), fresh({ isTakingOver: true })]
  writeKeyFile(file, [newer, older])
  expect(readKeyFile(file)).toEqual([newer, older])
  // The same keys as before, as a running service has them.
  expect(ids(keys)).toEqual([newer.id, older.id, keys.root.id])
  writeKeyFile(file, [newer])
  expect(ids(keys)).toEqual([newer.id, keys.root.id])
})

test('keys of the settings come before those of the file; one that is there twice counts once', () => {
  const [set, ofFile] = [randomBytes(32), fresh()]
  writeKeyFile(file, [ofFile, fresh({ ...sealingKey(set) })])
  expect(ids(openKeys({ root: ROOT, set: [set], file }))).toEqual([sealingKey(set).id, ofFile.id, sealingKey(ROOT).id])
  // The first key of the service may be named, so that it continues to encrypt while the next one is distributed.
  expect(ids(openKeys({ root: ROOT, set: [ROOT, set], file })).slice(0, 2)).toEqual([sealingKey(ROOT).id, sealingKey(set).id])
  expect(ids(fixedKeys(ROOT, set))).toEqual([sealingKey(set).id, sealingKey(ROOT).id])
})

test('only its owner may read the file', () => {
  writeKeyFile(file, [fresh()])
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('a file that is gone is an error, not a return to the first key: what newer keys have encrypted would be lost', () => {
  writeKeyFile(file, [fresh()])
  const keys = openKeys({ root: ROOT, set: [], file })
  rmSync(file)
  expect(() => keys.sealing()).toThrow(/sealing-keys is gone/)
})

test.each(['{}', 'ab'.repeat(32), `${'ab'.repeat(31)} 2026-01-01T00:00:00.000Z`, `${'ab'.repeat(32)} yesterday`])(
  'a file with the line %j is refused, without the line',
  (line) => {
    writeKeyFile(file, [fresh()])
    writeFileSync(file, `${readFileSync(file, 'utf8')}${line}\n`)
    expect(() => openKeys({ root: ROOT, set: [], file })).toThrow(/sealing-keys has a line that is not a key; put back the file as it was$/)
  },
)
