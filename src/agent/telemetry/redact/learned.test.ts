// Learned values are found in texts, also in those that are made to take long.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formsOf } from './forms.ts'
import { makeLearned, MIN_LENGTH } from './learned.ts'
import { without, type Range } from './ranges.ts'

const CODE = /^\d{3}$/

/** What {@link makeLearned} promises, form by form and place by place. */
function naively(values: readonly string[], text: string): Range[] {
  const forms = values.flatMap((value) => (CODE.test(value) ? [value] : value.trim().length < MIN_LENGTH ? [] : formsOf(value, MIN_LENGTH)))
  return forms.flatMap((form) =>
    Array.from({ length: text.length }, (_, at) => at)
      .filter((at) => text.startsWith(form, at))
      .filter((at) => !CODE.test(form) || (!/[\p{L}\d.,]/u.test(text[at - 1] ?? '') && !/[\p{L}\d]/u.test(text[at + form.length] ?? '')))
      .map((at): Range => [at, at + form.length]),
  )
}

test('what is found of learned values is what a search for each of their forms finds', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', '1', '2', '/', ' ', 'ä'), minLength: 3, maxLength: 12 })
  const code = fc.string({ unit: fc.constantFrom('1', '2'), minLength: 3, maxLength: 3 })
  const values = fc.array(fc.oneof(word, code), { maxLength: 12 })
  const rest = fc.string({ unit: fc.constantFrom('a', 'b', '1', '2', '/', ' ', 'ä', '.'), maxLength: 40 })
  fc.assert(
    fc.property(values, fc.array(fc.oneof(rest, fc.nat(11)), { maxLength: 6 }), (given, parts) => {
      const learned = makeLearned()
      for (const value of given) learned.learn(value)
      // Texts have values, beginnings of them, and others in between.
      const text = parts.map((part) => (typeof part === 'string' ? part : (given[part] ?? ''))).join('')
      expect(without(text, learned.find(text))).toBe(without(text, naively(given, text)))
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
  for (let times = 0; times < 20; times++) learned.find(text)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(1_000)
  expect(without(text, learned.find(text))).toBe('[redacted]')
  // A value itself, and a text that has some of its beginning, are found as ever.
  const usual = `x ${beginning}42 y ${'a'.repeat(100)}`
  expect(without(usual, learned.find(usual))).toBe(`x [redacted] y ${'a'.repeat(100)}`)
})
