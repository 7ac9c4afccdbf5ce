// Learned values are found in texts, also in texts that are made to take long.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { makeLearned } from './learned.ts'
import { without } from './ranges.ts'

test('what is found of learned values is what a search for each of them finds', () => {
  const unit = fc.constantFrom('a', 'b', '1', '2', '/', ' ', 'ä')
  const values = fc.array(fc.string({ unit, minLength: 4, maxLength: 12 }), { maxLength: 12 })
  const rest = fc.string({ unit, maxLength: 40 })
  fc.assert(
    fc.property(values, fc.array(fc.oneof(rest, fc.nat(11)), { maxLength: 6 }), (given, parts) => {
      const learned = makeLearned()
      for (const value of given) learned.learn(value)
      // Texts have values, beginnings of them, and others in between.
      const text = parts.map((part) => (typeof part === 'string' ? part : (given[part] ?? ''))).join('')
      const words = given.filter((value) => value.trim().length >= 4).flatMap((value) => [value, value.trim(), value.normalize('NFD')])
      const places = words.flatMap((word) => Array.from(text, (_, at) => [at, at + word.length] as const).filter(([at]) => text.startsWith(word, at)))
      expect(without(text, learned.find(text, false))).toBe(without(text, places))
    }),
    { numRuns: 500 },
  )
})

test('values that begin alike, in a text of their beginning, take no longer than others: the text is left out', () => {
  const learned = makeLearned()
  const beginning = 'a'.repeat(255)
  for (let field = 10; field < 74; field++) learned.learn(`${beginning}${field}`)
  const text = 'a'.repeat(8192)
  const before = process.cpuUsage()
  for (let times = 0; times < 20; times++) learned.find(text, false)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(1_000)
  expect(without(text, learned.find(text, false))).toBe('[redacted]')
  // A value itself, and a text that has some of its beginning, are still found.
  const usual = `x ${beginning}42 y ${'a'.repeat(100)}`
  expect(without(usual, learned.find(usual, false))).toBe(`x [redacted] y ${'a'.repeat(100)}`)
})

test.each(['%25', '%', '\\', '%u', '+', '%C3'])('a text of nothing but "%s" takes no time', (piece) => {
  const learned = makeLearned()
  learned.learn('hunter22')
  const before = process.cpuUsage()
  for (let times = 0; times < 50; times++) learned.find(piece.repeat(65_536 / piece.length), true)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(3_000)
})
