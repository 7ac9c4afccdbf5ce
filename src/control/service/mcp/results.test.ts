// Answers of tools have a bounded size, and stay JSON for as long as that can be.
import { expect, test } from 'vitest'
import { boundedJson, jsonResult, MAX_TEXT, textResult } from './results.ts'

test('a short answer is whole', () => {
  expect(JSON.parse(boundedJson({ a: 'é', b: [1, null] }))).toEqual({ a: 'é', b: [1, null] })
})

test('long texts are cut, with a note of how much is missing; the rest stays', () => {
  const cut = JSON.parse(boundedJson({ page: 'x'.repeat(5_000_000), title: 'short', lines: ['y'.repeat(300_000)] })) as {
    page: string
    title: string
    lines: string[]
  }
  expect(cut.title).toBe('short')
  const [, missing, all] = /^x+… \[(\d+) of (\d+) characters are not shown\]$/.exec(cut.page)!
  expect([Number(missing) + cut.page.indexOf('…'), Number(all)]).toEqual([5_000_000, 5_000_000])
  expect(cut.lines[0]).toMatch(/^y+… \[/)
})

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
