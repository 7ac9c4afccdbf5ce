// Kept answers, by address and tag: found while they are used, limited in number and bytes.
import { expect, test } from 'vitest'
import { KeptAnswers } from './kept.ts'

const MIB = 1024 * 1024
const answer = (etag: string, bytes = 10) => ({ etag, headers: { 'content-type': 'image/png', etag }, body: Buffer.alloc(bytes, etag) })
const tags = (kept: KeptAnswers, address: string) => [...kept.of(address).keys()]

test('a cached answer is found only under its own address and tag', () => {
  const kept = new KeptAnswers()
  kept.keep('/a', answer('"1"'))
  kept.keep('/b', answer('"2"'))
  expect(tags(kept, '/a')).toEqual(['"1"'])
  expect(tags(kept, '/b')).toEqual(['"2"'])
  expect(tags(kept, '/c')).toEqual([])
  expect(kept.of('/a').get('"1"')!.body.toString()).toBe('"1"'.repeat(4).slice(0, 10))
})

test('the last eight answers of an address are kept, and using one makes it the newest', () => {
  const kept = new KeptAnswers()
  for (let number = 1; number <= 8; number++) kept.keep('/a', answer(`"${number}"`))
  kept.keep('/a', answer('"1"'))
  kept.keep('/a', answer('"9"'))
  expect(tags(kept, '/a')).toEqual(['"3"', '"4"', '"5"', '"6"', '"7"', '"8"', '"1"', '"9"'])
})

test('the cache takes at most 64 MiB; the least recently used answers are dropped first', () => {
  const kept = new KeptAnswers()
  for (let number = 1; number <= 10; number++) kept.keep(`/${number}`, answer('"x"', 8 * MIB))
  expect(Array.from({ length: 10 }, (_, index) => tags(kept, `/${index + 1}`).length)).toEqual([0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
})

test('an answer that was offered stays readable, also if it is dropped meanwhile', () => {
  const kept = new KeptAnswers()
  kept.keep('/a', answer('"1"'))
  const offered = kept.of('/a')
  for (let number = 2; number <= 20; number++) kept.keep('/a', answer(`"${number}"`))
  expect(tags(kept, '/a')).not.toContain('"1"')
  expect(offered.get('"1"')).toBeDefined()
})
