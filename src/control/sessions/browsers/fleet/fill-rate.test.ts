// The fill rate of an owned pool and its free room, tested on the classes alone. Fleets that fill at this rate: owned-pools.test.ts.
import { expect, test } from 'vitest'
import { Slots } from '../../../../base/slots.ts'
import { FillRate } from './fill-rate.ts'
import { Pool } from './pool.ts'

const MINUTE = 60_000
const count = (size: number, rate: number, there: number, discarded = 0) => ({ id: 'pool', size, rate, idle: there, there, discarded })

/** The fill rate of a pool that was filled at time 0 and has no tokens left then. */
function used(size: number, rate: number) {
  let last = count(size, rate, 0)
  const made = new FillRate(last, 0)
  const update = (next: typeof last) => {
    made.update(last, next, 0)
    last = next
  }
  const boots = (now: number) => {
    let begun = 0
    for (; made.pauseMs(now) === 0; begun++) made.began()
    return begun
  }
  boots(0)
  update(count(size, rate, size))
  return { made, update, boots }
}

test('the rate of a pool is the present one of its present size, and what ends because it has become smaller is not made anew', () => {
  const faster = used(4, 25)
  faster.update(count(4, 100, 3))
  expect([faster.made.pauseMs(0), faster.boots(MINUTE)]).toEqual([MINUTE / 4, 4])
  const { boots, made, update } = used(10, 0)
  update(count(5, 0, 10))
  update(count(5, 0, 5, 5))
  expect(made.pauseMs(0)).toBe(Infinity)
  // Callers give two browsers back, so 7 are there. A flush then ends 3 of these: only one browser is below the size of 5 and is replaced.
  update(count(5, 0, 7, 5))
  update(count(5, 0, 4, 8))
  expect(boots(0)).toBe(1)
})

test('the room of a pool is what its size leaves, besides what is there and what is being made here; none when the database has refused another one, until the next count', async () => {
  const signal = new AbortController().signal
  const pool = new Pool(count(5, 25, 3), { boot: async () => true, onEmpty() {}, onLeave() {}, onOver() {}, starts: new Slots(1), signal, now: () => 0 })
  expect([pool.room(0), pool.room(1), pool.room(2), pool.room(3), pool.seats]).toEqual([2, 1, 0, 0, 5])
  expect([await pool.begin(async () => false), pool.room(0)]).toEqual([false, 0])
  pool.update(count(5, 25, 4))
  expect(pool.room(0)).toBe(1)
  pool.update(count(2, 25, 3))
  expect([pool.room(0), pool.seats]).toEqual([0, 3])
})
