// Several actions in one call, and several callers on one session. Actions run in order, one at a time, and no key or button stays down.
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { of, openInFront, recordUpToF8, sitDown, TAKE_MS, type Seat } from '../support/desk.ts'
import { clearRecord, recorded, where, type Recorded } from '../support/session.ts'

/** A page sees only the second of two movements within one frame. */
const FRAMES_MS = 100
/** An action that continued after the end of its call would show within this time. */
const QUIET_MS = 500

let seat: Seat
let cloud: Seat['cloud']
let computer: Seat['computer']
let session: Seat['session']
let id: string
beforeAll(async () => {
  seat = await sitDown()
  ;({ cloud, computer, session, id } = seat)
})
afterAll(() => seat[Symbol.asyncDispose]())

type Action = Parameters<typeof computer.batch>[1]['actions'][number]

const pause = (ms: number): Action => ({ type: 'sleep', sleep: { duration_ms: ms } })
const write = (text: string): Action => ({ type: 'type_text', type_text: { text } })
const click = (x: number, y: number, more: Partial<NonNullable<Action['click_mouse']>> = {}): Action => ({
  type: 'click_mouse',
  click_mouse: { x, y, ...more },
})
const move = (x: number, y: number): Action => ({ type: 'move_mouse', move_mouse: { x, y, smooth: false } })
const press = (...keys: string[]): Action => ({ type: 'press_key', press_key: { keys } })

const batch = (...actions: Action[]) => computer.batch(id, { actions })
const value = (): Promise<string> => session.page.evaluate('document.getElementById("text").value')
const strokes = (record: Recorded[]) => of(record, 'keydown').map(({ key }) => key)

const ended = () => recordUpToF8(computer, id, session.page)
const open = (name: string) => openInFront(session.page, seat.pages.url(name))
/** A call that the test can abort, and its outcome. */
function leavable(body: unknown): { leave: () => void; outcome: Promise<string> } {
  const leaving = new AbortController()
  const [method, headers, signal] = ['POST', { 'content-type': 'application/json' }, leaving.signal]
  const call = cloud.fetch(`/browsers/${id}/computer/batch`, { method, headers, signal, body: JSON.stringify(body) })
  const outcome = call.then(
    ({ status }) => `answered ${status}`,
    () => 'left',
  )
  return { leave: () => leaving.abort(), outcome }
}

beforeEach(async () => {
  await open('recorder.html')
  await computer.clickMouse(id, await where(session.page, '#text'))
  await ended()
  await clearRecord(session.page)
})

test('a batch runs every kind of action in order', async () => {
  const [text, scroller] = [await where(session.page, '#text'), await where(session.page, '#scroller')]
  await batch(
    move(300, 700),
    pause(FRAMES_MS),
    click(310, 710, { button: 'right' }),
    click(text.x, text.y),
    write('ab'),
    press('Return', 'shift+c'),
    { type: 'scroll', scroll: { ...scroller, delta_y: 2 } },
    pause(300),
    {
      type: 'drag_mouse',
      drag_mouse: {
        path: [
          [400, 600],
          [600, 650],
        ],
        duration_ms: 200,
        hold_keys: ['Alt_L'],
      },
    },
    { type: 'set_cursor', set_cursor: { hidden: true } },
    { type: 'set_cursor', set_cursor: { hidden: false } },
    press('F9'),
  )
  const record = await ended()
  const story = of(record, 'mousedown', 'mouseup', 'keydown', 'wheel').map(({ type, target, x, y, key, button }) =>
    type === 'keydown' ? key! : type === 'wheel' ? 'wheel' : `${type} ${button} ${x},${y} ${target}`,
  )
  const once = story.filter((entry, index) => entry !== 'wheel' || story[index - 1] !== 'wheel')
  expect(once).toEqual([
    ...['mousedown', 'mouseup'].map((type) => `${type} 2 310,710 body`),
    ...['mousedown', 'mouseup'].map((type) => `${type} 0 ${text.x},${text.y} text`),
    'a',
    'b',
    'Enter',
    'Shift',
    'C',
    'wheel',
    'Alt',
    'mousedown 0 400,600 body',
    'mouseup 0 600,650 body',
    'F9',
  ])
  expect(of(record, 'mousemove')[0]).toMatchObject({ x: 300, y: 700 })
  expect(of(record, 'wheel').reduce((sum, { deltaY }) => sum + deltaY!, 0)).toBe(240)
  expect(await value()).toBe('ab\nC')
})

test('a sleep takes its duration, and so do smooth moves', async () => {
  await batch(press('a'), pause(700), press('b'), { type: 'move_mouse', move_mouse: { x: 900, y: 700, duration_ms: 400 } }, press('c'))
  const [a, b, c] = of(await ended(), 'keydown')
  expect(b!.inputAt - a!.inputAt).toBeGreaterThan(690)
  expect(c!.inputAt - b!.inputAt).toBeGreaterThan(390)
})

test('a button that a successful batch left down is still down for the next call', async () => {
  await batch(click(400, 600, { click_type: 'down' }), move(450, 610), pause(FRAMES_MS))
  await batch(move(500, 620), click(500, 620, { click_type: 'up' }))
  const record = await ended()
  expect(of(record, 'mousemove').findLast(({ x }) => x === 450)).toMatchObject({ buttons: 1 })
  expect(of(record, 'mouseup')).toMatchObject([{ x: 500, y: 620, buttons: 0 }])
})

describe('a batch that fails', () => {
  test('halfway, because the screen became smaller, names the action, stops, and releases everything', async () => {
    const failure = batch(write('a'), click(300, 500, { click_type: 'down' }), pause(5_000), click(1500, 900), write('never')).catch((error: unknown) => error)
    try {
      await until('the button to be down', TAKE_MS, async () => of(await recorded(session.page), 'mousedown').length === 1)
      await cloud.client.browsers.update(id, { viewport: { width: 800, height: 600 } })
      expect(await failure).toMatchObject({ status: 400, message: expect.stringMatching(/actions\.3\b.*actions after it were not done.*1500/) })
      const record = await ended()
      expect(strokes(record)).toEqual(['a'])
      expect(of(record, 'mousedown', 'mouseup').map(({ type, buttons }) => [type, buttons])).toEqual([
        ['mousedown', 1],
        ['mouseup', 0],
      ])
      expect(await value()).toBe('a')
    } finally {
      await failure
      await cloud.client.browsers.update(id, { viewport: { width: 1920, height: 1080 } })
      await session.page.waitForFunction('innerWidth === 1920 && innerHeight === 1080', undefined, { timeout: TAKE_MS })
    }
  })
})

describe('a caller that leaves', () => {
  test('during its batch ends it: nothing more happens, and nothing stays down', async () => {
    const steps = Array.from({ length: 100 }, (_, index) => [move(300 + index, 600), pause(50), press('k')]).flat()
    const { leave, outcome } = leavable({ actions: [click(300, 600, { click_type: 'down' }), ...steps] })
    await until('the batch to be under way', TAKE_MS, async () => of(await recorded(session.page), 'keydown').length >= 3)
    leave()
    expect(await outcome).toBe('left')
    const record = await ended()
    expect(of(record, 'mouseup')).toHaveLength(1)
    expect(of(record, 'keyup')).toHaveLength(of(record, 'keydown').length)
    expect(strokes(record).length).toBeLessThan(100)
    const { length } = await recorded(session.page)
    await sleep(QUIET_MS)
    expect(await recorded(session.page)).toHaveLength(length)
    await computer.moveMouse(id, { x: 700, y: 700, smooth: false })
    await until('the move', TAKE_MS, async () => of(await recorded(session.page), 'mousemove').at(-1)?.x === 700)
    expect(of(await recorded(session.page), 'mousemove').at(-1)).toMatchObject({ buttons: 0 })
  })
})

describe('concurrent callers', () => {
  test('never act between the actions of a batch', async () => {
    const letters = (letter: string) => Array.from({ length: 8 }, () => [write(letter), pause(20)]).flat()
    await Promise.all([
      batch(...letters('a')),
      batch(...letters('b')),
      computer.typeText(id, { text: 'cccc', delay: 20 }),
      batch(...letters('d')),
      computer.pressKey(id, { keys: ['e', 'e', 'e'] }),
    ])
    await ended()
    const typed = await value()
    expect(typed.match(/(.)\1*/g)!.toSorted()).toEqual(['aaaaaaaa', 'bbbbbbbb', 'cccc', 'dddddddd', 'eee'])
  })

  test('never get a screenshot of the middle of a drag', async () => {
    await open('colours.html')
    // The page is white at first. Along the path its colour goes from blue 0 to blue 255.
    await session.page.evaluate(`onmousemove = ({ buttons, clientX }) => { if (buttons) paint('rgb(0, 0, ' + Math.round((clientX - 100) / 1000 * 255) + ')') }`)
    const colour = async () => {
      const png = Buffer.from(await (await computer.captureScreenshot(id, { region: { x: 1200, y: 900, width: 1, height: 1 } })).arrayBuffer())
      const [red, green, blue] = await sharp(png).removeAlpha().raw().toBuffer()
      return { white: red === 255 && green === 255 && blue === 255, blue: blue! }
    }
    // At the end the pointer rests as long as it has moved, because the page may be late.
    const path = [
      [100, 500],
      [1100, 500],
      [1100, 500],
    ]
    for (let round = 0; round < 2; round++) {
      await session.page.evaluate(`paint('#ffffff')`)
      await until('white', TAKE_MS, async () => (await colour()).white)
      const before = Array.from({ length: 3 }, colour)
      const drag = computer.dragMouse(id, { path, smooth: false, steps_per_segment: 100, step_delay_ms: 12 })
      const during = Array.from({ length: 6 }, async (_, index) => {
        await sleep(100 + index * 150)
        return colour()
      })
      for (const picture of await Promise.all(before)) expect(picture.white || picture.blue > 230).toBe(true)
      for (const picture of await Promise.all(during)) expect(picture.white ? 0 : picture.blue).toSatisfy((blue: number) => blue === 0 || blue > 230)
      await drag
    }
  })
})

describe('what closes the last tab', () => {
  /** A key or click closes the tab; the browser is started again. */
  const closing: [name: string, actions: Action[]][] = [
    ['ctrl+w', [press('ctrl+w')]],
    ['ctrl+F4', [press('ctrl+F4')]],
    ['ctrl+shift+w', [press('ctrl+shift+w')]],
    ['alt+F4', [press('alt+F4')]],
    ['ctrl+w twice in a row', [press('ctrl+t', 'ctrl+w', 'ctrl+w')]],
    // The close button of the only tab, in a window 1280 pixels wide.
    ['the cross of the tab', [click(256, 20)]],
  ]
  test.each(closing)('is no error, and neither is what follows: %s', async (_name, actions) => {
    const { client } = cloud
    const { session_id } = await client.browsers.create({ viewport: { width: 1280, height: 800 }, timeout_seconds: 300 })
    try {
      const { success, error } = await client.browsers.playwright.execute(session_id, { code: 'await page.waitForLoadState()' })
      expect([success, error]).toEqual([true, undefined])
      await client.browsers.computer.batch(session_id, { actions: [...actions, pause(50), click(300, 300), write('x'), press('ctrl+l', 'Return')] })
      await client.browsers.computer.clickMouse(session_id, { x: 300, y: 300 })
      const one = async () => (await client.browsers.playwright.execute(session_id, { code: 'return context.pages().length' })).result === 1
      await until('one page', 30_000, one, { everyMs: 100 })
    } finally {
      await client.browsers.deleteByID(session_id)
    }
  })
})
