// How many browsers of an owned pool may be made when no caller waits for them, by a clock of the test's own; and how many it has room for.
import { describe, expect, test } from 'vitest'
import { Slots } from '../../../../base/slots.ts'
import { FillRate } from './fill-rate.ts'
import { Pool } from './pool.ts'

const MINUTE = 60_000

const count = (size: number, rate: number, there: number, discarded = 0) => ({ id: 'pool', size, rate, idle: there, there, discarded })

/** The rate of a pool that is told of so many browsers. */
function rateOf(size: number, rate: number) {
  let last = count(size, rate, 0)
  const made = new FillRate(last, 0)
  return {
    made,
    /** Boots that may begin at `now`, up to 100. */
    boots(now: number): number {
      let begun = 0
      for (; begun < 100 && made.pauseMs(now) === 0; begun++) made.began()
      return begun
    },
    update(next: typeof last, now = 0): void {
      made.update(last, next, now)
      last = next
    },
  }
}
/** A pool that was filled at 0, and whose whole rate has been used up there. */
function used(size: number, rate: number) {
  const pool = rateOf(size, rate)
  pool.boots(0)
  pool.update(count(size, rate, size))
  return pool
}

describe('the rate of a pool', () => {
  test('counts with the present size and rate; with a rate of 0, none is made after the first fill', () => {
    const { boots, made, update } = used(4, 25)
    update(count(4, 100, 3))
    expect([made.pauseMs(0), boots(MINUTE)]).toEqual([MINUTE / 4, 4])
    update(count(4, 0, 3), MINUTE)
    expect(made.pauseMs(1_000 * MINUTE)).toBe(Infinity)
  })

  test('is not asked for what the pool grows by, nor for what it wants made anew, up to a whole pool', () => {
    const { boots, made, update } = used(4, 0)
    for (const size of [6, 1, 6, 1, 6]) update(count(size, 0, 6))
    expect([boots(0), made.pauseMs(0)]).toEqual([6, Infinity])
    update(count(6, 0, 6))
    update(count(6, 0, 1, 5))
    expect([boots(0), made.pauseMs(0)]).toEqual([5, Infinity])
  })

  test('is asked for replacements after the pool has become smaller: what ends then is not made anew', () => {
    const { boots, made, update } = used(10, 0)
    update(count(5, 0, 10))
    update(count(5, 0, 5, 5))
    expect(made.pauseMs(0)).toBe(Infinity)
    // Also when callers have given some of them back before, and a flush ends more.
    update(count(5, 0, 7, 5))
    update(count(5, 0, 4, 8))
    expect(boots(0)).toBe(1)
  })

  test('is not used up by boots that come to nothing', () => {
    const { boots, made } = rateOf(2, 0)
    for (let tries = 0; tries < 10; tries++) made.began()()
    expect([boots(0), made.pauseMs(0)]).toEqual([2, Infinity])
    const rated = used(2, 100)
    const undo = [rated.made.began(), rated.made.began()]
    expect(rated.made.pauseMs(0)).toBe(MINUTE / 2)
    // A caller has waited for them: nothing was there to be used up.
    for (const back of undo) back()
    expect([rated.made.pauseMs(0), rated.boots(MINUTE / 2)]).toEqual([MINUTE / 2, 1])
  })
})

test('the room of a pool is what its size leaves, besides what is there and what is being made here; none when the database has refused another one, until the next count', async () => {
  const signal = new AbortController().signal
  const pool = new Pool(count(5, 25, 3), { boot: async () => true, onEmpty() {}, onOver() {}, starts: new Slots(1), signal, now: () => 0 })
  expect([pool.room(0), pool.room(1), pool.room(2), pool.room(3), pool.seats]).toEqual([2, 1, 0, 0, 5])
  expect([await pool.begin(async () => false), pool.room(0)]).toEqual([false, 0])
  pool.update(count(5, 25, 4))
  expect(pool.room(0)).toBe(1)
  pool.update(count(2, 25, 3))
  expect([pool.room(0), pool.seats]).toEqual([0, 3])
})
