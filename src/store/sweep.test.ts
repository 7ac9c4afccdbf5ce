// The objects that a sweep removes, and those that it must never remove.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileObjects } from './objects-files.ts'
import type { Objects } from './objects.ts'
import { belongTo, findMissing, removeUnnamed, type ObjectOwner } from './sweep.ts'

const { signal } = new AbortController()
const HOUR_MS = 3600_000
const [PAST, FUTURE] = [new Date(Date.now() - HOUR_MS), new Date(Date.now() + HOUR_MS)]

let dir: string
let objects: Objects
/** The keys, by the ids of their rows. */
let rows: Map<string, string[]>
const owner: ObjectOwner = {
  prefix: 'films',
  named: async (ids) => ids.flatMap((id) => rows.get(id) ?? []),
  expected: async (after, limit) =>
    [...rows]
      .filter(([id]) => id > after)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit)
      .map(([id, keys]) => ({ id, keys })),
}
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-sweep-'))
  objects = fileObjects(dir)
  rows = new Map()
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const put = (...keys: string[]) => Promise.all(keys.map((key) => objects.put(key, content(), { maxBytes: 10 }, signal)))
const all = async () => {
  const keys: string[] = []
  for (const prefix of ['films', 'others']) for await (const { key } of objects.list(prefix, signal)) keys.push(key)
  return keys.toSorted()
}
async function* content() {
  yield Buffer.from('x')
}

test('of old objects those are removed that no row names: attempts that were not completed, rows that are gone', async () => {
  await put('films/a.1', 'films/a.1.head', 'films/a.2', 'films/a.2.head', 'films/b', 'films/c.1', 'others/x')
  rows.set('a', ['films/a.2', 'films/a.2.head']).set('b', ['films/b'])
  const { removed, foreign } = await removeUnnamed(objects, [owner], { after: PAST, before: FUTURE }, signal)
  expect([removed.toSorted(), foreign]).toEqual([['films/a.1', 'films/a.1.head', 'films/c.1'], 0])
  expect(await all()).toEqual(['films/a.2', 'films/a.2.head', 'films/b', 'others/x'])
})

test('a young object is spared: its row may come', async () => {
  await put('films/a.1')
  expect(await removeUnnamed(objects, [owner], { after: new Date(0), before: PAST }, signal)).toEqual({ removed: [], foreign: 0, failures: [] })
  expect(await all()).toEqual(['films/a.1'])
})

test('an object that is older than the database is kept: it belongs to another one', async () => {
  await put('films/a.1')
  expect(await removeUnnamed(objects, [owner], { after: FUTURE, before: FUTURE }, signal)).toEqual({ removed: [], foreign: 1, failures: [] })
  expect(await all()).toEqual(['films/a.1'])
})

test('a row that is written after the list was read counts', async () => {
  await put('films/a.1')
  const late: ObjectOwner = {
    ...owner,
    async named(ids) {
      rows.set('a', ['films/a.1'])
      return owner.named(ids)
    },
  }
  expect((await removeUnnamed(objects, [late], { after: PAST, before: FUTURE }, signal)).removed).toEqual([])
})

test('an object that cannot be removed does not keep the others', async () => {
  await put('films/a.1', 'films/b.1', 'films/c.1')
  const locked: Objects = {
    ...objects,
    delete: async (key, within_) => (key === 'films/b.1' ? Promise.reject(new Error('locked')) : objects.delete(key, within_)),
  }
  const { removed, failures } = await removeUnnamed(locked, [owner], { after: PAST, before: FUTURE }, signal)
  expect([removed.toSorted(), failures.map(String)]).toEqual([['films/a.1', 'films/c.1'], ['Error: locked']])
  expect(await all()).toEqual(['films/b.1'])
})

test('a bucket belongs to the first database that asks, and to no other', async () => {
  const [mine, other] = [new Date('2026-01-01'), new Date('2026-01-02')]
  expect(await belongTo(objects, mine, signal)).toBe(true)
  expect(await belongTo(objects, other, signal)).toBe(false)
  expect(await belongTo(objects, mine, signal)).toBe(true)
})

test('more objects than one statement asks for are all looked at', async () => {
  const keys = Array.from({ length: 1_100 }, (_, index) => `films/${String(index).padStart(5, '0')}.1`)
  const listed: Objects = {
    ...objects,
    async *list() {
      for (const key of keys) yield { key, bytes: 1, modified: new Date() }
    },
    delete: async () => {},
  }
  rows.set('00700', ['films/00700.1'])
  const { removed } = await removeUnnamed(listed, [owner], { after: PAST, before: FUTURE }, signal)
  expect([removed.length, removed.includes('films/00700.1')]).toEqual([1_099, false])
})

test('objects that rows name and that are gone are found, and no others', async () => {
  await put('films/a.1', 'films/c.1')
  rows.set('a', ['films/a.1', 'films/a.1.head']).set('b', ['films/b.1']).set('c', ['films/c.1'])
  expect((await findMissing(objects, [owner], signal)).toSorted()).toEqual(['films/a.1.head', 'films/b.1'])
})

test('a row that ends while objects are looked for, and one that is written meanwhile, are not reported', async () => {
  rows.set('ended', ['films/ended.1'])
  const changing: ObjectOwner = {
    ...owner,
    async expected(after, limit) {
      const found = await owner.expected(after, limit)
      rows.delete('ended')
      if (after !== '') return found
      await put('films/fresh.1')
      rows.set('fresh', ['films/fresh.1'])
      return [...found, { id: 'fresh', keys: ['films/fresh.1'] }]
    },
  }
  expect(await findMissing(objects, [changing], signal)).toEqual([])
})
