// Dragging, as the page records it: positions, buttons, modifiers, times, and a real drop.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { of, recordOf, sitDown, type Seat } from '../support/desk.ts'
import type { Recorded } from '../support/session.ts'

let seat: Seat
beforeAll(async () => {
  seat = await sitDown()
  await seat.session.page.goto(seat.pages.url('recorder.html'))
})
afterAll(() => seat[Symbol.asyncDispose]())

type Drag = Parameters<Seat['computer']['dragMouse']>[1]

/** Drags, and returns the events that the page received. */
const drag = (options: Drag): Promise<Recorded[]> => recordOf(seat.computer, seat.id, seat.session.page, () => seat.computer.dragMouse(seat.id, options))
/** A path through points, each written as `x,y`. */
const through = (...points: string[]) => points.map((point) => point.split(',').map(Number))
const buttons = { left: { button: 0, mask: 1 }, middle: { button: 1, mask: 4 }, right: { button: 2, mask: 2 } } as const

describe('a straight drag', () => {
  test.each(['left', 'middle', 'right'] as const)(
    'with the %s button presses at the first point, moves in equal steps, and releases at the last',
    async (button) => {
      const record = await drag({
        path: through('200,500', '400,600', '700,500'),
        button,
        smooth: false,
        steps_per_segment: 5,
        step_delay_ms: 40,
      })
      const [down] = of(record, 'mousedown')
      const [up] = of(record, 'mouseup')
      expect(down).toMatchObject({ x: 200, y: 500, button: buttons[button].button, trusted: true })
      expect(up).toMatchObject({ x: 700, y: 500, button: buttons[button].button, trusted: true })
      const moves = of(record, 'mousemove').filter((entry) => entry.buttons === buttons[button].mask)
      expect(moves.map(({ x, y }) => [x, y])).toEqual([
        [240, 520],
        [280, 540],
        [320, 560],
        [360, 580],
        [400, 600],
        [460, 580],
        [520, 560],
        [580, 540],
        [640, 520],
        [700, 500],
      ])
      // 10 movements, 40 ms after each.
      expect(up!.inputAt - moves[0]!.inputAt).toBeGreaterThan(350)
    },
  )

  test('waits for delay between the press and the first movement', async () => {
    const record = await drag({
      path: through('200,500', '300,500'),
      smooth: false,
      steps_per_segment: 2,
      step_delay_ms: 20,
      delay: 500,
    })
    const first = of(record, 'mousemove').find((entry) => entry.buttons === 1)
    expect(first!.inputAt - of(record, 'mousedown')[0]!.inputAt).toBeGreaterThanOrEqual(480)
  })

  test('holds its keys during the whole drag, and releases them after it', async () => {
    const record = await drag({
      path: through('200,500', '300,520'),
      smooth: false,
      steps_per_segment: 3,
      hold_keys: ['Shift_L', 'ctrl'],
    })
    for (const entry of record.filter(({ type, buttons: held }) => type === 'mousedown' || (type === 'mousemove' && held === 1)))
      expect(entry).toMatchObject({ shift: true, ctrl: true, alt: false, meta: false })
    expect(of(record, 'keyup').map(({ key }) => key)).toEqual(['Control', 'Shift'])
    const after = await drag({
      path: through('200,500', '210,500'),
      smooth: false,
    })
    expect(of(after, 'mousedown')[0]).toMatchObject({ shift: false, ctrl: false })
  })
})

describe('a smooth drag', () => {
  test('is curved, passes the end points and waypoints exactly, and takes the requested time', async () => {
    const record = await drag({
      path: through('200,300', '900,700', '400,800'),
      duration_ms: 1200,
    })
    const moves = of(record, 'mousemove').filter((entry) => entry.buttons === 1)
    const [down, up] = [of(record, 'mousedown')[0]!, of(record, 'mouseup')[0]!]
    expect([down.x, down.y, up.x, up.y]).toEqual([200, 300, 400, 800])
    expect(moves.some(({ x, y }) => x === 900 && y === 700)).toBe(true)
    expect(moves.length).toBeGreaterThan(15)
    expect(up.inputAt - down.inputAt).toBeGreaterThan(1150)
    expect(up.inputAt - down.inputAt).toBeLessThan(3_000)
    // Some curves begin along the straight line, so the whole way to the waypoint is looked at.
    const first = moves.slice(
      0,
      moves.findIndex(({ x, y }) => x === 900 && y === 700),
    )
    const offLine = first.map(({ x, y }) => Math.abs((700 - 300) * (x - 200) - (900 - 200) * (y - 300)) / Math.hypot(700, 400))
    expect(Math.max(...offLine)).toBeGreaterThan(1)
    expect(moves.every(({ trusted }) => trusted)).toBe(true)
  })

  test('takes as long as a hand if no duration is given, and longer for a longer path', async () => {
    const length = async (path: number[][]) => {
      const record = await drag({ path })
      return of(record, 'mouseup')[0]!.inputAt - of(record, 'mousedown')[0]!.inputAt
    }
    const [short, long] = [await length(through('200,500', '240,500')), await length(through('200,300', '1500,900'))]
    expect(short).toBeGreaterThan(150)
    expect(long).toBeGreaterThan(short * 1.3)
    expect(long).toBeLessThan(6_000)
  })
})
