// The pointer's path in a drag: it touches every given point exactly, stays on the screen, and time never runs backwards.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FRAME_MS, naturalDuration, smoothPath, straightPath, type Point, type Step } from './path.ts'
import { seeded } from '../../../test/support/seeded.ts'

const SCREEN = { width: 1920, height: 1080 }
const point = fc.tuple(fc.nat(SCREEN.width - 1), fc.nat(SCREEN.height - 1))
const points = fc.array(point, { minLength: 2, maxLength: 8 })
const duration = fc.option(fc.integer({ min: 50, max: 10_000 }), { nil: undefined })
const seed = fc.integer()

/** Whether the path touches the given points in order. */
function touchesInOrder(way: readonly Step[], wanted: readonly Point[]): boolean {
  let at = 0
  for (const [x, y] of wanted) {
    while (at < way.length && (way[at]!.x !== x || way[at]!.y !== y)) at++
    if (at === way.length) return false
    at++
  }
  return true
}

const inOrder = (way: readonly Step[]): boolean => way.every(({ atMs }, index) => index === 0 || atMs >= way[index - 1]!.atMs)

describe('a smooth path', () => {
  const smooth = (list: readonly Point[], ms: number | undefined, from: number) => smoothPath(list, ms, SCREEN, seeded(from))

  test('ends exactly on its last point and passes every other point in order', () => {
    fc.assert(
      fc.property(points, duration, seed, (list, ms, from) => {
        const way = smooth(list, ms, from)
        expect(way.at(-1)).toMatchObject({ x: list.at(-1)![0], y: list.at(-1)![1] })
        expect(touchesInOrder(way, list.slice(1))).toBe(true)
      }),
    )
  })

  test('stays on the screen, at whole pixels', () => {
    fc.assert(
      fc.property(points, duration, seed, (list, ms, from) => {
        for (const { x, y } of smooth(list, ms, from)) {
          expect(Number.isInteger(x) && Number.isInteger(y)).toBe(true)
          expect(x >= 0 && x < SCREEN.width && y >= 0 && y < SCREEN.height).toBe(true)
        }
      }),
    )
  })

  test('takes exactly the requested time', () => {
    fc.assert(
      fc.property(points, fc.integer({ min: 50, max: 10_000 }), seed, (list, ms, from) => {
        expect(smooth(list, ms, from).at(-1)!.atMs).toBeCloseTo(ms, 6)
      }),
    )
  })

  test('takes as long as a hand if no time is requested, for each segment', () => {
    fc.assert(
      fc.property(points, seed, (list, from) => {
        const expected = list.slice(1).reduce((sum, [x, y], index) => sum + naturalDuration(Math.hypot(x - list[index]![0], y - list[index]![1])), 0)
        expect(smooth(list, undefined, from).at(-1)!.atMs).toBeCloseTo(expected, 6)
      }),
    )
  })

  test('moves forward in time, with one movement per frame, starting at 0', () => {
    fc.assert(
      fc.property(points, duration, seed, (list, ms, from) => {
        const way = smooth(list, ms, from)
        expect(way[0]!.atMs).toBeGreaterThanOrEqual(0)
        expect(inOrder(way)).toBe(true)
        expect(way.length).toBeLessThanOrEqual(Math.ceil(way.at(-1)!.atMs / FRAME_MS) + list.length)
      }),
    )
  })

  test('is the same for the same seed, and different for another seed', () => {
    const list: Point[] = [
      [100, 100],
      [1500, 800],
    ]
    expect(smooth(list, 800, 7)).toEqual(smooth(list, 800, 7))
    expect(smooth(list, 800, 7)).not.toEqual(smooth(list, 800, 8))
  })

  test('is curved, slow at both ends and fast in the middle', () => {
    const way = smooth(
      [
        [100, 500],
        [1700, 500],
      ],
      1000,
      3,
    )
    expect(Math.max(...way.map(({ y }) => Math.abs(y - 500)))).toBeGreaterThan(3)
    const speeds = way.slice(1).map(({ x, atMs }, index) => (x - way[index]!.x) / (atMs - way[index]!.atMs))
    const quickest = Math.max(...speeds)
    expect(speeds[0]!).toBeLessThan(quickest / 3)
    expect(speeds.at(-2)!).toBeLessThan(quickest / 3)
  })

  test('can begin and end at the same point', () => {
    const way = smooth(
      [
        [10, 10],
        [10, 10],
      ],
      undefined,
      1,
    )
    expect(way.at(-1)).toMatchObject({ x: 10, y: 10 })
    expect(way.every(({ x, y, atMs }) => Number.isFinite(x) && Number.isFinite(y) && Number.isFinite(atMs))).toBe(true)
  })
})

// Properties that distinguish a hand from a program, over many paths between random points. The limits leave a margin around 2,000 measured paths.
describe('200 smooth moves between random points', () => {
  const ways = Array.from({ length: 200 }, (_, index) => {
    const random = seeded(index * 7919 + 1)
    const anywhere = (): Point => [Math.floor(random() * SCREEN.width), Math.floor(random() * SCREEN.height)]
    const [from, to] = [anywhere(), anywhere()]
    const steps = smoothPath([from, to], undefined, SCREEN, random)
    const places = [from, ...steps.map(({ x, y }): Point => [x, y])]
    const moves = places.slice(1).map(([x, y], at): Point => [x - places[at]![0], y - places[at]![1]])
    return { from, to, steps, moves, length: Math.hypot(to[0] - from[0], to[1] - from[1]), random }
  })
  const times = ways.flatMap(({ steps }) => steps.map(({ atMs }, at) => atMs - (at === 0 ? 0 : steps[at - 1]!.atMs)))

  test('end exactly at their points', () => {
    for (const { steps, to } of ways) expect([steps.at(-1)!.x, steps.at(-1)!.y]).toEqual(to)
  })

  test('vary in speed: the lengths of their steps deviate by half of their mean or more', () => {
    for (const { moves } of ways) {
      const lengths = moves.map(([x, y]) => Math.hypot(x, y))
      const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length
      const deviation = Math.sqrt(lengths.reduce((sum, length) => sum + (length - mean) ** 2, 0) / lengths.length)
      expect(deviation / mean).toBeGreaterThan(0.5)
    }
  })

  test('do not turn sharply while they are fast: less than 30 degrees between steps of at least 15 pixels', () => {
    let quick = 0
    for (const { moves } of ways)
      for (const [index, [x, y]] of moves.entries()) {
        const [beforeX, beforeY] = moves[index - 1] ?? [0, 0]
        if (Math.hypot(x, y) < 15 || Math.hypot(beforeX, beforeY) < 15) continue
        quick++
        expect(Math.abs(Math.atan2(beforeX * y - beforeY * x, beforeX * x + beforeY * y))).toBeLessThan(Math.PI / 6)
      }
    expect(quick).toBeGreaterThan(1_000)
  })

  test('are never straight, if they have some length', () => {
    for (const { from, to, steps, length } of ways) {
      if (length < 300) continue
      const aside = steps.map(({ x, y }) => Math.abs((to[0] - from[0]) * (y - from[1]) - (to[1] - from[1]) * (x - from[0])) / length)
      expect(Math.max(...aside)).toBeGreaterThan(2)
    }
  })

  test('have one movement per frame: the intervals are around 16.7 ms, vary, and none is 40 ms', () => {
    expect(times.filter((ms) => Math.abs(ms - FRAME_MS) <= 3).length / times.length).toBeGreaterThan(0.95)
    expect(Math.min(...times)).toBeGreaterThan(5)
    expect(Math.max(...times)).toBeLessThan(30)
    expect(times.reduce((sum, ms) => sum + ms, 0) / times.length).toBeCloseTo(FRAME_MS, 0)
    expect(new Set(times.map((ms) => ms.toFixed(2))).size).toBeGreaterThan(200)
    for (const { steps } of ways) expect(steps.filter(({ atMs }) => Number.isInteger(atMs / 40))).toEqual([])
  })

  test('overshoot their end by at most ten pixels, and most long ones overshoot', () => {
    const past = ways.map(({ from, to, steps, length }) =>
      Math.max(...steps.map(({ x, y }) => ((x - to[0]) * (to[0] - from[0]) + (y - to[1]) * (to[1] - from[1])) / length)),
    )
    expect(Math.max(...past)).toBeLessThanOrEqual(10)
    const far = past.filter((_, index) => ways[index]!.length > 300)
    expect(far.filter((pixels) => pixels >= 1).length / far.length).toBeGreaterThan(0.9)
  })

  test('stay within 80 pixels of the box around their two points', () => {
    for (const { from, to, steps } of ways)
      for (const { x, y } of steps) {
        expect(x).toBeGreaterThanOrEqual(Math.min(from[0], to[0]) - 80)
        expect(x).toBeLessThanOrEqual(Math.max(from[0], to[0]) + 80)
        expect(y).toBeGreaterThanOrEqual(Math.min(from[1], to[1]) - 80)
        expect(y).toBeLessThanOrEqual(Math.max(from[1], to[1]) + 80)
      }
  })

  test('never take the same path twice', () => {
    for (const { from, to, steps, random } of ways) expect(smoothPath([from, to], undefined, SCREEN, random)).not.toEqual(steps)
  })

  test('have at most 150 movements if they take as long as a hand', () => {
    expect(Math.max(...ways.map(({ steps }) => steps.length))).toBeLessThanOrEqual(150)
  })
})

describe('a straight path', () => {
  test('has the requested number of movements per segment, at even times, through every point', () => {
    fc.assert(
      fc.property(points, fc.integer({ min: 1, max: 30 }), fc.nat(200), (list, perSegment, delayMs) => {
        const way = straightPath(list, perSegment, delayMs)
        expect(way).toHaveLength((list.length - 1) * perSegment)
        list.slice(1).forEach(([x, y], index) => expect(way[(index + 1) * perSegment - 1]).toMatchObject({ x, y }))
        expect(way.map(({ atMs }) => atMs)).toEqual(way.map((_, index) => index * delayMs))
      }),
    )
  })

  test('deviates from the line by at most half a pixel', () => {
    fc.assert(
      fc.property(point, point, fc.integer({ min: 1, max: 30 }), (from, to, count) => {
        straightPath([from, to], count, 0).forEach(({ x, y }, index) => {
          const t = (index + 1) / count
          expect(Math.abs(x - (from[0] + (to[0] - from[0]) * t))).toBeLessThanOrEqual(0.5)
          expect(Math.abs(y - (from[1] + (to[1] - from[1]) * t))).toBeLessThanOrEqual(0.5)
        })
      }),
    )
  })
})

describe('the time of a hand movement', () => {
  test('grows with the distance, less for longer distances, from a tenth of a second to a few seconds', () => {
    fc.assert(
      fc.property(fc.nat(20_000), fc.nat(20_000), (a, b) => {
        const [near, far] = [Math.min(a, b), Math.max(a, b)]
        expect(naturalDuration(near)).toBeLessThanOrEqual(naturalDuration(far))
        expect(naturalDuration(far)).toBeGreaterThanOrEqual(100)
        expect(naturalDuration(far)).toBeLessThanOrEqual(3_000)
      }),
    )
    expect(naturalDuration(2_000) / naturalDuration(1_000)).toBeLessThan(2)
  })
})
