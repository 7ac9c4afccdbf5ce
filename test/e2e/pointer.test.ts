// Clicks, moves and the wheel through the published SDK, as the page records them. drag.test.ts tests drags.
import { chromium, type Browser, type Frame, type Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { of, openDesk, openInFront, recordOf, TAKE_MS, type Desk } from '../support/desk.ts'
import { killChromium } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { boxOf, clearRecord, openSession, recorded, where, type Recorded, type Session } from '../support/session.ts'

/** The limit for hundreds of notches, on a busy machine. */
const FAR_MS = 60_000
/** The limit for Chromium or its page to come back after a kill. */
const BACK_MS = 30_000
/** An animated scroll has ended when it has not moved for this long. */
const STILL_MS = 150

const isLong = amount(0, 1) === 1

let desk: Desk
let cloud: Desk['cloud']
let computer: Desk['computer']
let session: Session
let id: string
beforeAll(async () => {
  desk = await openDesk()
  ;({ cloud, computer } = desk)
})
afterAll(() => desk[Symbol.asyncDispose]())

/** Runs `work`, and resolves with the events that the page recorded. */
const seen = (work: () => Promise<unknown>, page: Page | Frame = session.page) => recordOf(computer, id, page, work)
const open = (page: Page, name: string) => openInFront(page, desk.pages.url(name))
const places = (record: Recorded[]): [number, number][] => record.map(({ x, y }) => [x, y])
const position = async (): Promise<[number, number]> => {
  const { x, y } = await computer.getMousePosition(id)
  return [x, y]
}
/** A click on the same place as the last one would count as a repeated click, so each click uses a new place. */
let clicks = 0
const fresh = (): { x: number; y: number } => {
  clicks++
  return { x: 300 + (clicks % 30) * 31, y: 500 + (clicks % 7) * 53 }
}
/** The events of a press. Not included: the movement to the place, and the effects of an earlier press elsewhere. */
const PRESSES = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick']

describe.each([
  ['headless', true],
  ['headful', false],
] as const)('in a %s session', (_kind, headless) => {
  beforeAll(async () => {
    session = await openSession(cloud, { timeout_seconds: 600, headless })
    id = session.id
    await open(session.page, 'recorder.html')
  })
  afterAll(() => session[Symbol.asyncDispose]())
  describe('a click', () => {
    test.each([
      ['left', 0, 1, ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click']],
      ['middle', 1, 4, ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'auxclick']],
      ['right', 2, 2, ['pointerdown', 'mousedown', 'contextmenu', 'pointerup', 'mouseup', 'auxclick']],
      ['back', 3, 8, ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'auxclick']],
      ['forward', 4, 16, ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'auxclick']],
    ] as const)('with the %s button is button %i with mask %i, trusted, at the right point', async (button, number, mask, types) => {
      const { x, y } = fresh()
      const record = await seen(() => computer.clickMouse(id, { x, y, button }))
      const presses = of(record, ...PRESSES)
      expect(presses.map(({ type }) => type)).toEqual(types)
      for (const press of presses) expect(press).toMatchObject({ x, y, button: number, trusted: true, ctrl: false, shift: false, alt: false, meta: false })
      for (const press of presses.filter(({ type }) => type.endsWith('down'))) expect(press.buttons).toBe(mask)
      for (const press of presses.filter(({ type }) => type.endsWith('up') || type.endsWith('click'))) expect(press.buttons).toBe(0)
      expect(of(presses, 'pointerdown')[0]).toMatchObject({ pointerType: 'mouse', pressure: 0.5 })
      // The pointer arrived before the button went down.
      expect(record.findIndex(({ type }) => type === 'mousemove')).toBeLessThan(record.findIndex(({ type }) => type === 'pointerdown'))
      expect(places(of(record, 'mousemove')).at(-1) ?? [x, y]).toEqual([x, y])
      expect(await position()).toEqual([x, y])
    })

    test('in two calls, down and up, makes a drag, and the button stays down until the up', async () => {
      const down = await seen(() => computer.clickMouse(id, { x: 400, y: 600, click_type: 'down' }))
      expect(of(down, ...PRESSES)).toMatchObject([
        { type: 'pointerdown', x: 400, y: 600, buttons: 1 },
        { type: 'mousedown', x: 400, y: 600, buttons: 1 },
      ])
      const move = await seen(() => computer.moveMouse(id, { x: 700, y: 500, smooth: false }))
      expect(of(move, 'pointermove', 'mousemove').at(-1)).toMatchObject({ x: 700, y: 500, buttons: 1 })
      expect(of(move, ...PRESSES)).toEqual([])
      const up = await seen(() => computer.clickMouse(id, { x: 710, y: 505, click_type: 'up' }))
      expect(of(up, 'mousemove').at(-1)).toMatchObject({ x: 710, y: 505, buttons: 1 })
      expect(of(up, ...PRESSES).map(({ type }) => type)).toEqual(['pointerup', 'mouseup', 'click'])
      expect(of(up, 'mouseup')).toMatchObject([{ x: 710, y: 505, button: 0, buttons: 0 }])
      const after = await seen(() => computer.moveMouse(id, { x: 720, y: 500, smooth: false }))
      expect(of(after, 'mousemove').at(-1)).toMatchObject({ x: 720, y: 500, buttons: 0 })
    })

    test('of the left button while the middle one is down adds to the mask', async () => {
      const place = fresh()
      const record = await seen(async () => {
        for (const [button, click_type] of [
          ['middle', 'down'],
          ['left', 'down'],
          ['middle', 'up'],
          ['left', 'up'],
        ] as const)
          await computer.clickMouse(id, { ...place, button, click_type })
      })
      expect(of(record, 'mousedown', 'mouseup').map(({ type, button, buttons }) => [type, button, buttons])).toEqual([
        ['mousedown', 1, 4],
        ['mousedown', 0, 5],
        ['mouseup', 1, 1],
        ['mouseup', 0, 0],
      ])
    })

    test('with num_clicks 2 is a double click, of the left button by default', async () => {
      const record = await seen(() => computer.clickMouse(id, { ...fresh(), num_clicks: 2 }))
      expect(of(record, 'mousedown', 'mouseup', 'click', 'dblclick').map(({ type, detail }) => [type, detail])).toEqual([
        ['mousedown', 1],
        ['mouseup', 1],
        ['click', 1],
        ['mousedown', 2],
        ['mouseup', 2],
        ['click', 2],
        ['dblclick', 2],
      ])
    })

    test('with num_clicks 3 is a triple click, which selects the paragraph', async () => {
      const words = await where(session.page, '#words')
      const record = await seen(() => computer.clickMouse(id, { ...words, num_clicks: 3 }))
      expect(of(record, 'click').map(({ detail }) => detail)).toEqual([1, 2, 3])
      expect(of(record, 'dblclick')).toHaveLength(1)
      expect(await session.page.evaluate('String(getSelection()).trim()')).toBe('one two three four')
    })

    test('with num_clicks 2 has its own time between the clicks, however busy the machine is', async () => {
      const record = await seen(() => computer.clickMouse(id, { ...fresh(), num_clicks: 3 }))
      const downs = of(record, 'mousedown')
      // The X server made the pauses, so they are exact even when the process that asked for them had to wait.
      downs.slice(1).forEach(({ inputAt }, index) => expect(inputAt - downs[index]!.inputAt).toBeGreaterThanOrEqual(15))
    })

    test('with another button can be a double click, or have any number of clicks', async () => {
      const middle = await seen(() => computer.clickMouse(id, { ...fresh(), num_clicks: 2, button: 'middle' }))
      expect(of(middle, 'auxclick').map(({ detail }) => detail)).toEqual([1, 2])
      const many = await seen(() => computer.clickMouse(id, { ...fresh(), num_clicks: 12 }))
      expect(of(many, 'click')).toHaveLength(12)
    })

    test.each([
      [['ctrl'], { ctrl: true, shift: false, alt: false, meta: false }],
      [['Shift_L', 'Alt_L'], { ctrl: false, shift: true, alt: true, meta: false }],
      [['ctrl+shift'], { ctrl: true, shift: true, alt: false, meta: false }],
      [['cmd'], { ctrl: false, shift: false, alt: false, meta: true }],
    ])('with %j held has these modifiers, and releases them afterwards', async (hold_keys, flags) => {
      const record = await seen(() => computer.clickMouse(id, { ...fresh(), hold_keys }))
      for (const press of of(record, 'mousedown', 'mouseup', 'click')) expect(press).toMatchObject(flags)
      const downs = of(record, 'keydown').map(({ code }) => code)
      expect(downs).toHaveLength(hold_keys.join('+').split('+').length)
      expect(of(record, 'keyup').map(({ code }) => code)).toEqual(downs.toReversed())
      const after = await seen(() => computer.clickMouse(id, fresh()))
      expect(of(after, 'click')).toMatchObject([{ ctrl: false, shift: false, alt: false, meta: false }])
    })
  })

  describe('a mouse move', () => {
    beforeEach(() => seen(() => computer.moveMouse(id, { x: 200, y: 400, smooth: false })))

    test('that is not smooth is one jump to the point', async () => {
      const record = await seen(() => computer.moveMouse(id, { x: 1203, y: 707, smooth: false }))
      expect(places(of(record, 'mousemove'))).toEqual([[1203, 707]])
      expect(of(record, 'pointermove')).toMatchObject([{ x: 1203, y: 707, trusted: true, buttons: 0 }])
      expect(await position()).toEqual([1203, 707])
    })

    test('that is smooth is curved, takes its time, and ends exactly at the point', async () => {
      const record = await seen(() => computer.moveMouse(id, { x: 1200, y: 800, duration_ms: 1500 }))
      const moves = of(record, 'mousemove')
      expect(places(moves).at(-1)).toEqual([1200, 800])
      expect(moves.every(({ trusted, buttons }) => trusted && buttons === 0)).toBe(true)
      expect(moves.at(-1)!.inputAt - moves[0]!.inputAt).toBeGreaterThan(1500 * 0.85)
      // A page gets one event per frame. computer/path.test.ts shows that each frame of the screen has its own step.
      expect(new Set(places(moves).map(String)).size).toBeGreaterThan(20)
      const offLine = moves.map(({ x, y }) => Math.abs((800 - 400) * (x - 200) - (1200 - 200) * (y - 400)) / Math.hypot(1000, 400))
      expect(Math.max(...offLine)).toBeGreaterThan(3)
      // Slow, fast, slow: the middle half of the time covers most of the way.
      const [first, last] = [moves[0]!.inputAt, moves.at(-1)!.inputAt]
      const at = (part: number) => moves.findLast(({ inputAt }) => inputAt <= first + (last - first) * part)!
      expect(at(0.75).x - at(0.25).x).toBeGreaterThan(600)
      expect(await position()).toEqual([1200, 800])
    })

    test('that is smooth has one step per frame, not one per 40 ms as with step_delay', async () => {
      await session.page.evaluate('window.drawn = []; (function draw(at) { drawn.push(at); window.drawing = requestAnimationFrame(draw) })(performance.now())')
      const record = await seen(() => computer.moveMouse(id, { x: 1400, y: 700, duration_ms: 2000 }))
      const drawn = (await session.page.evaluate('cancelAnimationFrame(drawing), drawn')) as number[]
      const moves = of(record, 'mousemove')
      // The number of frames depends on the machine, so compare with the page's own count.
      const frames = drawn.filter((at) => at >= moves[0]!.at && at <= moves.at(-1)!.at)
      expect(moves.length / frames.length).toBeGreaterThan(0.6)
    })

    test('without a duration takes longer for a longer distance', async () => {
      const length = async (x: number) => {
        const moves = of(await seen(() => computer.moveMouse(id, { x, y: 420 })), 'mousemove')
        expect(places(moves).at(-1)).toEqual([x, 420])
        return moves.at(-1)!.inputAt - moves[0]!.inputAt
      }
      const short = await length(230)
      await seen(() => computer.moveMouse(id, { x: 200, y: 420, smooth: false }))
      expect(await length(1500)).toBeGreaterThan(short)
    })

    test('holds its keys on the way, and releases them at the end', async () => {
      const record = await seen(() => computer.moveMouse(id, { x: 600, y: 500, duration_ms: 300, hold_keys: ['shift', 'a'] }))
      const moves = of(record, 'mousemove')
      expect(moves.length).toBeGreaterThan(5)
      for (const move of moves) expect(move.shift).toBe(true)
      expect(of(record, 'keyup').map(({ code }) => code)).toEqual(['KeyA', 'ShiftLeft'])
    })

    test('reaches every corner of the screen, and the point where it already is', async () => {
      for (const [x, y] of [
        [200, 400],
        [0, 0],
        [1919, 0],
        [1919, 1079],
        [0, 1079],
      ] as const) {
        await computer.moveMouse(id, { x, y, duration_ms: 80 })
        expect(await position()).toEqual([x, y])
      }
    })
  })

  describe('a scroll', () => {
    const sum = (record: Recorded[], delta: 'deltaX' | 'deltaY') => of(record, 'wheel').reduce((total, entry) => total + entry[delta]!, 0)
    /** One notch, in pixels. */
    const unit = 120
    let over: { x: number; y: number }
    beforeAll(async () => {
      over = await where(session.page, '#scroller')
    })
    /** Chromium merges notches and passes them to the page one by one, so wait until the page has all of them. */
    async function turned(notches: number, work: () => Promise<unknown>): Promise<Recorded[]> {
      await clearRecord(session.page)
      await work()
      const record = () => recorded(session.page)
      const all = async () => {
        const wheels = await record()
        return Math.abs(sum(wheels, 'deltaX')) + Math.abs(sum(wheels, 'deltaY')) >= notches * unit
      }
      await until('every notch', FAR_MS, all).catch(() => {})
      return record()
    }

    test.each([
      ['down', { delta_y: 3 }, [0, 3]],
      ['up', { delta_y: -2 }, [0, -2]],
      ['right', { delta_x: 4 }, [4, 0]],
      ['left', { delta_x: -5 }, [-5, 0]],
      ['both ways', { delta_x: 2, delta_y: -3 }, [2, -3]],
      // The other kind of session runs this only in the long form: its notches take the same path.
      ...(headless || isLong ? ([['far', { delta_y: 250 }, [0, 250]]] as const) : []),
      // With one frame per notch this would take 167 s, longer than the test's limit.
      ...(!headless || isLong ? ([['as far as it goes', { delta_y: 9_999 }, [0, 9_999]]] as const) : []),
    ] as const)('%s by %j sends exactly that many notches to the element under the pointer', async (_where, deltas, [right, down]) => {
      const record = await turned(Math.abs(right) + Math.abs(down), () => computer.scroll(id, { ...over, ...deltas }))
      expect([sum(record, 'deltaX'), sum(record, 'deltaY')]).toEqual([right * unit, down * unit])
      for (const entry of of(record, 'wheel'))
        expect(entry).toMatchObject({ target: expect.stringMatching(/^(scroller|div)$/), trusted: true, deltaMode: 0, ...over })
      expect(await position()).toEqual([over.x, over.y])
    })

    test('by zero only moves the pointer', async () => {
      const record = await seen(() => computer.scroll(id, { x: 333, y: 444 }))
      expect(of(record, 'wheel')).toEqual([])
      expect(await position()).toEqual([333, 444])
    })

    test('at another point scrolls the element there', async () => {
      const record = await turned(5, () => computer.scroll(id, { x: 300, y: 700, delta_y: 5 }))
      expect(sum(record, 'deltaY')).toBe(5 * unit)
      for (const entry of of(record, 'wheel')) expect(entry).toMatchObject({ target: 'body', x: 300, y: 700 })
    })

    test('with ctrl held has that modifier, and releases the key afterwards', async () => {
      const record = await turned(2, () => computer.scroll(id, { ...over, delta_y: -2, hold_keys: ['ctrl'] }))
      expect(of(record, 'wheel').length).toBeGreaterThan(0)
      for (const entry of of(record, 'wheel')) expect(entry).toMatchObject({ ctrl: true, shift: false })
      expect(of(record, 'keyup')).toMatchObject([{ key: 'Control' }])
    })
  })

  describe('a page', () => {
    const scrolled = () => session.page.evaluate(`[scrollX, scrollY]`) as Promise<[number, number]>
    beforeAll(() => open(session.page, 'scrolling.html'))
    /** The scroll position after it has stopped changing. */
    async function atRest(): Promise<[number, number]> {
      let [last, since] = ['', 0]
      return until('the end of the scroll', TAKE_MS, async () => {
        const now = await scrolled()
        if (String(now) !== last) [last, since] = [String(now), performance.now()]
        return performance.now() - since > STILL_MS && now
      })
    }

    test.each([
      [{ delta_y: 1 }, [0, 120]],
      [{ delta_y: -5 }, [0, -600]],
      [{ delta_x: 6 }, [720, 0]],
      [{ delta_y: 100 }, [0, 12_000]],
      ...(headless || isLong ? ([[{ delta_y: 600 }, [0, 72_000]]] as const) : []),
      [{ delta_y: -30, delta_x: -40 }, [-4_800, -3_600]],
    ] as const)('receives all notches of %j', async (deltas, [right, down]) => {
      await session.page.evaluate('scrollTo({ left: 20000, top: 20000, behavior: "instant" })')
      await atRest()
      await computer.scroll(id, { x: 700, y: 600, ...deltas })
      // A page may start to scroll late. The position at rest shows whether it has scrolled too far.
      const isThere = async () => String(await scrolled()) === String([20_000 + right, 20_000 + down])
      await until('the position', FAR_MS, isThere).catch(() => {})
      const [left, top] = await atRest()
      expect([left - 20_000, top - 20_000]).toEqual([right, down])
    })
  })

  test('a frame in the page receives clicks, double clicks on its words, and the wheel', async () => {
    await open(session.page, 'framed.html')
    const frame = session.page.frame('inner')!
    await frame.waitForFunction('window.record')
    const outer = await boxOf(session.page, 'iframe')
    const words = (await frame.locator('#words').boundingBox())!
    const shift = outer.y - (await session.page.locator('iframe').boundingBox())!.y
    const [x, y] = [Math.round(words.x + 5), Math.round(words.y + shift + words.height / 2)]
    await seen(() => computer.clickMouse(id, { x: outer.x + 20, y: outer.y + 400 }), frame)
    const record = await seen(() => computer.clickMouse(id, { x, y, num_clicks: 2 }), frame)
    expect(of(record, 'click')).toMatchObject([
      { target: 'words', detail: 1, x, y, trusted: true },
      { target: 'words', detail: 2, x, y, trusted: true },
    ])
    expect(await frame.evaluate('String(getSelection()).trim()')).toBe('one')
    const move = await seen(() => computer.moveMouse(id, { x: x + 60, y: y + 1, smooth: false }), frame)
    expect(of(move, 'mousemove').at(-1)).toMatchObject({ target: 'words', x: x + 60, y: y + 1 })
    const scroller = (await frame.locator('#scroller').boundingBox())!
    const wheel = await seen(() => computer.scroll(id, { x: Math.round(scroller.x + 50), y: Math.round(scroller.y + shift + 50), delta_y: 2 }), frame)
    expect(of(wheel, 'wheel').length).toBeGreaterThan(0)
  })
})

describe('while a button is down', () => {
  test.each([
    [
      'its page has crashed',
      (page: Page) =>
        page.goto('chrome://crash').then(
          () => {},
          () => {},
        ),
    ],
    ['Chromium was killed and started again', (_page: Page, of: string) => killChromium(cloud, of)],
  ])('the pointer keeps working if %s', async (_what, end) => {
    const made = await cloud.client.browsers.create({ timeout_seconds: 300, headless: true })
    id = made.session_id
    const before = await connect(made.cdp_ws_url)
    await open(before.page, 'recorder.html')
    await computer.clickMouse(id, { x: 300, y: 500, click_type: 'down' })
    await end(before.page, id)
    await before.browser.close().catch(() => {})
    const after = await until('a page again', BACK_MS, () => connect(made.cdp_ws_url).catch(() => false as const), { everyMs: 200 })
    await open(after.page, 'recorder.html')
    // The caller's own release comes after the restart.
    await computer.clickMouse(id, { x: 400, y: 600, click_type: 'up' })
    const record = await seen(() => computer.clickMouse(id, { x: 320, y: 520, num_clicks: 2 }), after.page)
    expect(of(record, 'mousedown').map(({ x, y, button, buttons, detail }) => [x, y, button, buttons, detail])).toEqual([
      [320, 520, 0, 1, 1],
      [320, 520, 0, 1, 2],
    ])
    expect(of(record, 'dblclick')).toHaveLength(1)
    await after.browser.close()
    await cloud.client.browsers.deleteByID(id)
  })
})

/** Connects to a page of the running browser, ready for input. */
async function connect(url: string): Promise<{ browser: Browser; page: Page }> {
  const browser = await chromium.connectOverCDP(url)
  const context = browser.contexts()[0]!
  const page = context.pages()[0] ?? (await context.newPage())
  return { browser, page }
}
