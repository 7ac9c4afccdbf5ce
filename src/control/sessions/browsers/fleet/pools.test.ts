// How many browsers a pool may have, and how fast they are made when no caller waits for them, by a clock of the test's own.
import { describe, expect, test } from 'vitest'
import { PoolShare } from './pools.ts'

const MINUTE = 60_000

const count = (size: number, rate: number, there: number, discarded = 0) => ({ id: 'pool', size, rate, idle: there, there, discarded })
/** A pool of `size` that is told of so many browsers, all of them idle. */
const share = (size: number, rate: number, there = 0, now = 0) => new PoolShare(count(size, rate, there), now)
/** Boots that may begin at `now`, up to 100. */
function boots(of: PoolShare, now: number): number {
  let begun = 0
  for (; begun < 100 && of.pauseMs(now) === 0; begun++) of.began()
  return begun
}
/** A pool that was filled at 0, and whose whole rate has been used up there. */
function used(size: number, rate: number): PoolShare {
  const pool = share(size, rate)
  boots(pool, 0)
  pool.update(count(size, rate, size), 0)
  return pool
}

describe('the rate of a pool', () => {
  test('is not asked for the first fill; after that, a whole pool may be replaced at once, and then one after the other', () => {
    const pool = share(8, 25)
    expect(boots(pool, 0)).toBe(16)
    // A quarter of 8 in a minute.
    expect([pool.pauseMs(0), boots(pool, MINUTE / 2 - 1), boots(pool, MINUTE / 2), pool.pauseMs(MINUTE / 2)]).toEqual([MINUTE / 2, 0, 1, MINUTE / 2])
    expect([boots(pool, 3 * MINUTE), boots(pool, 60 * MINUTE)]).toEqual([5, 8])
  })

  test('of 0 has none made after the first fill', () => {
    const pool = share(3, 0)
    expect([boots(pool, 0), pool.pauseMs(1_000 * MINUTE)]).toEqual([3, Infinity])
  })

  test('counts with the present size and rate', () => {
    const pool = used(4, 25)
    pool.update(count(4, 100, 3), 0)
    expect([pool.pauseMs(0), boots(pool, MINUTE)]).toEqual([MINUTE / 4, 4])
    pool.update(count(4, 0, 3), MINUTE)
    expect(pool.pauseMs(MINUTE)).toBe(Infinity)
  })

  test('is not asked for what the pool grows by, nor for what it wants made anew', () => {
    const pool = used(4, 0)
    pool.update(count(6, 0, 4), 0)
    expect([boots(pool, 0), pool.pauseMs(0)]).toEqual([2, Infinity])
    for (const size of [1, 6, 1, 6]) pool.update(count(size, 0, 6), 0)
    expect(boots(pool, 0)).toBe(6)
    pool.update(count(6, 0, 6), 0)
    pool.update(count(6, 0, 1, 5), 0)
    expect([boots(pool, 0), pool.pauseMs(0)]).toEqual([5, Infinity])
    // Never more than a whole pool.
    pool.update(count(6, 0, 6, 5), 0)
    pool.update(count(6, 0, 0, 13), 0)
    expect(boots(pool, 0)).toBe(6)
  })

  test('is asked for replacements after the pool has become smaller: what ends then is not made anew', () => {
    const pool = used(10, 0)
    pool.update(count(5, 0, 10), 0)
    pool.update(count(5, 0, 5, 5), 0)
    expect(pool.pauseMs(0)).toBe(Infinity)
    // Also when callers have given some of them back before, and a flush ends more.
    pool.update(count(5, 0, 7, 5), 0)
    pool.update(count(5, 0, 4, 8), 0)
    expect(boots(pool, 0)).toBe(1)
  })

  test('is not used up by boots that come to nothing', () => {
    const pool = share(2, 0)
    for (let tries = 0; tries < 10; tries++) {
      expect(pool.pauseMs(0)).toBe(0)
      pool.began()()
    }
    expect([boots(pool, 0), pool.pauseMs(0)]).toEqual([2, Infinity])
    const rated = used(2, 100)
    const undo = [rated.began(), rated.began()]
    expect(rated.pauseMs(0)).toBe(MINUTE / 2)
    // A caller has waited for them: nothing was there to be used up.
    for (const back of undo) back()
    expect([rated.pauseMs(0), boots(rated, MINUTE / 2)]).toEqual([MINUTE / 2, 1])
  })
})

describe('the room of a pool', () => {
  test('is what its size leaves, besides what is there and what is being made here', () => {
    const pool = share(5, 25, 3)
    expect([pool.room(0), pool.room(1), pool.room(2), pool.room(3), pool.seats]).toEqual([2, 1, 0, 0, 5])
    pool.update(count(2, 25, 3), 0)
    expect([pool.room(0), pool.seats]).toEqual([0, 3])
  })

  test('is none when the database has refused another one, until the next count', () => {
    const pool = share(5, 25, 3)
    pool.full()
    expect(pool.room(0)).toBe(0)
    pool.update(count(5, 25, 4), 0)
    expect(pool.room(0)).toBe(1)
  })
})
