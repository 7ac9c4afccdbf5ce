// Held keys and buttons: an action that ends in any way leaves nothing down that it should not, and no caller sees what another holds.
// FC_SEED=<number> repeats a run.
import fc, { type Arbitrary } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ACTIONS } from '../../../test/support/computer.ts'
import { failure, makeBench, NEVER, type Recorder } from '../../../test/support/recorder.ts'
import { type Fault, fault } from '../../http/fault.ts'
import type { Action } from './contract.ts'
import type { NamedPlan } from './input-queue.ts'

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
/** Short batches of a few seconds together. Not shrunk, because the result depends on timing. */
const runs = (numRuns: number) => ({ numRuns, seed, endOnFailure: true })
const held = ({ down }: Recorder): string[] => [...down].toSorted()
/** Pressing or releasing a button twice is allowed, a key is not. */
const oddKeys = ({ odd }: Recorder): string[] => odd.filter((entry) => entry.startsWith('key'))

// ---- actions without long waits ----

const point = { x: fc.nat(999), y: fc.nat(699) }
const hold_keys = fc.option(fc.uniqueArray(fc.constantFrom('ctrl', 'shift', 'alt', 'A', 'é', 'ctrl+shift+%'), { maxLength: 3 }), { nil: undefined })
const action = (type: Action['type'], body: Record<string, Arbitrary<unknown>>) => fc.record(body).map((fields) => ({ type, [type]: fields }))
const button = fc.constantFrom('left', 'middle', 'right')
const somewhere = fc.tuple(point.x, point.y)
const click = action('click_mouse', { ...point, button, num_clicks: fc.constantFrom(1, 1, 2), hold_keys })
const halfClick = action('click_mouse', { ...point, button, click_type: fc.constantFrom('down', 'down', 'up'), hold_keys })
const move = action('move_mouse', { ...point, smooth: fc.boolean(), duration_ms: fc.constant(50), hold_keys })
const drag = action('drag_mouse', {
  path: fc.array(somewhere, { minLength: 2, maxLength: 3 }),
  button,
  smooth: fc.boolean(),
  duration_ms: fc.constant(50),
  steps_per_segment: fc.constant(2),
  step_delay_ms: fc.nat(2),
  delay: fc.nat(3),
  hold_keys,
})
const scroll = action('scroll', { ...point, delta_x: fc.integer({ min: -120, max: 120 }), delta_y: fc.integer({ min: -3, max: 3 }), hold_keys })
const keyNames = fc.constantFrom('a', 'B', 'Return', 'ctrl+a', 'ctrl+shift+t', 'alt+é', 'shift+%')
const press = action('press_key', { keys: fc.array(keyNames, { minLength: 1, maxLength: 4 }), duration: fc.nat(4), hold_keys })
const type = action('type_text', {
  text: fc.string({ unit: fc.constantFrom('a', 'B', '\n', 'é', '🌽'), maxLength: 8 }),
  delay: fc.nat(2),
  smooth: fc.boolean(),
})
const pause = action('sleep', { duration_ms: fc.nat(5) })
const cursor = action('set_cursor', { hidden: fc.boolean() })
const some = (...kinds: Arbitrary<unknown>[]) => fc.array(fc.oneof(...kinds), { minLength: 1, maxLength: 4 })
const any = some(click, halfClick, move, drag, scroll, press, type, pause, cursor)
/** Without actions that leave a button down on request. */
const whole = some(click, move, drag, scroll, press, type, pause, cursor)

/** The buttons that a finished batch leaves down on request. */
function meantDown(actions: readonly unknown[]): string[] {
  const down = new Set<string>()
  const numbers: Record<string, number> = { left: 1, middle: 2, right: 3 }
  for (const { type: kind, click_mouse, drag_mouse } of actions as {
    type?: string
    click_mouse?: Record<string, string>
    drag_mouse?: Record<string, string>
  }[]) {
    const name = `button ${numbers[(click_mouse ?? drag_mouse)?.button ?? ''] ?? 0}`
    if (kind === 'click_mouse' && click_mouse!.click_type === 'down') down.add(name)
    else down.delete(name)
  }
  return [...down].toSorted()
}

describe('every key and button is released', () => {
  test('after a batch, except the buttons that the batch left down on purpose', async () => {
    await fc.assert(
      fc.asyncProperty(any, async (actions) => {
        const bench = makeBench()
        await bench.inputQueue.performAll(bench.plan(actions), NEVER)
        expect(held(bench)).toEqual(meantDown(actions))
        expect(oddKeys(bench)).toEqual([])
      }),
      runs(25),
    )
  })

  test('when the caller leaves after any X request', async () => {
    await fc.assert(
      fc.asyncProperty(any, fc.nat(60), async (actions, leaveAt) => {
        const bench = makeBench()
        const caller = new AbortController()
        bench.before = (call) => call === leaveAt && caller.abort(fault.clientClosed())
        const error = await failure(bench.inputQueue.performAll(bench.plan(actions), caller.signal))
        expect(held(bench)).toEqual(error === undefined ? meantDown(actions) : [])
        if (error !== undefined) expect(error).toBe(caller.signal.reason)
        expect(oddKeys(bench)).toEqual([])
      }),
      runs(40),
    )
  })

  test('when the caller leaves at any time', async () => {
    await fc.assert(
      fc.asyncProperty(any, fc.nat(60), async (actions, leaveMs) => {
        const bench = makeBench()
        const caller = new AbortController()
        const timer = setTimeout(() => caller.abort(fault.clientClosed()), leaveMs)
        const error = await failure(bench.inputQueue.performAll(bench.plan(actions), caller.signal))
        clearTimeout(timer)
        expect(held(bench)).toEqual(error === undefined ? meantDown(actions) : [])
        expect(oddKeys(bench)).toEqual([])
      }),
      runs(25),
    )
  })

  test('when any X request fails; after the failure only releases are sent', async () => {
    await fc.assert(
      fc.asyncProperty(some(click, move, drag, press, type, pause, cursor), fc.integer({ min: 1, max: 60 }), async (actions, failAt) => {
        const bench = makeBench()
        let failedAt: number | undefined
        bench.before = (call) => {
          if (call !== failAt) return
          failedAt = bench.log.length
          throw new Error('the display is gone')
        }
        const error = await failure(bench.inputQueue.performAll(bench.plan(actions), NEVER))
        expect(error === undefined).toBe(failedAt === undefined)
        expect([held(bench), bench.odd]).toEqual([[], []])
        if (failedAt !== undefined) expect(bench.log.slice(failedAt).filter((entry) => !/^(key|button) .* up$|^pointer$/.test(entry))).toEqual([])
      }),
      runs(40),
    )
  })

  test('when a scroll fails between press and release', async () => {
    const bench = makeBench()
    let failures = 0
    bench.before = () => {
      if (bench.down.size > 0 && failures++ === 0) throw new Error('a release was lost')
    }
    await failure(bench.inputQueue.performAll(bench.plan([{ type: 'scroll', scroll: { x: 1, y: 1, delta_y: 5 } }]), NEVER))
    expect(held(bench)).toEqual([])
  })

  test('when the program with the focus does not respond', async () => {
    const bench = makeBench(async () => {
      throw new Error('it hangs')
    })
    const hold = { type: 'click_mouse', click_mouse: { x: 1, y: 1, click_type: 'down', hold_keys: ['ctrl'] } }
    const error = await failure(bench.inputQueue.performAll(bench.plan([hold, { type: 'type_text', type_text: { text: 'abc' } }]), NEVER))
    expect((error as Error).message).toMatch(/^actions\.1 \(type_text\) failed/)
    expect(held(bench)).toEqual([])
  })

  test('when the display does not respond either; the release does not wait for it', async () => {
    const bench = makeBench()
    bench.input.pointer = async () => {
      throw new Error('no answer')
    }
    const caller = new AbortController()
    const long = bench.inputQueue.performAll(bench.plan([{ type: 'press_key', press_key: { keys: ['ctrl+a'], duration: 60_000 } }]), caller.signal)
    setTimeout(() => caller.abort(fault.clientClosed()), 5)
    expect(await failure(long)).toBeDefined()
    expect(held(bench)).toEqual([])
  })

  test('except a button that a click of type down holds, until a click of type up releases it', async () => {
    const bench = makeBench()
    const half = (click_type: string) => ({ type: 'click_mouse', click_mouse: { x: 1, y: 1, click_type, hold_keys: ['ctrl'] } })
    await bench.inputQueue.performAll(bench.plan([half('down')]), NEVER)
    expect(held(bench)).toEqual(['button 1'])
    await bench.inputQueue.performAll(bench.plan([{ type: 'move_mouse', move_mouse: { x: 9, y: 9, smooth: false } }]), NEVER)
    expect(held(bench)).toEqual(['button 1'])
    await bench.inputQueue.performAll(bench.plan([half('up')]), NEVER)
    expect(held(bench)).toEqual([])
  })

  test('even a button held by click type down, if the batch with that click fails', async () => {
    const bench = makeBench()
    const down = { type: 'click_mouse', click_mouse: { x: 1, y: 1, click_type: 'down' } }
    const fails: NamedPlan = { name: 'actions.1', ms: 0, run: async () => Promise.reject(new Error('no')) }
    expect(await failure(bench.inputQueue.performAll([...bench.plan([down]), fails], NEVER))).toBeDefined()
    expect(held(bench)).toEqual([])
  })

  test('when an action is refused, because a refused action does not start', () => {
    let refusals = 0
    for (const { type: kind, right, refused } of ACTIONS)
      for (const [change] of refused) {
        const bench = makeBench()
        expect(() => bench.plan([{ type: kind, [kind]: { ...right, ...change } }])).toThrow()
        expect(bench.log).toEqual([])
        refusals++
      }
    expect(refusals).toBeGreaterThan(200)
  })
})

test('callers run in the order in which they came, also when some leave, and none sees keys or buttons of another', async () => {
  const caller = fc.record({ actions: fc.option(whole, { nil: undefined, freq: 2 }), leaveMs: fc.option(fc.nat(40), { nil: undefined }) })
  await fc.assert(
    fc.asyncProperty(fc.array(caller, { minLength: 2, maxLength: 6 }), async (callers) => {
      const bench = makeBench()
      const served: number[] = []
      const timers: NodeJS.Timeout[] = []
      const all = callers.map(({ actions, leaveMs }, index) => {
        const leaving = new AbortController()
        if (leaveMs !== undefined) timers.push(setTimeout(() => leaving.abort(fault.clientClosed()), leaveMs))
        const look = async () => {
          served.push(index)
          expect(held(bench)).toEqual([])
        }
        if (!actions) return failure(bench.inputQueue.turn(look, leaving.signal))
        const first: NamedPlan = { name: 'look', ms: 0, run: look }
        return failure(bench.inputQueue.performAll([first, ...bench.plan(actions)], leaving.signal))
      })
      const errors = await Promise.all(all)
      for (const timer of timers) clearTimeout(timer)
      expect(served).toEqual(served.toSorted((a, b) => a - b))
      callers.forEach(({ leaveMs }, index) => {
        if (leaveMs === undefined) expect([index, errors[index]]).toEqual([index, undefined])
        if (errors[index] === undefined) expect(served).toContain(index)
        else expect((errors[index] as Fault).code).toBe('client_closed_request')
      })
      expect(held(bench)).toEqual([])
    }),
    runs(15),
  )
})
