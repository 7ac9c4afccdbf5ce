// A pretended display for the keyboard: it knows the key map, and which part of it the program in front has read.
import { expect } from 'vitest'
import { openKeyboard, type Keyboard } from '../../src/agent/computer/keyboard.ts'
import { BACKSPACE, RETURN } from '../../src/agent/computer/names.ts'
import type { XConnection } from '../../src/agent/display/x11.ts'

const MIN_KEYCODE = 8
export const MAX_KEYCODE = 255
/** The first spare key. */
export const FIRST_SPARE = 180
/** F13 to F24: empty, but Chromium knows their position. */
export const KNOWN_BY_PLACE = [191, 202] as const
const SHIFT_CODE = 50
const ON_SHIFT_CODE: readonly [number, number] = [0xffe1, 0]

/** The keys of a US keyboard, without and with Shift. */
export const US = '1! 2@ 3# 4$ 5% 6^ 7& 8* 9( 0) -_ =+ [{ ]} \\| ;: \'" `~ ,< .> /?'.split(' ').map((pair) => [pair.charCodeAt(0), pair.charCodeAt(1)] as const)
export const LETTERS = Array.from('qwertyuiopasdfghjklzxcvbnm', (letter) => [letter.charCodeAt(0), letter.toUpperCase().charCodeAt(0)] as const)
const OTHERS: (readonly [number, number])[] = [
  [RETURN, 0],
  [0xff09, 0xfe20],
  [BACKSPACE, 0],
  [0x20, 0x20],
  [0x3c, 0x3e],
]

interface Key {
  code: number
  down: boolean
}

export interface Display {
  connection: XConnection
  /** The key map by key code. */
  map: Map<number, readonly number[]>
  /** Keys whose keysyms were changed, with the new keysyms. */
  changes: { code: number; keysyms: number[] }[]
  /** What happened, oldest first. */
  events: string[]
  /** Resolves when the program in front has handled what was sent. It reads a new map in two steps, as Chromium does. */
  caughtUp: () => Promise<void>
  /** The text that the program has received; keys without a meaning are `?`. */
  text: () => string
  /** Keys that were remapped while they were down, or before the program had handled them. */
  hurried: number[]
  capsLock: boolean
  /** Another program gives keys other keysyms, and the program in front reads them. */
  relay(keys: Iterable<readonly [code: number, keysyms: readonly number[]]>): void
  /** Which half of the map is in use. */
  group: number
  /** How often the whole map was read. */
  reads: number
}

/** A display with this many spare keys. */
export function makeDisplay(spares: number, keyboards = ['Virtual core XTEST keyboard', 'Xvfb virtual keyboard']): Display {
  const map = new Map<number, readonly number[]>()
  ;[...US, ...LETTERS, ...OTHERS].forEach((pair, index) => map.set(100 + index, pair))
  map.set(SHIFT_CODE, ON_SHIFT_CODE)
  // All keys in the spare range have a meaning, except the last `spares` ones.
  for (let code = FIRST_SPARE; code <= MAX_KEYCODE - spares; code++)
    if (code < KNOWN_BY_PLACE[0] || code > KNOWN_BY_PLACE[1]) map.set(code, [0x1008_ff00 + code, 0])

  /** What the program has not handled yet: keys, and notices of a new map. */
  let sent: (Key | 'another map')[] = []
  const field: string[] = []
  /** Keys that are down. */
  const down = new Set<number>()
  let shift = false
  const listeners: ((event: object) => void)[] = []
  const tell = () => listeners.forEach((listener) => listener({ name: 'XkbEvent', xkbType: 1 }))
  /** The map that the program uses, and the one that it is about to use. */
  let known = new Map(map)
  let coming: Map<number, readonly number[]> | undefined

  function receive(code: number): void {
    if (coming) return void field.push('?')
    const row = known.get(code) ?? []
    const [plain = 0, shifted = plain] = row.length > 2 * display.group ? row.slice(2 * display.group) : row
    const isLetter = plain !== shifted && /^[a-z]$/.test(String.fromCharCode(plain))
    const keysym = (isLetter ? shift !== display.capsLock : shift) ? shifted : plain
    if (keysym === BACKSPACE) field.pop()
    else if (keysym !== 0 && keysym < 0xff00) field.push(String.fromCharCode(keysym))
    else if (keysym === RETURN) field.push('\n')
    else if (keysym === 0xff09) field.push('\t')
    else if (keysym > 0x100_0000 && keysym < 0x1008_0000) field.push(String.fromCodePoint(keysym & 0xff_ffff))
    else field.push('?')
  }

  const display: Display = {
    map,
    changes: [],
    events: [],
    hurried: [],
    capsLock: false,
    group: 0,
    reads: 0,
    relay(keys) {
      for (const [code, keysyms] of keys) map.set(code, keysyms)
      known = new Map(map)
      tell()
    },
    text: () => field.join(''),
    async caughtUp() {
      await Promise.resolve()
      display.events.push('caught up')
      const asked = coming
      for (const event of sent) {
        if (event === 'another map') coming = new Map(map)
        else if (event.code === SHIFT_CODE) shift = event.down
        else if (event.down) receive(event.code)
      }
      sent = []
      if (asked) known = asked
      if (coming === asked) coming = undefined
    },
    connection: {
      minKeycode: MIN_KEYCODE,
      maxKeycode: MAX_KEYCODE,
      root: 1,
      x: {
        seq_num: 0,
        pack_stream: {
          put() {
            display.events.push('announced')
            sent.push('another map')
          },
          submit() {},
        },
        on: (_: string, listener: (event: object) => void) => void listeners.push(listener),
        GetKeyboardMapping(first: number, count: number, done: (error: null, rows: number[][]) => void) {
          display.reads++
          done(
            null,
            Array.from({ length: count }, (_, index) => [...(map.get(first + index) ?? [0, 0])]),
          )
        },
        QueryPointer: (_: number, done: (error: null, reply: object) => void) =>
          done(null, { rootX: 0, rootY: 0, keyMask: (display.capsLock ? 2 : 0) | 0x10 | (display.group << 13) }),
        ChangeKeyboardMapping(code: number, keysymsPerKey: number, keysyms: number[]) {
          expect(keysyms).toHaveLength(keysymsPerKey)
          display.events.push(`changed ${code}`)
          display.changes.push({ code, keysyms })
          if (down.has(code) || sent.some((event) => event !== 'another map' && event.code === code)) display.hurried.push(code)
          map.set(code, keysyms)
          tell()
        },
      },
      xkb: {
        UseCoreKbd: 0x100,
        SelectEvents() {},
        ModMask: { Lock: 2 },
        LatchLockState: (_device: number, affected: number, locks: number) => void (display.capsLock = affected === 2 && locks === 2),
      },
      xtest: {
        majorOpcode: 132,
        KeyPress: 2,
        KeyRelease: 3,
        FakeInput(kind: number, code: number) {
          // The server sends no event when a key is released that is not down.
          if (kind === 2 ? down.has(code) : !down.delete(code)) return
          if (kind === 2) down.add(code)
          sent.push({ code, down: kind === 2 })
        },
      },
      xinput: {
        firstEvent: 66,
        XIQueryDevice: (_: number, done: (error: null, devices: object[]) => void) =>
          done(
            null,
            keyboards.map((name, index) => ({ deviceId: 3 + index, use: 4, name })),
          ),
      },
      ask: (request: (done: (error: Error | null, value: unknown) => void) => void) =>
        new Promise((resolve, reject) => request((error, value) => (error ? reject(error) : resolve(value)))),
    } as unknown as XConnection,
  }
  return display
}

export async function open(spares: number): Promise<Display & { keyboard: Keyboard }> {
  const display = makeDisplay(spares)
  return Object.assign(display, { keyboard: await openKeyboard(display.connection, display.caughtUp) })
}
