// Answers of tools have a bounded size, and stay valid JSON as long as possible.
import { expect, test } from 'vitest'
import { boundedJson, jsonResult, MAX_TEXT, textResult } from './results.ts'

test('no answer is longer than the limit, whatever it is made of', () => {
  const values: unknown[] = [
    '"'.repeat(MAX_TEXT),
    '\n'.repeat(10 * MAX_TEXT),
    Array.from({ length: 200_000 }, (_, at) => at),
    Array(20_000).fill('z'.repeat(300)),
    { ['k'.repeat(2 * MAX_TEXT)]: 1 },
  ]
  for (const value of values) expect(jsonResult(value).content[0]).toSatisfy((content: { text: string }) => content.text.length <= MAX_TEXT)
  expect(textResult('ab'.repeat(MAX_TEXT)).content[0]).toSatisfy((content: { text: string }) => content.text.length <= MAX_TEXT)
})

test('no half of a character is left where a text is cut', () => {
  for (const before of ['', 'x']) expect(JSON.parse(boundedJson(before + '😀'.repeat(MAX_TEXT)))).toSatisfy((text: string) => text.isWellFormed())
})
