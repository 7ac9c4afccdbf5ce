// The wheel of the live view's page: turns movements of a trackpad or a mouse into notches.
import { expect, test } from 'vitest'
import { Notches } from './wheel.ts'

/** The sum of the notches of movements that come every 10 ms. */
function turn(deltas: number[], mode = 0, everyMs = 10): number {
  const notches = new Notches()
  return deltas.reduce((sum, delta, index) => sum + notches.add(delta, mode, index * everyMs), 0)
}

test.each([1, 3, 7, 13, 49, 51, 70, 99, 119, 121, 500])('trackpad steps of %d pixels add up to the movement of the hand, within half a notch', (step) => {
  for (const sign of [1, -1]) {
    const count = Math.ceil(2_400 / step)
    expect(Math.abs(turn(Array.from({ length: count }, () => sign * step)) * 120 - sign * step * count)).toBeLessThanOrEqual(60)
  }
})

test('a notch of a mouse is one notch: 120 or 100 pixels, or 3 lines, at any speed', () => {
  expect(turn([120, 120, 120], 0, 1_000)).toBe(3)
  expect(turn([-100, -100, -100], 0, 1_000)).toBe(-3)
  expect(turn([3, 3, -3], 1, 1_000)).toBe(1)
})

test('a movement in the other direction, or after a pause, ignores the remainder of the one before', () => {
  expect(turn([50, -59, 59])).toBe(0)
  expect(turn([59, 59, 59], 0, 1_000)).toBe(0)
  expect(turn([0, 0])).toBe(0)
})

test('one event turns the wheel no further than a hand could', () => {
  expect(turn([1e9])).toBe(20)
})
