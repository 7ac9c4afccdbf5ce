// A viewer's mouse and keyboard with a fake display: turns with callers, any layout, nothing left pressed.
import { expect, test, vi } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { sleep, until } from '../../base/wait.ts'
import type { Computer } from '../computer/handlers.ts'
import { makeInputQueue } from '../computer/input-queue.ts'
import { ViewerInput } from './viewer-input.ts'

const WAIT_MS = 2_000
const SHIFT = 0xffe1
const CTRL = 0xffe3
const [A, CAPITAL_A, SLASH, QUESTION, CORN] = [0x61, 0x41, 0x2f, 0x3f, 0x0101f33d]
/** Keys of a US keyboard that these tests press; every other character uses spare key 200. */
const KEYS: Record<number, { code: number; shift: boolean }> = {
  [SHIFT]: { code: 50, shift: false },
  [CTRL]: { code: 37, shift: false },
  [A]: { code: 38, shift: false },
  [CAPITAL_A]: { code: 38, shift: true },
  [SLASH]: { code: 61, shift: false },
  [QUESTION]: { code: 61, shift: true },
}

function setUp(isThere: () => Promise<boolean> = async () => true) {
  const done: string[] = []
  const down = new Set<string>()
  const press = (what: string, isDown: boolean) => {
    done.push((isDown ? '+' : '-') + what)
    if (isDown) down.add(what)
    else down.delete(what)
  }
  const keyboard = {
    spares: 8,
    refresh: async () => {},
    has: (keysym: number) => keysym in KEYS,
    strokes: async (keysyms: readonly number[]) => keysyms.map((keysym) => KEYS[keysym] ?? { code: 200, shift: false }),
    capsLock: async () => false,
    setCapsLock() {},
  }
  const input = {
    move: (x: number, y: number) => void done.push(`${x},${y}`),
    key: (code: number, isDown: boolean) => press(`k${code}`, isDown),
    button: (number: number, isDown: boolean) => press(`b${number}`, isDown),
    pointer: async () => [0, 0] as const,
    held: async () => ({ keys: [], buttons: [] }),
  }
  const clipboard = { read: async () => '', write: async (text: string) => void done.push(`"${text}"`), changed: async () => false }
  const desk = { screen: { viewport: { width: 800, height: 600 } }, input, keyboard, clipboard, caughtUp: async () => {} } as unknown as Computer
  const inputQueue = makeInputQueue(input, keyboard)
  const onWaiting = vi.fn()
  const viewer = new ViewerInput({ desk, inputQueue, onWaiting, isThere, log: silentLog })
  const becomes = async (...expected: string[]) => {
    await until('what was done', WAIT_MS, () => done.length >= expected.length).catch(() => {})
    expect(done.splice(0)).toEqual(expected)
  }
  return { viewer, inputQueue, done, down, becomes, onWaiting }
}

test('a viewer can move, press buttons and turn the wheel, within the screen', async () => {
  const { viewer, becomes } = setUp()
  viewer.pointer(5, 6, 0)
  viewer.pointer(900, 700, 1)
  viewer.pointer(10, 10, 0)
  viewer.pointer(10, 10, 16)
  viewer.pointer(10, 10, 0)
  await becomes('5,6', '799,599', '+b1', '10,10', '-b1', '10,10', '+b5', '10,10', '-b5')
})

test("a character arrives correctly, whatever Shift did on the viewer's keyboard", async () => {
  const { viewer, becomes } = setUp()
  for (const isDown of [true, false]) viewer.key(QUESTION, isDown) // no Shift there, Shift here
  await becomes('+k50', '+k61', '-k61', '-k50')
  viewer.key(SHIFT, true)
  for (const isDown of [true, false]) viewer.key(SLASH, isDown) // German: Shift+7
  viewer.key(CAPITAL_A, true)
  viewer.key(CAPITAL_A, false)
  viewer.key(CORN, true)
  viewer.key(CORN, false)
  viewer.key(SHIFT, false)
  await becomes('+k50', '-k50', '+k61', '-k61', '+k50', '+k38', '-k38', '+k200', '-k200', '-k50')
})

test("Ctrl with a capital from Caps Lock presses the letter's key; Caps Lock and AltGr themselves are not passed on", async () => {
  const { viewer, becomes } = setUp()
  for (const keysym of [0xffe5, 0xff7f, 0xfe03, 0xff7e]) viewer.key(keysym, true)
  viewer.key(CTRL, true)
  viewer.key(CAPITAL_A, true)
  viewer.key(CAPITAL_A, true)
  viewer.key(CAPITAL_A, false)
  viewer.key(CTRL, false)
  await becomes('+k37', '+k38', '-k38', '-k37')
})

test('pasted text is in the clipboard before the keys that paste it arrive', async () => {
  const { viewer, becomes } = setUp()
  viewer.text('pasted')
  viewer.key(A, true)
  viewer.key(A, false)
  await becomes('"pasted"', '+k38', '-k38')
})

test('keys and buttons are released when a viewer leaves', async () => {
  const { viewer, down, becomes, inputQueue } = setUp()
  viewer.pointer(1, 1, 1)
  viewer.key(CTRL, true)
  await becomes('1,1', '+b1', '+k37')
  await viewer.leave()
  await until('nothing to be held', WAIT_MS, () => down.size === 0)
  // Other callers get their turn at once.
  await inputQueue.turn(async () => {}, AbortSignal.timeout(WAIT_MS))
  viewer.key(A, true)
  expect(down.size).toBe(0)
})

test("a viewer's drag is not mixed with a caller's action: the action waits for its end", async () => {
  const { viewer, inputQueue, done } = setUp()
  viewer.pointer(1, 1, 1)
  await until('the press', WAIT_MS, () => done.includes('+b1'))
  const call = inputQueue.turn(async () => void done.push('call'), AbortSignal.timeout(WAIT_MS))
  await sleep(50)
  viewer.pointer(2, 2, 1)
  viewer.pointer(2, 2, 0)
  await call
  expect(done).toEqual(['1,1', '+b1', '2,2', '2,2', '-b1', 'call'])
})

test("a viewer waits for a caller's action, is told so after a moment, and only its last movement is done", async () => {
  const { viewer, inputQueue, done, becomes, onWaiting } = setUp()
  const { promise, resolve } = Promise.withResolvers<void>()
  const call = inputQueue.turn(() => promise, AbortSignal.timeout(WAIT_MS))
  for (let x = 0; x < 50; x++) viewer.pointer(x, 0, 0)
  await until('the word', WAIT_MS, () => onWaiting.mock.calls.length > 0)
  expect([onWaiting.mock.calls, done]).toEqual([[[true]], []])
  resolve()
  await call
  await becomes('0,0', '49,0')
  expect(onWaiting.mock.calls).toEqual([[true], [false]])
})

test('a viewer whose connection is dead does not hold keys or buttons for long', { timeout: 15_000 }, async () => {
  const { viewer, down } = setUp(async () => false)
  viewer.pointer(1, 1, 1)
  await until('the press', WAIT_MS, () => down.has('b1'))
  await until('the button to be let go', 8_000, () => down.size === 0)
  await viewer.leave()
})
