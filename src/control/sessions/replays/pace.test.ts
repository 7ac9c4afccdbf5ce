// Recordings are fetched at the rate of a real recorder, whatever an agent sends.
import { expect, test } from 'vitest'
import { Pace } from './pace.ts'

test('a recorder never waits: megabytes after a pause, and a few answers a second', () => {
  const pace = new Pace()
  for (let piece = 0; piece < 150; piece++) expect(pace.spend(64 * 1024, 1)).toBe(0)
})

test.each([
  ['bytes', 64 * 1024, 1, 8 * 1024 * 1024],
  ['answers of one byte', 1, 1, 200],
])('an agent that sends very many %s has to wait for its average', (what, bytes, turns, perSecond) => {
  const pace = new Pace()
  let waits = 0
  for (let piece = 0; piece < 5_000; piece++) waits = pace.spend(bytes, turns)
  const [sent, atOnce] = what === 'bytes' ? [5_000 * bytes, 64 * 1024 * 1024] : [5_000, 200]
  const expected = ((sent - atOnce) / perSecond) * 1000
  expect(waits).toBeLessThanOrEqual(expected)
  expect(waits).toBeGreaterThan(expected * 0.9)
})
