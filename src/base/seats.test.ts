// Seats: concurrent makers together stay below the limit.
import { expect, test } from 'vitest'
import { Seats } from './seats.ts'

test('a reserved seat counts like a taken one until it is released, and is released once', () => {
  let taken = 1
  const seats = new Seats(() => taken)
  const first = seats.reserve(3)!
  const second = seats.reserve(3)!
  expect([first, second, seats.reserve(3)]).toEqual([expect.any(Function), expect.any(Function), undefined])
  taken++
  first()
  first()
  expect(seats.reserve(3)).toBeUndefined()
  second()
  expect(seats.reserve(3)).toBeTypeOf('function')
})
