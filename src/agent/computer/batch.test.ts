// Batches of actions as callers send them. Each action is validated as it is alone, an invalid field is named with its index, and an invalid batch does
// nothing. How a batch stops is in input-queue.test.ts.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ACTIONS, DONE, named, outcome, shown, startControls, type Controls } from '../../../test/support/computer.ts'
import { conforms } from '../../../test/support/contract.ts'

let controls: Controls
beforeAll(async () => void (controls = await startControls()))
afterAll(() => controls[Symbol.asyncDispose]())
const batch = (...actions: unknown[]) => controls.send('batch', { actions })

const HERE = { x: 333, y: 444 }
const ELSEWHERE = { type: 'move_mouse', move_mouse: { x: 1, y: 2, smooth: false } }
const PAUSE = { type: 'sleep', sleep: { duration_ms: 0 } }
const sleeping = (duration_ms: unknown) => ({ type: 'sleep', sleep: { duration_ms } })
const moveTo = (x: number, y: number) => ({ type: 'move_mouse', move_mouse: { x, y, smooth: false } })

/** The invalid fields of a batch with this action after two valid ones. */
async function refusedThird(action: unknown): Promise<string[]> {
  const fields = await named(batch(ELSEWHERE, PAUSE, action))
  expect(await controls.pointer(), 'the pointer has moved').toEqual(HERE)
  return fields
}
beforeEach(async () => void (await batch(moveTo(HERE.x, HERE.y))))

describe('a batch', () => {
  test('runs its actions in order and answers 200 with an empty body', async () => {
    const body = { actions: [moveTo(5, 5), { type: 'scroll', scroll: { x: 8, y: 9, delta_y: 1 } }, PAUSE, moveTo(6, 7), PAUSE] }
    conforms('ComputerBatchParams', body)
    expect(await outcome(controls.send('batch', body))).toEqual(DONE)
    expect(await controls.pointer()).toEqual({ x: 6, y: 7 })
  })

  test("runs no other caller's action between its own", async () => {
    const seen: unknown[] = []
    const long = batch(...Array.from({ length: 20 }, () => [moveTo(5, 5), sleeping(40)]).flat(), moveTo(9, 9))
    await new Promise((resolve) => setTimeout(resolve, 400))
    const others = Array.from({ length: 5 }, async () => seen.push(await controls.pointer()))
    expect(await outcome(long)).toEqual(DONE)
    await Promise.all(others)
    expect(seen).toEqual(others.map(() => ({ x: 9, y: 9 })))
  })

  test.each([
    ['without actions', {}],
    ['whose actions are no list', { actions: ELSEWHERE }],
    ['of nothing', { actions: [] }],
    ['of more than a thousand actions', { actions: Array.from({ length: 1_001 }, () => ELSEWHERE) }],
    ['that would take longer than five minutes', { actions: [ELSEWHERE, ...Array.from({ length: 10 }, () => sleeping(30_000)), sleeping(1)] }],
    ['that would take so long by its drags', { actions: Array.from({ length: 31 }, () => drag(10_000)) }],
    [
      'of drags with more steps than fit into memory',
      {
        actions: Array.from({ length: 1_000 }, () => ({
          type: 'drag_mouse',
          drag_mouse: {
            path: [
              [1, 1],
              [2, 2],
            ],
            smooth: false,
            steps_per_segment: 300_000,
            step_delay_ms: 0,
          },
        })),
      },
    ],
    ['that would take so long by its keys', { actions: [pressing(300_000), pressing(1)] }],
  ])('that is %s is refused, the error names actions, and nothing runs', async (_, body) => {
    expect(await named(controls.send('batch', body))).toEqual(['actions'])
    expect(await controls.pointer()).toEqual(HERE)
  })

  test('with an unknown field is refused', async () => {
    expect(await named(controls.send('batch', { actions: [PAUSE], parallel: true }))).toEqual(['parallel'])
  })

  test('with a thousand actions is accepted', async () => {
    expect(await outcome(batch(...Array.from({ length: 1_000 }, (_, index) => moveTo(index % 7, index % 5))))).toEqual(DONE)
    expect(await controls.pointer()).toEqual({ x: 999 % 7, y: 999 % 5 })
  })
})

const drag = (duration_ms: number) => {
  const at = [1, 1]
  return { type: 'drag_mouse', drag_mouse: { path: [at, at], duration_ms } }
}
const pressing = (duration: number) => ({ type: 'press_key', press_key: { keys: ['a'], duration } })

describe.each(ACTIONS)('$type in a batch', ({ type, right, accepted, refused }) => {
  test('accepts everything that the single call accepts', async () => {
    for (const change of [{}, ...accepted]) expect(await outcome(batch({ type, [type]: { ...right, ...change } })), shown(change)).toEqual(DONE)
  })

  // One test for as many requests as there are invalid fields; refusals.test.ts tests each of them.
  test('refuses everything that the single call refuses, and names the place in the batch', async () => {
    for (const [change, ...fields] of refused)
      expect(await refusedThird({ type, [type]: { ...right, ...change } }), shown(change)).toEqual(fields.map((field) => `actions.2.${type}.${field}`))
  })

  test('needs the field of its type, and no other action field', async () => {
    expect(await refusedThird({ type })).toEqual([`actions.2.${type}`])
    expect(await refusedThird({ type, [type]: null })).toEqual([`actions.2.${type}`])
    expect(await refusedThird({ type, [type]: [right] })).toEqual([`actions.2.${type}`])
    expect(await refusedThird({ type, ...right })).toEqual([type, ...Object.keys(right)].map((name) => `actions.2.${name}`).toSorted())
    expect(await refusedThird({ type, sleep: { duration_ms: 1 } })).toEqual([`actions.2.${type}`, 'actions.2.sleep'].toSorted())
    expect(await refusedThird({ type, [type]: right, sleep: { duration_ms: 1 } })).toEqual(['actions.2.sleep'])
  })
})

describe('the type of an action', () => {
  test.each(['screenshot', 'clipboard/read', 'read_clipboard', 'write_clipboard', 'get_mouse_position', 'batch', 'type', 'cursor', 'Sleep', ''])(
    '%j is refused in a batch',
    async (type) => {
      expect(await refusedThird({ type, [type]: {} })).toContain('actions.2.type')
    },
  )

  test('"__proto__" is refused in a batch, as a type and as a name', async () => {
    expect(await refusedThird({ type: '__proto__' })).toContain('actions.2.type')
    expect(await refusedThird({ type: '__proto__', ['__proto__']: {} })).toEqual(['actions.2.__proto__'])
  })

  test.each([undefined, null, 5, ['sleep']])('must be text, not %j', async (type) => {
    expect(await refusedThird({ type, sleep: { duration_ms: 0 } })).toEqual(['actions.2.type'])
  })

  test.each([null, 'sleep', 5, []])('is required: %j is not an action', async (action) => {
    expect(await refusedThird(action)).toEqual(['actions.2'])
  })
})

describe('a sleep action', () => {
  test('lasts for its duration', async () => {
    const start = performance.now()
    expect(await outcome(batch(sleeping(100)))).toEqual(DONE)
    expect(performance.now() - start).toBeGreaterThanOrEqual(99)
  })

  test('accepts 0 to 30,000 milliseconds', async () => {
    expect(await outcome(batch(sleeping(0)))).toEqual(DONE)
    // The second sleep is refused.
    expect(await named(batch(sleeping(30_000), sleeping(30_001)))).toEqual(['actions.1.sleep.duration_ms'])
  })

  test.each([-1, 0.5, '5', null, undefined, 30_001])('refuses a duration of %j', async (duration) => {
    expect(await refusedThird(sleeping(duration))).toEqual(['actions.2.sleep.duration_ms'])
  })

  test('refuses unknown fields', async () => {
    expect(await refusedThird({ type: 'sleep', sleep: { duration_ms: 1, seconds: 1 } })).toEqual(['actions.2.sleep.seconds'])
  })
})

test('an error of a batch names every invalid action', async () => {
  const wrong = (x: unknown) => ({ type: 'click_mouse', click_mouse: { x, y: 1 } })
  expect(await named(batch(wrong(-1), PAUSE, wrong('1'), { type: 'nothing' }))).toEqual([
    'actions.0.click_mouse.x',
    'actions.2.click_mouse.x',
    'actions.3.type',
  ])
})
