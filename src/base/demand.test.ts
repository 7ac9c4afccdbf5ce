// How demand is computed from creates, exact to the millisecond. The number of browsers that follows from demand and free memory: warm-pool.test.ts.
import { expect, test } from 'vitest'
import { Demand } from './demand.ts'

const MINUTE = 60_000

/** A demand whose boots take a second, with creates at these times. */
function asked(...times: number[]): Demand {
  const demand = new Demand()
  for (const at of times) demand.asked(at)
  return demand
}

test('callers who ask within the length of a boot count together, others do not', () => {
  expect(asked().level(0)).toBe(0)
  expect(asked(0, 2_000, 4_000).level(4_000)).toBe(1)
  expect(asked(0, 10, 20, 30, 40).level(40)).toBe(5)
  expect(asked(0, 400, 800, 1_200, 1_600).level(1_600)).toBe(3)
})

test('the length of a boot is learned', () => {
  const demand = new Demand()
  for (let i = 0; i < 50; i++) demand.booted(3_000)
  for (const at of [0, 1_000, 2_000, 8_000]) demand.asked(at)
  expect(demand.level(8_000)).toBe(3)
})

test('a smaller burst does not prolong the memory of a larger one, and takes its place when that has fallen to it', () => {
  const demand = asked(0, 1, 2, 3, 4)
  for (const at of [0, 1]) demand.asked(2 * MINUTE + at)
  expect(demand.level(3.8 * MINUTE)).toBe(3)
  for (const at of [0, 1, 2]) demand.asked(3.8 * MINUTE + at)
  expect([6, 6.9, 7.2].map((minutes) => demand.level(minutes * MINUTE))).toEqual([3, 2, 2])
})
