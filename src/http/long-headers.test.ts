// The longest headers and queries are parsed at once: a server parses the input of callers and pages in its only thread.
import { expect, test } from 'vitest'
import { parseQuery } from './body.ts'
import { crossing } from './endpoint.ts'
import { rangeOf } from './range.ts'

/** Much longer than Node allows a header to be (16 KiB): an algorithm of quadratic time takes seconds then. */
const LONG = 200_000
/** CPU time, so that a busy machine does not matter. An algorithm of linear time takes a few milliseconds. */
const MAX_MS = 500

const took = (work: () => unknown): number => {
  const from = process.cpuUsage()
  work()
  return process.cpuUsage(from).user / 1000
}

test.each([
  ['a range with a run of spaces', () => rangeOf(`bytes=${' '.repeat(LONG)}x`, 10)],
  ['a range with spaces and digits', () => rangeOf(`bytes=${' 1'.repeat(LONG / 2)}`, 10)],
  ['a connection header with a run of spaces', () => crossing({ connection: `close${' '.repeat(LONG)}x` })],
  ['a query that repeats a name', () => parseQuery('a&'.repeat(LONG / 2))],
])('%s', (_what, work) => {
  expect(took(work)).toBeLessThan(MAX_MS)
})

test('spaces in a range mean nothing around its numbers, and no range within one', () => {
  for (const header of ['bytes=2-3', ' bytes = 2 - 3 ', 'BYTES=2-3', 'bytes=2\t-3']) expect(rangeOf(header, 10)).toEqual({ start: 2, end: 4 })
  for (const header of ['bytes=2 2-3', 'bytes=2-3 3', 'bytes= - ', 'bytes=-', 'bytes=2', 'bytes=a-3']) expect(rangeOf(header, 10)).toBeUndefined()
  expect(rangeOf('bytes= -3', 10)).toEqual({ start: 7, end: 10 })
})

test('names in a connection header are left out, whatever stands around the commas', () => {
  expect(crossing({ connection: 'X-One ,\tx-two', 'x-one': '1', 'x-two': '2', 'x-three': '3' })).toEqual({ 'x-three': '3' })
})
