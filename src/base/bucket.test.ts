// A rate: so much at once, then its average.
import { expect, test } from 'vitest'
import { Bucket } from './bucket.ts'
import { sleep } from './wait.ts'

test('gives what it holds at once, then says how long to wait', () => {
  const bucket = new Bucket({ perSecond: 1, atOnce: 5 })
  expect(Array.from({ length: 5 }, () => bucket.take())).toEqual([0, 0, 0, 0, 0])
  const wait = bucket.take(60)
  expect(wait).toBeGreaterThan(50_000)
  expect(wait).toBeLessThanOrEqual(60_000)
})

test('fills up again, to no more than it holds', async () => {
  const bucket = new Bucket({ perSecond: 1_000, atOnce: 5 })
  expect(bucket.take(5)).toBe(0)
  await sleep(100)
  expect(bucket.take(5)).toBe(0)
  expect(bucket.take(60_000)).toBeGreaterThan(50_000)
})
