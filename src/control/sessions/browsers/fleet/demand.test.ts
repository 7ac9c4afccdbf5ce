// What is learned from creates, and forgotten; and what memory allows.
import { expect, test } from 'vitest'
import { Slots } from '../../../../base/slots.ts'
import { Demand, fitsMemory } from './demand.ts'
import { usualKind } from './kinds.ts'
import { Pool } from './pool.ts'

const MINUTE = 60_000
const GIB = 1024 ** 3
const AMPLE = { totalBytes: 16 * GIB, freeBytes: 12 * GIB }

/** A demand whose boots take a second, and that was asked at these times. */
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

test('a burst is remembered for three minutes, and forgotten one by one', () => {
  const demand = asked(0, 1, 2, 3, 4)
  const levels = [1, 2.9, 3.3, 3.8, 4.3, 60].map((minutes) => demand.level(minutes * MINUTE))
  expect(levels).toEqual([5, 5, 4, 3, 2, 0])
})

test('a smaller burst does not prolong the memory of a larger one, and takes its place when that has fallen to it', () => {
  const demand = asked(0, 1, 2, 3, 4)
  for (const at of [0, 1]) demand.asked(2 * MINUTE + at)
  expect(demand.level(3.8 * MINUTE)).toBe(3)
  for (const at of [0, 1, 2]) demand.asked(3.8 * MINUTE + at)
  expect([6, 6.9, 7.2].map((minutes) => demand.level(minutes * MINUTE))).toEqual([3, 2, 2])
})

test('as many are wanted as callers ask for, between the least and the most; with little free memory not more than fit, and those that are too many go, but not the least', () => {
  const signal = new AbortController().signal
  const of = (level: number, kept: number, memory = AMPLE, most = 4, least = 1) => {
    const pool = new Pool(usualKind(least, most), { boot: async () => true, onEmpty() {}, onOver() {}, starts: new Slots(1), signal, now: () => 0 })
    for (let callers = 0; callers < level; callers++) pool.demand.asked(0)
    return pool.wanted(kept, memory)
  }
  expect([of(0, 0), of(1, 0), of(3, 0), of(9, 0), of(9, 0, AMPLE, 2, 2)]).toEqual([1, 1, 3, 4, 2])
  const left = (freeBytes: number, kept: number) => of(10, kept, { totalBytes: 8 * GIB, freeBytes }, 10)
  // An eighth of the memory is left free.
  expect([left(1.5 * GIB, 0), left(1.5 * GIB, 3), left(1 * GIB, 3), left(0.7 * GIB, 3), left(0, 3)]).toEqual([2, 5, 3, 1, 1])
})

test('ready browsers may take a quarter of the memory', () => {
  expect([fitsMemory({ totalBytes: 2 * GIB, freeBytes: 0 }), fitsMemory(AMPLE)]).toEqual([2, 16])
})
