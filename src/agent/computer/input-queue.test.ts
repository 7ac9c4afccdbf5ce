// Turns and batches: callers are served in the order of their calls; a batch stops at the first failure and names the action. held-input.test.ts tests what
// is down at the end.
import { describe, expect, test } from 'vitest'
import { BIG, failure, makeBench, NEVER } from '../../../test/support/recorder.ts'
import { sleep } from '../../base/wait.ts'
import { type Fault, fault } from '../../http/fault.ts'
import { MAX_ACTION_MS } from './contract.ts'
import type { NamedPlan, Planned } from './input-queue.ts'

/** An error with this code and a message like this. */
const refused = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) as unknown })
/** A promise that the test resolves. */
const gate = () => Promise.withResolvers<void>()

describe('callers', () => {
  test('that leave while they wait run nothing, and the callers behind them keep their places', async () => {
    const { inputQueue, log } = makeBench()
    const first = gate()
    const order: string[] = []
    const leaving = new AbortController()
    const all = [
      inputQueue.turn(() => first.promise, NEVER),
      failure(inputQueue.perform({ ms: 0, run: async () => void order.push('left') }, 'x', leaving.signal)),
      inputQueue.turn(async () => void order.push('second'), NEVER),
      inputQueue.perform({ ms: 0, run: async () => void order.push('third') }, 'x', NEVER),
    ]
    leaving.abort(fault.clientClosed())
    expect(await all[1]).toBe(leaving.signal.reason)
    expect(order).toEqual([])
    first.resolve()
    await Promise.all(all)
    expect(order).toEqual(['second', 'third'])
    expect(log).toEqual(['pointer'])
  })

  test('that have left before their turn run nothing', async () => {
    const { inputQueue, log } = makeBench()
    const error = await failure(inputQueue.perform({ ms: 0, run: async () => void log.push('done') }, 'x', AbortSignal.abort('gone')))
    expect([error, log]).toEqual(['gone', []])
  })

  test('continue when an earlier caller fails', async () => {
    const { inputQueue } = makeBench()
    const failing = failure(inputQueue.turn(async () => Promise.reject(new Error('no picture')), NEVER))
    expect(await inputQueue.turn(async () => 'a picture', NEVER)).toBe('a picture')
    expect((await failing) as Error).toMatchObject({ message: 'no picture' })
  })

  test('get their answer only after the display has done the action', async () => {
    const bench = makeBench()
    await bench.inputQueue.performAll(bench.plan([{ type: 'click_mouse', click_mouse: { x: 1, y: 2 } }]), NEVER)
    expect(bench.log.at(-1)).toBe('pointer')
  })

  test('can ask for the time of the last input: reads do not count, failed actions do', async () => {
    const { inputQueue } = makeBench()
    expect(inputQueue.lastAct).toBe(-Infinity)
    await inputQueue.turn(async () => {}, NEVER)
    expect(inputQueue.lastAct).toBe(-Infinity)
    const start = performance.now()
    await failure(inputQueue.perform({ ms: 0, run: () => sleep(10).then(() => Promise.reject(new Error('no'))) }, 'x', NEVER))
    expect(inputQueue.lastAct).toBeGreaterThanOrEqual(start + 9)
    expect(inputQueue.lastAct).toBeLessThanOrEqual(performance.now())
  })
})

describe('an action whose caller has left', () => {
  const from = [0, 0]
  const to = [900, 600]
  test.each([
    ['a text stops at once', 'type_text', { text: 'x'.repeat(5_000) }, 0],
    ['a straight drag stops at once', 'drag_mouse', { path: [from, to], smooth: false, steps_per_segment: 5_000, step_delay_ms: 0 }, 0],
    ['a smooth move stops at once', 'move_mouse', { x: 900, y: 600, duration_ms: 1_000 }, 0],
    ['clicks stop within a triple click', 'click_mouse', { x: 1, y: 1, num_clicks: 30 }, 2],
    ['keys stop at the next', 'press_key', { keys: Array.from({ length: 256 }, () => 'a') }, 1],
    ['the wheel stops within a hundred notches', 'scroll', { x: 1, y: 1, delta_y: 5_000 }, 100],
  ])('stops: %s', async (_, type, body, more) => {
    const bench = makeBench()
    const caller = new AbortController()
    let left = 0
    bench.before = (call) => {
      if (call !== 21) return
      left = bench.log.length
      caller.abort(fault.clientClosed())
    }
    expect(await failure(bench.inputQueue.performAll(bench.plan([{ type, [type]: body }]), caller.signal))).toBe(caller.signal.reason)
    // The request that was in progress when the caller left may be one of these.
    expect(bench.log.slice(left + 1).filter((entry) => /down$|^move/.test(entry)).length).toBeLessThanOrEqual(more)
  })
})

describe('the duration of actions', () => {
  const taking = (ms: number, ran: number[]): Planned => ({ ms, run: async () => void ran.push(ms) })

  test.each([
    [{ delta_y: 9_999 }, 5_000],
    [{ delta_x: -10_000, delta_y: 10_000 }, 5_000],
    [{ delta_y: -60 }, 1_000],
  ])('is limited for a scroll to 5 s; a usual scroll takes one frame per notch: %o', (deltas, ms) => {
    const [plan] = makeBench().plan([{ type: 'scroll', scroll: { x: 1, y: 1, ...deltas } }])
    expect(plan!.ms).toBeGreaterThanOrEqual(ms)
    expect(plan!.ms).toBeLessThan(ms + 100)
  })

  test('is five minutes at most for one action, and the error names the field that exceeds it', async () => {
    const { inputQueue } = makeBench()
    const ran: number[] = []
    await inputQueue.perform(taking(MAX_ACTION_MS, ran), 'duration', NEVER)
    expect(await failure(inputQueue.perform(taking(MAX_ACTION_MS + 1, ran), 'duration', NEVER))).toMatchObject({
      code: 'bad_request',
      message: expect.stringMatching(/^duration: /) as unknown,
    })
    expect(ran).toEqual([MAX_ACTION_MS])
  })

  test('is five minutes at most for all actions of a batch together', async () => {
    const { inputQueue } = makeBench()
    const ran: number[] = []
    const batch = (...times: number[]) => times.map((ms, index) => ({ name: `actions.${index}`, ...taking(ms, ran) }))
    await inputQueue.performAll(batch(MAX_ACTION_MS - 5, 5, 0), NEVER)
    expect(await failure(inputQueue.performAll(batch(1, MAX_ACTION_MS - 5, 5), NEVER))).toMatchObject({
      code: 'bad_request',
      message: expect.stringMatching(/^actions: /) as unknown,
    })
    expect(ran).toEqual([MAX_ACTION_MS - 5, 5, 0])
  })

  test.each([
    ['ten pauses of thirty seconds', Array.from({ length: 10 }, () => ({ type: 'sleep', sleep: { duration_ms: 30_000 } })), 300_000],
    ['a key', [{ type: 'press_key', press_key: { keys: ['a', 'b'], duration: 300_000 } }], 300_000],
    ['a text', [{ type: 'type_text', type_text: { text: 'abcd', delay: 100_000 } }], 300_000],
    ['a smooth move', [{ type: 'move_mouse', move_mouse: { x: 1, y: 1, duration_ms: 5_000 } }], 5_000],
    ['a move at once', [{ type: 'move_mouse', move_mouse: { x: 1, y: 1, smooth: false, duration_ms: 5_000 } }], 0],
  ])('is known before the action runs: %s', (_, actions, ms) => {
    expect(
      makeBench()
        .plan(actions)
        .reduce((sum, plan) => sum + plan.ms, 0),
    ).toBe(ms)
  })
})

describe('a batch', () => {
  const plan = (name: string, run: Planned['run']): NamedPlan => ({ name, ms: 0, run })

  test('stops at the first action that fails, and its error names the action', async () => {
    const { inputQueue } = makeBench()
    const ran: string[] = []
    const did = (name: string) => plan(name, async () => void ran.push(name))
    const fails = plan('actions.1 (scroll)', async () => Promise.reject(fault.field('y', 'is off the screen')))
    const error = (await failure(inputQueue.performAll([did('actions.0 (sleep)'), fails, did('actions.2 (sleep)')], NEVER))) as Fault
    expect(ran).toEqual(['actions.0 (sleep)'])
    expect(error).toMatchObject({ code: 'bad_request', message: 'actions.1 (scroll) failed, and the actions after it were not done: y: is off the screen' })
    expect(error.body().details).toEqual([{ code: 'bad_request', message: error.message }])
  })

  test('names the failed action also for internal errors, and keeps their cause for the log only', async () => {
    const { inputQueue } = makeBench()
    const cause = new Error('EPIPE on /tmp/.X11-unix/X1')
    const error = (await failure(inputQueue.performAll([plan('actions.0 (sleep)', async () => Promise.reject(cause))], NEVER))) as Fault
    expect(error).toMatchObject(refused('internal_error', /^actions\.0 \(sleep\) failed/))
    expect(JSON.stringify(error.body())).not.toContain('EPIPE')
    expect(error.cause).toBe(cause)
    // The action may have happened, so it must not be repeated: the SDK retries a 500 without this header.
    expect(error.headers).toEqual({ 'x-should-retry': 'false' })
  })

  test('that is aborted stops between actions, also when an action ignores the signal', async () => {
    const { inputQueue } = makeBench()
    const caller = new AbortController()
    const ran: string[] = []
    const deaf = (name: string) =>
      plan(name, async () => {
        ran.push(name)
        if (ran.length === 2) caller.abort(fault.clientClosed())
      })
    expect(await failure(inputQueue.performAll(['a', 'b', 'c', 'd'].map(deaf), caller.signal))).toBe(caller.signal.reason)
    expect(ran).toEqual(['a', 'b'])
  })

  test('checks its points again when its turn comes, because the screen may have become smaller', async () => {
    const bench = makeBench()
    const near = [1, 1]
    const far = [800, 1]
    for (const late of [
      { type: 'click_mouse', click_mouse: { x: 800, y: 1, hold_keys: ['ctrl'] } },
      { type: 'move_mouse', move_mouse: { x: 800, y: 1 } },
      { type: 'scroll', scroll: { x: 800, y: 1 } },
      { type: 'drag_mouse', drag_mouse: { path: [near, far] } },
    ]) {
      bench.screen.viewport = BIG
      const plans = bench.plan([{ type: 'sleep', sleep: { duration_ms: 0 } }, late])
      bench.screen.viewport = { ...BIG, width: 640 }
      const error = await failure(bench.inputQueue.performAll(plans, NEVER))
      expect(error).toMatchObject(refused('bad_request', /actions\.1 .*: 800 is off the screen/))
    }
    expect(bench.log.filter((entry) => !entry.startsWith('pointer'))).toEqual([])
  })
})
