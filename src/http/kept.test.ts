// Kept answers, by address and tag: found while they are used, bounded in number and bytes.
import { expect, test } from 'vitest'
import { KeptAnswers } from './kept.ts'

const MIB = 1024 * 1024
const answer = (etag: string, bytes = 10) => ({ etag, headers: { 'content-type': 'image/png', etag }, body: Buffer.alloc(bytes, etag) })
const tags = (kept: KeptAnswers, address: string) => [...kept.of(address).keys()]

test('an answer is found under its own address and tag only', () => {
  const kept = new KeptAnswers()
  kept.keep('/a', answer('"1"'))
  kept.keep('/b', answer('"2"'))
  expect(tags(kept, '/a')).toEqual(['"1"'])
  expect(tags(kept, '/b')).toEqual(['"2"'])
  expect(tags(kept, '/c')).toEqual([])
  expect(kept.of('/a').get('"1"')!.body.toString()).toBe('"1"'.repeat(4).slice(0, 10))
})

test('of one address the last eight are kept, and using one again makes it the last', () => {
  const kept = new KeptAnswers()
  for (let number = 1; number <= 8; number++) kept.keep('/a', answer(`"${number}"`))
  kept.keep('/a', answer('"1"'))
  kept.keep('/a', answer('"9"'))
  expect(tags(kept, '/a')).toEqual(['"3"', '"4"', '"5"', '"6"', '"7"', '"8"', '"1"', '"9"'])
})

test('all together they take no more than 64 MiB; those used longest ago go first', () => {
  const kept = new KeptAnswers()
  for (let number = 1; number <= 10; number++) kept.keep(`/${number}`, answer('"x"', 8 * MIB))
  expect(Array.from({ length: 10 }, (_, index) => tags(kept, `/${index + 1}`).length)).toEqual([0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
})

test('what was offered stays at hand, also when it is dropped in the meantime', () => {
  const kept = new KeptAnswers()
  kept.keep('/a', answer('"1"'))
  const offered = kept.of('/a')
  for (let number = 2; number <= 20; number++) kept.keep('/a', answer(`"${number}"`))
  expect(tags(kept, '/a')).not.toContain('"1"')
  expect(offered.get('"1"')).toBeDefined()
})
