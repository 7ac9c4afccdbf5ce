// The path of a pointer: its position at each time. Pure numbers; pointer.ts plays them.

export type Point = readonly [x: number, y: number]

/** One movement: `atMs` after the start, to a pixel. */
export interface Step {
  atMs: number
  x: number
  y: number
}

/** Straight lines: `stepsPerSegment` equal movements from each point to the next, `stepDelayMs` after each. */
export function straightPath(points: readonly Point[], stepsPerSegment: number, stepDelayMs: number): Step[] {
  const steps: Step[] = []
  for (let segment = 1; segment < points.length; segment++) {
    const [from, to] = [points[segment - 1]!, points[segment]!]
    for (let i = 1; i <= stepsPerSegment; i++) {
      const t = i / stepsPerSegment
      steps.push({ atMs: steps.length * stepDelayMs, x: Math.round(from[0] + (to[0] - from[0]) * t), y: Math.round(from[1] + (to[1] - from[1]) * t) })
    }
  }
  return steps
}

/** Displays and browsers take pointer events once a frame: 60 Hz. A coarser grid is a mark of automation. */
export const FRAME_MS = 1000 / 60

/** Default duration of a smooth path: a hand needs a moment to start, then time grows slower than distance (Fitts). */
const AUTO_BASE_MS = 220
const AUTO_PER_DOUBLING_MS = 95
const AUTO_MIN_MS = 150
const AUTO_MAX_MS = 2_500

/** How long a hand would take for `distance` pixels in one movement. */
export function naturalDuration(distance: number): number {
  return Math.min(AUTO_MAX_MS, Math.max(AUTO_MIN_MS, AUTO_BASE_MS + AUTO_PER_DOUBLING_MS * Math.log2(1 + distance / 16)))
}

/** How long a hand would take for a path: the sum of its movements. */
export const naturalTotal = (points: readonly Point[]): number =>
  points.slice(1).reduce((sum, point, index) => sum + naturalDuration(distance(points[index]!, point)), 0)

/** How far a curve may leave the straight line: a fraction of the segment's length, and a limit in pixels. */
const BOW = 0.12
const BOW_MAX_PX = 80

/** From this distance on, the path overshoots its last point and comes back; the constants give how far, and which part of the time the return takes. */
const OVERSHOOT_FROM_PX = 150
const OVERSHOOT_PX = { least: 2, most: 8 }
const OVERSHOOT_BACK = 0.18
/** Movements shorter than this do not overshoot. */
const OVERSHOOT_FROM_MS = 300

/**
 * A human-like path: exactly through every given point, a cubic Bezier curve with two knots on each segment, a smooth speed profile on each segment
 * (slow, fast, slow), one sample per frame with small irregularities, and an overshoot after a long last segment. Stays within `bounds`. `random`
 * gives numbers in [0, 1); a seeded one makes the path repeatable.
 */
export function smoothPath(points: readonly Point[], durationMs: number | undefined, bounds: { width: number; height: number }, random: () => number): Step[] {
  const lengths = points.slice(1).map((point, index) => distance(points[index]!, point))
  const natural = lengths.map(naturalDuration)
  const scale = durationMs === undefined ? 1 : durationMs / naturalTotal(points)
  const steps: Step[] = []
  let start = 0
  for (let segment = 1; segment < points.length; segment++) {
    const [from, to] = [points[segment - 1]!, points[segment]!]
    const ms = natural[segment - 1]! * scale
    const bow = Math.min(BOW_MAX_PX, lengths[segment - 1]! * BOW)
    const side = random() < 0.5 ? -1 : 1
    const curve = bezier(from, knot(from, to, 0.2 + random() * 0.2, side * random() * bow), knot(from, to, 0.6 + random() * 0.2, side * random() * bow), to)
    const peak = 0.4 + random() * 0.15
    const along = (progress: number) => curve(ease(progress, peak))
    const last = segment === points.length - 1
    const way = last && lengths[segment - 1]! >= OVERSHOOT_FROM_PX && ms >= OVERSHOOT_FROM_MS ? overshooting(along, from, to, random) : along
    for (let t = FRAME_MS; t < ms - FRAME_MS / 2; t += FRAME_MS) {
      const [x, y] = way(t / ms)
      const tremble = () => (random() - 0.5) * 1.2
      steps.push({
        atMs: start + t + (random() - 0.5) * 3,
        x: clamp(Math.round(x + tremble()), bounds.width),
        y: clamp(Math.round(y + tremble()), bounds.height),
      })
    }
    start += ms
    steps.push({ atMs: start, x: to[0], y: to[1] })
  }
  return steps
}

/** The same path, with an overshoot at its end. */
function overshooting(along: (progress: number) => Point, from: Point, to: Point, random: () => number): (progress: number) => Point {
  const [far, aside] = [OVERSHOOT_PX.least + random() * (OVERSHOOT_PX.most - OVERSHOOT_PX.least), (random() - 0.5) * OVERSHOOT_PX.most]
  const beyond = knot(from, to, 1 + far / distance(from, to), aside)
  const turn = 1 - OVERSHOOT_BACK
  return (progress) => {
    const [x, y] = along(Math.min(1, progress / turn))
    // How much of the overshoot applies: all of it at the turn, none at the end.
    const part = progress < turn ? ease(progress / turn, 0.5) : 1 - ease((progress - turn) / OVERSHOOT_BACK, 0.5)
    return [x + (beyond[0] - to[0]) * part, y + (beyond[1] - to[1]) * part]
  }
}

const distance = (a: Point, b: Point): number => Math.hypot(b[0] - a[0], b[1] - a[1])
const clamp = (value: number, size: number): number => Math.min(size - 1, Math.max(0, value))

/** A point `along` the way from `a` to `b`, `aside` pixels to its left. */
function knot(a: Point, b: Point, along: number, aside: number): Point {
  const length = distance(a, b) || 1
  return [a[0] + (b[0] - a[0]) * along - ((b[1] - a[1]) / length) * aside, a[1] + (b[1] - a[1]) * along + ((b[0] - a[0]) / length) * aside]
}

const bezier =
  (a: Point, b: Point, c: Point, d: Point) =>
  (t: number): Point => {
    const u = 1 - t
    const mix = (i: 0 | 1) => u * u * u * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t * t * t * d[i]
    return [mix(0), mix(1)]
  }

/** Minimum-jerk progress, with the highest speed at `peak` instead of the middle: hands accelerate faster than they settle. */
function ease(t: number, peak: number): number {
  const warped = t < peak ? (t / peak) * 0.5 : 0.5 + ((t - peak) / (1 - peak)) * 0.5
  return warped ** 3 * (10 - 15 * warped + 6 * warped * warped)
}
