// Dragging, as the page records it: positions, buttons, modifiers, times, and a real drop.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { clearRecord, openSession, recorded, type Recorded, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let cloud: Cloud
let pages: Pages
let session: Session
beforeAll(async () => {
  pages = await servePages()
  cloud = await shareCloud()
  session = await openSession(cloud, { timeout_seconds: 600, headless: true })
  await session.page.goto(pages.url('recorder.html'))
})
afterAll(async () => {
  await session[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
  await pages[Symbol.asyncDispose]()
})

/** Time for a page to react to input. */
const TAKE_MS = 10_000

type Drag = Parameters<Cloud['client']['browsers']['computer']['dragMouse']>[1]

/** Drags; returns the events that the page got. */
async function drag(options: Drag): Promise<Recorded[]> {
  await clearRecord(session.page)
  await cloud.client.browsers.computer.dragMouse(session.id, options)
  // A key press marks the end of the record.
  await cloud.client.browsers.computer.pressKey(session.id, { keys: ['F8'] })
  return until('the end of the record', TAKE_MS, async () => {
    const record = await recorded(session.page)
    const end = record.findIndex(({ type, key }) => type === 'keydown' && key === 'F8')
    return end >= 0 && record.slice(0, end)
  })
}
const of = (record: Recorded[], type: string): Recorded[] => record.filter((entry) => entry.type === type)
const buttons = { left: { button: 0, mask: 1 }, middle: { button: 1, mask: 4 }, right: { button: 2, mask: 2 } } as const

describe('a straight drag', () => {
  test.each(['left', 'middle', 'right'] as const)(
    'with the %s button presses at the first point, moves in equal steps, and releases at the last',
    async (button) => {
      const record = await drag({
        path: [
          [200, 500],
          [400, 600],
          [700, 500],
        ],
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
      path: [
        [200, 500],
        [300, 500],
      ],
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
      path: [
        [200, 500],
        [300, 520],
      ],
      smooth: false,
      steps_per_segment: 3,
      hold_keys: ['Shift_L', 'ctrl'],
    })
    for (const entry of record.filter(({ type, buttons: held }) => type === 'mousedown' || (type === 'mousemove' && held === 1)))
      expect(entry).toMatchObject({ shift: true, ctrl: true, alt: false, meta: false })
    expect(of(record, 'keyup').map(({ key }) => key)).toEqual(['Control', 'Shift'])
    const after = await drag({
      path: [
        [200, 500],
        [210, 500],
      ],
      smooth: false,
    })
    expect(of(after, 'mousedown')[0]).toMatchObject({ shift: false, ctrl: false })
  })
})

describe('a smooth drag', () => {
  test('is curved, passes the end points and waypoints exactly, and takes the requested time', async () => {
    const record = await drag({
      path: [
        [200, 300],
        [900, 700],
        [400, 800],
      ],
      duration_ms: 1200,
    })
    const moves = of(record, 'mousemove').filter((entry) => entry.buttons === 1)
    const [down, up] = [of(record, 'mousedown')[0]!, of(record, 'mouseup')[0]!]
    expect([down.x, down.y, up.x, up.y]).toEqual([200, 300, 400, 800])
    expect(moves.some(({ x, y }) => x === 900 && y === 700)).toBe(true)
    expect(moves.length).toBeGreaterThan(15)
    expect(up.inputAt - down.inputAt).toBeGreaterThan(1150)
    expect(up.inputAt - down.inputAt).toBeLessThan(3_000)
    const offLine = moves.map(({ x, y }) => Math.abs((700 - 300) * (x - 200) - (900 - 200) * (y - 300)) / Math.hypot(700, 400))
    expect(Math.max(...offLine.slice(0, 10))).toBeGreaterThan(1)
    expect(moves.every(({ trusted }) => trusted)).toBe(true)
  })

  test('takes as long as a hand if no duration is given, and longer for a longer path', async () => {
    const length = async (path: [number, number][]) => {
      const record = await drag({ path })
      return of(record, 'mouseup')[0]!.inputAt - of(record, 'mousedown')[0]!.inputAt
    }
    const [short, long] = [
      await length([
        [200, 500],
        [240, 500],
      ]),
      await length([
        [200, 300],
        [1500, 900],
      ]),
    ]
    expect(short).toBeGreaterThan(150)
    expect(long).toBeGreaterThan(short * 1.3)
    expect(long).toBeLessThan(6_000)
  })
})

test('HTML5 drag and drop works', async () => {
  await session.page.reload()
  const box = (await session.page.locator('#card').boundingBox())!
  const target = (await session.page.locator('#to').boundingBox())!
  await drag({
    path: [
      [Math.round(box.x + 20), Math.round(box.y + 20)],
      [Math.round(target.x + 60), Math.round(target.y + 80)],
    ],
    duration_ms: 700,
  })
  await session.page.waitForFunction('window.dropped === "the card"', undefined, { timeout: 5_000 })
  expect(await session.page.locator('#to #card').count()).toBe(1)
  await session.page.reload()
})

test('a caller that leaves during a drag leaves no button and no key pressed', async () => {
  await clearRecord(session.page)
  const leave = new AbortController()
  const call = cloud
    .fetch(`/browsers/${session.id}/computer/drag_mouse`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      signal: leave.signal,
      body: JSON.stringify({
        path: [
          [200, 500],
          [900, 500],
        ],
        smooth: false,
        steps_per_segment: 200,
        step_delay_ms: 50,
        hold_keys: ['Shift_L'],
      }),
    })
    .catch(() => 'left')
  await until('the drag', TAKE_MS, async () => of(await recorded(session.page), 'mousemove').filter(({ buttons: held }) => held === 1).length >= 3)
  leave.abort()
  expect(await call).toBe('left')
  await until('the releases', TAKE_MS, async () => of(await recorded(session.page), 'keyup').length > 0)
  const record = await recorded(session.page)
  expect(of(record, 'mouseup').length).toBe(1)
  expect(of(record, 'keyup').map(({ key }) => key)).toEqual(['Shift'])
  const moves = of(record, 'mousemove').length
  await sleep(500)
  expect(of(await recorded(session.page), 'mousemove').length).toBe(moves)
})

test.each([
  [
    'path.1.0',
    {
      path: [
        [0, 0],
        [1920, 10],
      ],
    },
  ],
  [
    'path.0.1',
    {
      path: [
        [0, 1080],
        [10, 10],
      ],
    },
  ],
  ['path', { path: [[1, 1]] }],
  [
    'path.1.1',
    {
      path: [
        [1, 1],
        [2, 2.5],
      ],
    },
  ],
  [
    'path.1.0',
    {
      path: [
        [1, 1],
        [-1, 2],
      ],
    },
  ],
  [
    'path.1',
    {
      path: [
        [1, 1],
        [1, 2, 3],
      ],
    },
  ],
  [
    'button',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      button: 'back',
    },
  ],
  [
    'delay',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      delay: -1,
    },
  ],
  [
    'duration_ms',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      duration_ms: 49,
    },
  ],
  [
    'duration_ms',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      duration_ms: 10_001,
    },
  ],
  [
    'steps_per_segment',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      steps_per_segment: 0,
    },
  ],
  [
    'step_delay_ms',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      smooth: false,
      step_delay_ms: -1,
    },
  ],
  [
    'steps_per_segment',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      smooth: false,
      steps_per_segment: 100_000,
      step_delay_ms: 100,
    },
  ],
  [
    'hold_keys.1',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      hold_keys: ['a', 'NoSuchKey'],
    },
  ],
  [
    'speed',
    {
      path: [
        [1, 1],
        [2, 2],
      ],
      speed: 1,
    },
  ],
])('an invalid drag is refused, the error names the field, and nothing moves: %s', async (field, body) => {
  await clearRecord(session.page)
  const answer = await cloud.fetch(`/browsers/${session.id}/computer/drag_mouse`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(answer.status).toBe(400)
  expect(await answer.json()).toMatchObject({ code: 'bad_request', details: [{ code: 'invalid_input', message: expect.stringContaining(field) }] })
  expect((await recorded(session.page)).filter(({ type }) => type.startsWith('mouse'))).toEqual([])
})
