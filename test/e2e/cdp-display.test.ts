// The display of a browser that has none, with the real headless shell: what a page records of mouse and keys, and what pictures show. The same tools
// act on the display of an X server in the tests of sessions.
import { chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { pagesHandled } from '../../src/agent/chromium/handled.ts'
import type { ChromiumRun } from '../../src/agent/chromium/process.ts'
import { makeInputQueue, type Planned } from '../../src/agent/computer/input-queue.ts'
import { keyPlans } from '../../src/agent/computer/keys.ts'
import { pointerPlans } from '../../src/agent/computer/pointer.ts'
import { openCdpDisplay } from '../../src/agent/display/cdp/display.ts'
import type { Keeper } from '../../src/agent/chromium/keeper.ts'
import { makeLog } from '../../src/base/log.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { of, TAKE_MS } from '../support/desk.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { boxOf, clearRecord, recorded, where, type Recorded } from '../support/session.ts'
import { openShell } from '../support/shell.ts'

const VIEWPORT = { width: 1000, height: 700, refresh_rate: 60 }
const log = makeLog('test', 'silent')
const stop = new AbortController()
const { signal } = stop
const shell = openShell(VIEWPORT, log, signal)

let run: ChromiumRun
const browser = { run: async () => run }
const display = openCdpDisplay(browser, VIEWPORT, log)
const { input, keyboard, clipboard, drags } = await display.openControls()
const { screen, windows } = display
const queue = makeInputQueue(input, keyboard)
const handled = pagesHandled(browser as unknown as Keeper, log)
const tools = {
  screen,
  keyboard,
  drags,
  answers: windows.answers,
  caughtUp: windows.caughtUp,
  random: Math.random,
  async settled() {
    if (await windows.answers()) await handled()
  },
}
const { click, drag, scroll, move } = pointerPlans(tools)
const { press, type } = keyPlans(tools)
const perform = (plan: Planned) => queue.perform(plan, 'action', signal)

let pages: Pages
let page: Page
let client: Awaited<ReturnType<typeof chromium.connectOverCDP>>
async function begin(): Promise<void> {
  run = await shell.start()
  client = await chromium.connectOverCDP(`http://127.0.0.1:${run.port}`)
  page = client.contexts()[0]!.pages()[0]!
}
async function end(): Promise<void> {
  await client.close()
  await run.close()
}
beforeAll(async () => {
  pages = await servePages()
  await begin()
})
afterAll(async () => {
  await end()
  display.close()
  stop.abort()
  await pages[Symbol.asyncDispose]()
  shell[Symbol.dispose]()
})
beforeEach(async () => {
  await page.goto(pages.local('recorder.html'))
})

/** The colour of one pixel of the screen: red, green, blue. */
async function colourAt(x: number, y: number): Promise<number[]> {
  const { pixels } = await screen.capture({ x, y, width: 1, height: 1 })
  return [...pixels.data.subarray(0, 3)].toReversed()
}
/** Key, code and modifiers of each key that went down. */
const keysOf = (record: Recorded[]): string =>
  of(record, 'keydown')
    .map(({ key, code, ctrl, shift }) => `${key}/${code}${ctrl ? '+ctrl' : ''}${shift ? '+shift' : ''}`)
    .join(' ')
const value = (selector: string): Promise<string> => page.locator(selector).inputValue()

test('characters are typed with their keys, and those without a key, too', async () => {
  const text = 'Hi, é€ ☃ 😀!\n~{x}\t'
  await perform(click({ ...(await where(page, '#text')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await clearRecord(page)
  await perform(type({ text: text.trimEnd(), typo_chance: 0 }))
  expect(await value('#text')).toBe(text.trimEnd())
  const record = await recorded(page)
  expect(record.every(({ trusted }) => trusted)).toBe(true)
  expect(keysOf(record)).toEqual(
    [
      'Shift/ShiftLeft+shift H/KeyH+shift i/KeyI ,/Comma  /Space é/ €/  /Space ☃/  /Space 😀/ Shift/ShiftLeft+shift !/Digit1+shift Enter/Enter',
      'Shift/ShiftLeft+shift ~/Backquote+shift Shift/ShiftLeft+shift {/BracketLeft+shift x/KeyX Shift/ShiftLeft+shift }/BracketRight+shift',
    ].join(' '),
  )
})

test('keys have their names, modifiers are held, and Caps Lock changes letters only', async () => {
  await perform(click({ ...(await where(page, '#line')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await clearRecord(page)
  for (const keys of [['Home'], ['shift+End'], ['ctrl+Left'], ['F7'], ['KP_5'], ['Shift_R'], ['Caps_Lock', 'a', '1', 'Caps_Lock', 'a']])
    await perform(press({ keys, duration: 0 }))
  const record = await recorded(page)
  expect(keysOf(record)).toEqual(
    [
      'Home/Home Shift/ShiftLeft+shift End/End+shift Control/ControlLeft+ctrl ArrowLeft/ArrowLeft+ctrl F7/F7 5/Numpad5 Shift/ShiftRight+shift',
      'CapsLock/CapsLock A/KeyA 1/Digit1 CapsLock/CapsLock a/KeyA',
    ].join(' '),
  )
  expect(of(record, 'keydown').map(({ location }) => location)).toEqual([0, 1, 0, 1, 0, 0, 3, 2, 0, 0, 0, 0, 0])
  expect(await value('#line')).toBe('5A1a')
  expect(await keyboard.capsLock()).toBe(false)
})

test('text is copied, cut and pasted, also from and to the caller, and the page in front keeps its input', async () => {
  await perform(click({ ...(await where(page, '#text')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await perform(type({ text: 'one\ntwo', typo_chance: 0 }))
  await perform(press({ keys: ['ctrl+a', 'ctrl+c'], duration: 0 }))
  expect(await clipboard.changed(queue.lastAct, queue.lastAct)).toBe(true)
  expect(await clipboard.read(signal)).toBe('one\ntwo')
  await clipboard.write('fresh ☃ </textarea> `${x}`\n', signal)
  expect(await clipboard.changed(performance.now(), performance.now())).toBe(false)
  await perform(press({ keys: ['ctrl+v'], duration: 0 }))
  expect(await value('#text')).toBe('fresh ☃ </textarea> `${x}`\n')
  expect(client.contexts()[0]!.pages()).toHaveLength(1)
})

test('clicks count, have their button, and hold keys', async () => {
  const words = await where(page, '#words')
  await perform(click({ ...words, button: 'left', click_type: 'click', num_clicks: 3 }))
  const triple = await recorded(page)
  expect(
    of(triple, 'click')
      .map(({ detail, button }) => `${detail}/${button}`)
      .join(' '),
  ).toBe('1/0 2/0 3/0')
  expect(of(triple, 'dblclick')).toHaveLength(1)
  expect(await page.evaluate('getSelection().toString().trim()')).toBe('one two three four')
  await clearRecord(page)
  const { x, y } = await where(page, '#to')
  for (const button of ['right', 'middle', 'back', 'forward'] as const) await perform(click({ x, y, button, click_type: 'click', num_clicks: 1 }))
  await perform(click({ x, y, button: 'left', click_type: 'click', num_clicks: 1, hold_keys: ['ctrl', 'shift'] }))
  const others = await recorded(page)
  expect(
    of(others, 'mousedown')
      .map(({ button, buttons, ctrl, shift }) => `${button}/${buttons}${ctrl && shift ? '+keys' : ''}`)
      .join(' '),
  ).toBe('2/2 1/4 3/8 4/16 0/1+keys')
  expect(of(others, 'contextmenu')).toHaveLength(1)
  expect([await input.pointer(), await input.held()]).toEqual([[x, y], { keys: [], buttons: [] }])
})

test('an element is dragged and dropped', async () => {
  const [from, to] = [await where(page, '#card'), await where(page, '#to')]
  const path = [
    [from.x, from.y],
    [300, 260],
    [to.x, to.y],
  ] as [number, number][]
  await perform(drag({ path, button: 'left', smooth: false, steps_per_segment: 5, step_delay_ms: 5, delay: 0 }))
  await expect.poll(async () => of(await recorded(page), 'dragend').length).toBe(1)
  const record = await recorded(page)
  expect(of(record, 'dragstart', 'drop', 'dragend').map(({ type: name }) => name)).toEqual(['dragstart', 'drop', 'dragend'])
  expect(of(record, 'drop')[0]).toMatchObject({ target: 'to', trusted: true })
})

test('the wheel scrolls what is under the pointer, a notch as far as a mouse does', async () => {
  const at = await where(page, '#scroller')
  await perform(scroll({ ...at, delta_x: 1, delta_y: 3 }))
  await expect.poll(() => page.evaluate('[scroller.scrollLeft, scroller.scrollTop]')).toEqual([120, 360])
  await perform(scroll({ ...at, delta_x: 0, delta_y: -2 }))
  await expect.poll(() => page.evaluate('scroller.scrollTop')).toBe(120)
})

test('a picture shows the page, and the cursor unless it is hidden', async () => {
  const { x, y, width, height } = await boxOf(page, '#card')
  await perform(move({ x: x + 20, y: y + 20, smooth: false }))
  const shot = async () => (await screen.capture({ x, y, width, height })).pixels
  const withCursor = await shot()
  expect([withCursor.width, withCursor.height]).toEqual([width, height])
  const pixel = (data: Buffer, stride: number, px: number, py: number) => [...data.subarray(py * stride + px * 4, py * stride + px * 4 + 3)].toReversed()
  expect(pixel(withCursor.data, withCursor.stride, 5, 5)).toEqual([0x44, 0x88, 0xcc])
  expect(pixel(withCursor.data, withCursor.stride, 20, 20)).toEqual([0, 0, 0])
  screen.cursor.hide(true)
  const without = await shot()
  screen.cursor.hide(false)
  expect(pixel(without.data, without.stride, 20, 20)).toEqual([0x44, 0x88, 0xcc])
  const whole = await screen.copy(({ width: w, height: h }) => Buffer.alloc(w * h * 4))
  expect([whole.width, whole.height]).toEqual([1000, 700])
})

test('who watches the screen is told of each change, and an unchanged screen keeps its version', async () => {
  let changes = 0
  const unwatch = screen.watch(() => changes++)
  await expect.poll(() => changes).toBeGreaterThan(0)
  const still = await until('a screen without changes', TAKE_MS, async () => {
    const version = await screen.version()
    await sleep(200)
    return (await screen.version()) === version && { version }
  })
  const seen = changes
  await page.evaluate(`document.body.style.background = 'red'`)
  await expect.poll(() => changes).toBeGreaterThan(seen)
  expect(await screen.version()).toBeGreaterThan(still.version)
  expect(await colourAt(950, 650)).toEqual([255, 0, 0])
  unwatch()
})

test('the newest page is in front, and when it is closed, the one before it', async () => {
  const opened = page.context().waitForEvent('page')
  await page.evaluate(`void open('${pages.local('recorder.html')}')`)
  const newest = await opened
  await newest.waitForLoadState()
  await perform(click({ ...(await where(newest, '#line')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await perform(type({ text: 'newest', typo_chance: 0 }))
  expect(await newest.locator('#line').inputValue()).toBe('newest')
  expect(of(await recorded(page), 'mousedown', 'keydown')).toEqual([])
  await newest.evaluate(`document.body.style.background = 'lime'`)
  await expect.poll(() => colourAt(950, 650)).toEqual([0, 255, 0])
  await newest.close()
  await perform(click({ ...(await where(page, '#line')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await perform(type({ text: 'first', typo_chance: 0 }))
  expect(await value('#line')).toBe('first')
})

test('another size is that of every page, also of one that is opened later', async () => {
  const size = (of_: Page) => of_.evaluate('[innerWidth, innerHeight]')
  await screen.resize({ ...VIEWPORT, width: 1280, height: 800 })
  await expect.poll(() => size(page)).toEqual([1280, 800])
  const later = await page.context().newPage()
  await expect.poll(() => size(later)).toEqual([1280, 800])
  await later.close()
  await screen.resize(VIEWPORT)
  await expect.poll(() => size(page)).toEqual([1000, 700])
})

test('a page that was just closed disturbs neither a change of the size nor a picture', async () => {
  for (let round = 0; round < 10; round++) {
    const [first, last] = [await page.context().newPage(), await page.context().newPage()]
    const height = 600 + round
    await Promise.all([first.close(), last.close()])
    await Promise.all([screen.resize({ ...VIEWPORT, height }), screen.capture({ x: 0, y: 0, width: 10, height: 10 })])
    await expect.poll(() => page.evaluate('innerHeight')).toBe(height)
  }
  await screen.resize(VIEWPORT)
})

test('a page that takes no input does not hold up its caller, and what was pressed is not down afterwards', async () => {
  // Not by a timer: Chromium handles input before timers that are due.
  const busy = page.waitForEvent('console')
  const free = page.evaluate(`(() => { console.log('busy'); const end = Date.now() + 5_000; while (Date.now() < end); return Date.now() })()`)
  await busy
  await perform(click({ x: 500, y: 500, button: 'left', click_type: 'click', num_clicks: 1 }))
  const doneAt = Date.now()
  expect(await windows.answers()).toBe(false)
  expect(await input.held()).toEqual({ keys: [], buttons: [] })
  expect(await free).toBeGreaterThan(doneAt)
})

test('after the browser has ended, the display goes on with the next one', async () => {
  await end()
  await begin()
  await page.goto(pages.local('recorder.html'))
  await perform(click({ ...(await where(page, '#line')), button: 'left', click_type: 'click', num_clicks: 1 }))
  await perform(type({ text: 'again', typo_chance: 0 }))
  expect(await value('#line')).toBe('again')
})
