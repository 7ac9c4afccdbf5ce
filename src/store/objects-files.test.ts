// Objects as files: the suite of all stores, and the promises of files only.
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileObjects } from './objects-files.ts'
import { objectsSuite } from './objects.suite.ts'
import { makeSpool } from './spool.ts'

const { signal } = new AbortController()
let dir: string
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'cob-files-'))))
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const stores = mkdtempSync(join(tmpdir(), 'cob-files-suite-'))
objectsSuite('files', 32, async () => {
  const objects = fileObjects(stores)
  return { ...objects, [Symbol.dispose]: () => rmSync(stores, { recursive: true, force: true }) }
})

test('a file is not copied: the object is the same file under a second name', async () => {
  const source = join(dir, 'source')
  writeFileSync(source, 'a film')
  await fileObjects(join(dir, 'objects')).putFile('replays/a', source, signal)
  expect(statSync(join(dir, 'objects/replays/a')).ino).toBe(statSync(source).ino)
})

test('a linked file is as young as its link, so that a sweep spares it until its row is written', async () => {
  const source = join(dir, 'source')
  writeFileSync(source, 'a film')
  utimesSync(source, 1, 1)
  const objects = fileObjects(join(dir, 'objects'))
  const before = Date.now()
  await objects.putFile('replays/a', source, signal)
  for await (const { modified } of objects.list('replays', signal)) expect(modified.getTime()).toBeGreaterThan(before - 1_000)
})

test('half of a put that a killed process left is no object, and is removed when it is old', async () => {
  const objects = fileObjects(dir)
  mkdirSync(join(dir, '.new'))
  writeFileSync(join(dir, '.new', 'half'), 'x')
  await objects.put('replays/a', one('whole'), { maxBytes: 10 }, signal)
  for await (const { key } of objects.list('replays', signal)) expect(key).toBe('replays/a')
  await objects.dropUnfinished(new Date(Date.now() - 60_000), signal)
  expect(readdirSync(join(dir, '.new'))).toEqual(['half'])
  await objects.dropUnfinished(new Date(Date.now() + 60_000), signal)
  expect([readdirSync(join(dir, '.new')), readFileSync(join(dir, 'replays/a'), 'utf8')]).toEqual([[], 'whole'])
})

test('a spool grows at its end only, and says what it has', async () => {
  const spool = makeSpool(join(dir, 'spool'))
  expect([await spool.list(), await spool.read('a')]).toEqual([[], undefined])
  await spool.append('a', 0, Buffer.from('one'))
  await spool.append('a', 3, Buffer.from('two'))
  await spool.sync('a')
  const hash = createHash('sha256')
  for await (const chunk of (await spool.read('a'))!) hash.update(chunk as Buffer)
  expect(hash.digest('hex')).toBe(createHash('sha256').update('onetwo').digest('hex'))
  await expect(spool.append('b', 3, Buffer.from('x'))).rejects.toMatchObject({ code: 'ENOENT' })
  expect(() => spool.path('../a')).toThrow('not the name')
  await spool.remove('a')
  await spool.remove('a')
  expect(await spool.list()).toEqual([])
})

async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}
