// The pointer and keyboard requests of each action.
import { describe, expect, test } from 'vitest'
import { makeBench } from '../../../test/support/recorder.ts'

/** Runs one action; returns the presses and pointer moves, without the queries between. */
async function done(type: string, body: object): Promise<string[]> {
  const { inputQueue, plan, log, odd } = makeBench()
  await inputQueue.performAll(plan([{ type, [type]: body }]), AbortSignal.timeout(5_000))
  // Only a click of type up releases what is not down.
  expect(odd.filter((entry) => !entry.startsWith('button'))).toEqual([])
  return log.filter((entry) => entry !== 'pointer' && entry !== 'strokes')
}

const down = (...names: string[]) => names.map((name) => `${name} down`)
const up = (...names: string[]) => names.map((name) => `${name} up`)
const tap = (...names: string[]) => names.flatMap((name) => [...down(name), ...up(name)])
const [CTRL, SHIFT, ALT] = ['key Control_L', 'key Shift_L', 'key Alt_L']

describe('a click', () => {
  test.each([
    ['left', 1],
    ['middle', 2],
    ['right', 3],
    ['back', 8],
    ['forward', 9],
  ])('with the %s button presses and releases button %i at its point', async (button, number) => {
    expect(await done('click_mouse', { x: 5, y: 6, button })).toEqual(['move 5,6', ...tap(`button ${number}`)])
  })

  test('with num_clicks repeats at the same point', async () => {
    expect(await done('click_mouse', { x: 5, y: 6, num_clicks: 3 })).toEqual(['move 5,6', ...tap('button 1', 'button 1', 'button 1')])
  })

  test('of type down only presses, and of type up only releases', async () => {
    expect(await done('click_mouse', { x: 5, y: 6, click_type: 'down' })).toEqual(['move 5,6', 'button 1 down'])
    expect(await done('click_mouse', { x: 5, y: 6, click_type: 'up' })).toEqual(['move 5,6', 'button 1 up'])
  })

  test('holds its keys during the click, releases them in reverse order, and presses no key twice', async () => {
    expect(await done('click_mouse', { x: 5, y: 6, hold_keys: ['ctrl', 'shift+ctrl', 'A'] })).toEqual([
      'move 5,6',
      ...down(CTRL, SHIFT, 'key a'),
      ...tap('button 1'),
      ...up('key a', SHIFT, CTRL),
    ])
  })
})

describe('a scroll', () => {
  test.each([
    [{ delta_y: 2 }, tap('button 5', 'button 5')],
    [{ delta_y: -1 }, tap('button 4')],
    [{ delta_x: 1 }, tap('button 7')],
    [{ delta_x: -2 }, tap('button 6', 'button 6')],
    [{ delta_x: 1, delta_y: 1 }, tap('button 7', 'button 5')],
    [{}, []],
    [{ delta_y: 1, hold_keys: ['ctrl'] }, [...down(CTRL), ...tap('button 5'), ...up(CTRL)]],
  ])('of %o turns the right wheel buttons', async (body, expected) => {
    expect(await done('scroll', { x: 5, y: 6, ...body })).toEqual(['move 5,6', ...expected])
  })

  test('of many notches turns exactly that many, one per frame', async () => {
    expect((await done('scroll', { x: 5, y: 6, delta_y: 40 })).filter((entry) => entry === 'button 5 down')).toHaveLength(40)
  })
})

describe('a mouse move', () => {
  test('that is not smooth is one movement', async () => {
    expect(await done('move_mouse', { x: 500, y: 400, smooth: false, hold_keys: ['alt'] })).toEqual([...down(ALT), 'move 500,400', ...up(ALT)])
  })

  test('that is smooth is many movements, ends at its point, and holds its keys from before the first to after the last', async () => {
    const log = await done('move_mouse', { x: 500, y: 400, duration_ms: 200, hold_keys: ['alt'] })
    expect(log.length).toBeGreaterThan(9)
    expect([log[0], ...log.slice(-2)]).toEqual([`${ALT} down`, 'move 500,400', `${ALT} up`])
    expect(log.slice(1, -1).every((entry) => entry.startsWith('move '))).toBe(true)
  })
})

describe('a drag', () => {
  const from = [10, 10]
  const way = [10, 20]
  const to = [30, 20]

  test('moves to its first point before it presses, and releases at its last point', async () => {
    expect(await done('drag_mouse', { path: [from, way, to], smooth: false, steps_per_segment: 2, step_delay_ms: 0 })).toEqual([
      'move 10,10',
      'button 1 down',
      'move 10,15',
      'move 10,20',
      'move 20,20',
      'move 30,20',
      'button 1 up',
    ])
  })

  test.each([
    ['left', 1],
    ['middle', 2],
    ['right', 3],
  ])('with the %s button, smooth and with keys, holds the keys from before button %i is pressed until after it is released', async (button, number) => {
    const log = await done('drag_mouse', { path: [from, way, to], duration_ms: 100, button, hold_keys: ['ctrl', 'shift'] })
    expect(log.slice(0, 4)).toEqual(['move 10,10', ...down(CTRL, SHIFT, `button ${number}`)])
    expect(log.slice(-4)).toEqual(['move 30,20', ...up(`button ${number}`, SHIFT, CTRL)])
    expect(log).toContain('move 10,20')
  })
})

describe('press_key', () => {
  test.each([
    [{ keys: ['a', 'b', 'a'] }, tap('key a', 'key b', 'key a')],
    [{ keys: ['ctrl+shift+t'] }, [...down(CTRL, SHIFT, 'key t'), ...up('key t', SHIFT, CTRL)]],
    [{ keys: ['Ctrl+A', 'Return'] }, [...down(CTRL, 'key a'), ...up('key a', CTRL), ...tap('key Return')]],
    [{ keys: ['A'] }, [...down(SHIFT, 'key a'), ...up('key a', SHIFT)]],
    [{ keys: ['shift+A'] }, [...down(SHIFT, 'key a'), ...up('key a', SHIFT)]],
    [{ keys: ['ctrl+ctrl'] }, tap(CTRL)],
    [{ keys: ['a', 'b'], duration: 5 }, [...down('key a', 'key b'), ...up('key b', 'key a')]],
    [{ keys: ['a', 'ctrl+a'], duration: 5 }, [...down('key a', CTRL), ...up(CTRL, 'key a')]],
    [{ keys: ['a', 'b'], hold_keys: ['ctrl'] }, [...down(CTRL), ...tap('key a', 'key b'), ...up(CTRL)]],
    // A combination does not release a key that `hold_keys` holds.
    [{ keys: ['ctrl+a', 'b'], hold_keys: ['ctrl'] }, [...down(CTRL), ...tap('key a', 'key b'), ...up(CTRL)]],
  ])('presses the right keys for %o', async (body, expected) => {
    expect(await done('press_key', body)).toEqual(expected)
  })

  test('holds the keys for the duration', async () => {
    const start = performance.now()
    await done('press_key', { keys: ['a'], duration: 50 })
    expect(performance.now() - start).toBeGreaterThanOrEqual(49)
  })
})

describe('type_text', () => {
  test.each([
    ['ab', tap('key a', 'key b')],
    ['aB', [...tap('key a'), ...down(SHIFT), ...tap('key b'), ...up(SHIFT)]],
    ['a\r\nb\nc\rd\t', tap('key a', 'key Return', 'key b', 'key Return', 'key c', 'key Return', 'key d', 'key Tab')],
    ['é🌽', tap('key é', 'key 🌽')],
    ['', []],
  ])('of %j presses its keys', async (text, expected) => {
    expect(await done('type_text', { text })).toEqual(expected)
  })

  test('with a delay types each key at its time: not early, and not much late', async () => {
    const start = performance.now()
    expect(await done('type_text', { text: 'abcdefghijk', delay: 20 })).toHaveLength(22)
    const took = performance.now() - start
    expect(took).toBeGreaterThanOrEqual(199)
    expect(took).toBeLessThan(5_000)
  })

  test('with mistakes corrects them', async () => {
    const log = await done('type_text', { text: 'letters of all kinds'.repeat(10), delay: 1, typo_chance: 0.1 })
    const left: string[] = []
    for (const [, key] of log.flatMap((entry) => [/^key (\S+| ) down$/.exec(entry) ?? []]))
      if (key === 'BackSpace') left.pop()
      else if (key !== undefined) left.push(key)
    expect(log).toContain('key BackSpace down')
    expect(left.join('')).toBe('letters of all kinds'.repeat(10))
  })
})

test('cursor hides and shows the mouse cursor', async () => {
  expect(await done('set_cursor', { hidden: true })).toEqual(['cursor hidden'])
  expect(await done('set_cursor', { hidden: false })).toEqual(['cursor shown'])
})
