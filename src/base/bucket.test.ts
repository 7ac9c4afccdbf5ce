// A rate: so much at once, then its average.
import { expect, test } from 'vitest'
import { Bucket } from './bucket.ts'
import { sleep } from './wait.ts'

test('gives what it holds at once, then says how long to wait, and fills up again to no more than it holds', async () => {
  const bucket = new Bucket({ perSecond: 100, atOnce: 5 })
  expect(Array.from({ length: 5 }, () => bucket.take())).toEqual([0, 0, 0, 0, 0])
  const wait = bucket.take(10)
  expect(wait).toBeGreaterThan(50)
  expect(wait).toBeLessThanOrEqual(100)
  await sleep(300)
  expect(Array.from({ length: 5 }, () => bucket.take())).toEqual([0, 0, 0, 0, 0])
  expect(bucket.take(5)).toBeGreaterThan(0)
})
