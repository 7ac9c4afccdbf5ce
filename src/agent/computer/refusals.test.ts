// Invalid requests to the computer controls: every invalid field is named, and nothing is done.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ACTIONS, named, shown, startControls, type Controls } from '../../../test/support/computer.ts'

let controls: Controls
beforeAll(async () => void (controls = await startControls()))
afterAll(() => controls[Symbol.asyncDispose]())
const { send, pointer } = { send: (tool: string, body?: unknown) => controls.send(tool, body), pointer: () => controls.pointer() }

const HERE = { x: 333, y: 444 }

describe.each(ACTIONS)('$tool', ({ tool, right, refused }) => {
  const rows = refused.map(([change, ...fields]) => ({ title: shown(change), body: { ...right, ...change }, fields }))
  beforeEach(async () => void (await send('move_mouse', { ...HERE, smooth: false })))

  test.each(rows)('with $title is refused, the error names $fields, and nothing happens', async ({ body, fields }) => {
    expect(await named(send(tool, body))).toEqual(fields)
    expect(await pointer()).toEqual(HERE)
  })
})

describe('an action that would take longer than five minutes is refused before it starts', () => {
  const a = [1, 1]
  const b = [2, 2]
  const far = [999, 699]
  const zigzag = (points: number) => Array.from({ length: points }, (_, index) => (index % 2 === 0 ? a : far))
  const slowSteps = { path: [a, b], smooth: false, step_delay_ms: 50 }

  test.each([
    ['a drag by its pause', 'drag_mouse', { path: [a, b], delay: 300_001 }, 'path'],
    ['a drag by its steps', 'drag_mouse', { ...slowSteps, steps_per_segment: 6_001 }, 'steps_per_segment'],
    ['a drag by very many steps', 'drag_mouse', { path: [a, b], smooth: false, steps_per_segment: 300_001, step_delay_ms: 0 }, 'steps_per_segment'],
    ['a drag by one very slow step', 'drag_mouse', { path: [a, b], smooth: false, steps_per_segment: 1, step_delay_ms: 300_001 }, 'steps_per_segment'],
    ['a drag by pause and steps together', 'drag_mouse', { ...slowSteps, delay: 200_000, steps_per_segment: 4_000 }, 'path'],
    ['a drag through a thousand points', 'drag_mouse', { path: zigzag(1_000) }, 'path'],
    ['a drag by its pause and its way together', 'drag_mouse', { path: zigzag(400), delay: 200_000 }, 'path'],
    ['a key by its duration', 'press_key', { keys: ['a'], duration: 300_001 }, 'duration'],
    ['a text by its delay', 'type', { text: 'abc', delay: 150_001 }, 'text'],
    ['a text by its length', 'type', { text: 'x'.repeat(3_002), delay: 100 }, 'text'],
    ['a text by the pace of a person', 'type', { text: 'x'.repeat(5_000), smooth: true }, 'text'],
    ['a text by that pace, which mistakes imply', 'type', { text: 'x'.repeat(5_000), typo_chance: 0.01 }, 'text'],
  ])('%s', async (_, tool, body, field) => {
    expect(await named(send(tool, body))).toEqual([field])
  })
})

describe('write_clipboard', () => {
  test.each([
    [{}, 'text'],
    [{ text: null }, 'text'],
    [{ text: 5 }, 'text'],
    [{ text: '\0' }, 'text'],
    [{ text: 'a\ud800' }, 'text'],
    [{ text: 'x'.repeat(8 * 1024 * 1024 + 1) }, 'text'],
    [{ text: 'a', html: '<b>a</b>' }, 'html'],
  ])('refuses %o, names %s, and keeps the old text', async (body, field) => {
    await send('clipboard/write', { text: 'kept' })
    expect(await named(send('clipboard/write', body))).toEqual([field])
    expect(await (await send('clipboard/read')).json()).toEqual({ text: 'kept' })
  })
})

describe('screenshot', () => {
  test.each([
    [{ x: 1000, y: 0, width: 1, height: 1 }, ['region.x']],
    [{ x: 0, y: 700, width: 1, height: 1 }, ['region.y']],
    [{ x: 999, y: 0, width: 2, height: 1 }, ['region.width']],
    [{ x: 0, y: 699, width: 1000, height: 2 }, ['region.height']],
    [{ x: 0, y: 0, width: 1001, height: 701 }, ['region.width']],
    [{ x: -1, y: 0.5, width: 0, height: '1' }, ['region.height', 'region.width', 'region.x', 'region.y']],
    [{ x: 65_536, y: 0, width: 1, height: 65_536 }, ['region.height', 'region.x']],
    [{ x: 0, y: 0, width: 1, height: 1, depth: 1 }, ['region.depth']],
    [{ x: 0, y: 0 }, ['region.height', 'region.width']],
    ['0,0,1,1', ['region']],
  ])('refuses the region %j and names the wrong side', async (region, fields) => {
    expect(await named(send('screenshot', { region }))).toEqual(fields)
  })

  test('refuses a region that is not an object', async () => {
    expect(await named(send('screenshot', { format: 'jpeg', quality: 5 }))).toEqual(['format', 'quality'])
  })
})

describe('a body that is not a JSON object', () => {
  const withBody = ['batch', 'clipboard/write', ...ACTIONS.map(({ tool }) => tool)]
  const raw = (tool: string, body: string, type = 'application/json') =>
    controls.cloud.fetch(`/browsers/${controls.session.session_id}/computer/${tool}`, { method: 'POST', headers: { 'content-type': type }, body })

  test.each(withBody)('is refused by %s: no body, an empty body, half an object, a list, a text, null, another content type', async (tool) => {
    expect(await named(send(tool))).toEqual(['body'])
    expect(await named(raw(tool, ''))).toEqual(['body'])
    expect(await named(raw(tool, '{"x":1,'))).toEqual(['body'])
    for (const other of ['[]', '"x"', 'null', '5', 'true']) expect((await raw(tool, other)).status, other).toBe(400)
    expect(await named(raw(tool, '{}', 'text/plain'))).toEqual(['content-type'])
  })
})
