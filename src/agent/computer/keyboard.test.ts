// Spare keys for characters that no key types, on a fake display. It knows the key map, and which part of it the program in front has read.
// FC_SEED=<number> repeats a run.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import type { XConnection } from '../display/x11.ts'
import { makeActions } from './actions.ts'
import { BatchBody } from './contract.ts'
import { openInput } from './grip.ts'
import { makeHands } from './hands.ts'
import { openKeyboard, type Keyboard } from './keyboard.ts'
import { BACKSPACE, keysymOfCharacter, RETURN } from './names.ts'

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
const runs = (numRuns: number) => ({ numRuns, seed })
const never = new AbortController().signal

const MIN_KEYCODE = 8
const MAX_KEYCODE = 255
/** The first spare key. */
const FIRST_SPARE = 180
/** F13 to F24: empty, but Chromium knows their position. */
const KNOWN_BY_PLACE = [191, 202] as const
const SHIFT_CODE = 50
const ON_SHIFT_CODE: readonly [number, number] = [0xffe1, 0]

/** The keys of a US keyboard, without and with Shift. */
const US = '1! 2@ 3# 4$ 5% 6^ 7& 8* 9( 0) -_ =+ [{ ]} \\| ;: \'" `~ ,< .> /?'.split(' ').map((pair) => [pair.charCodeAt(0), pair.charCodeAt(1)] as const)
const LETTERS = Array.from('qwertyuiopasdfghjklzxcvbnm', (letter) => [letter.charCodeAt(0), letter.toUpperCase().charCodeAt(0)] as const)
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

interface Display {
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
function makeDisplay(spares: number, keyboards = ['Virtual core XTEST keyboard', 'Xvfb virtual keyboard']): Display {
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

async function open(spares: number): Promise<Display & { keyboard: Keyboard }> {
  const display = makeDisplay(spares)
  return Object.assign(display, { keyboard: await openKeyboard(display.connection, display.caughtUp) })
}

const keysyms = (text: string): number[] => Array.from(text, (character) => keysymOfCharacter(character)!)
/** Greek letters, which no key of the display types. */
const greek = fc.integer({ min: 0x3b1, max: 0x3b1 + 15 }).map((code) => String.fromCodePoint(code))
const isSpare = (code: number): boolean => code >= FIRST_SPARE && (code < KNOWN_BY_PLACE[0] || code > KNOWN_BY_PLACE[1])

describe('a character that has a key', () => {
  test('is typed with that key, with Shift if needed, and the keymap stays unchanged', async () => {
    const { keyboard, map, changes, events } = await open(4)
    const wanted = [...US, ...LETTERS].flat()
    const strokes = await keyboard.strokes(wanted)
    strokes.forEach(({ code, shift }, index) => expect(map.get(code)![shift ? 1 : 0]).toBe(wanted[index]))
    expect(wanted.every((keysym) => keyboard.has(keysym))).toBe(true)
    expect([changes, events]).toEqual([[], []])
  })

  test('uses a key without Shift if there are both', async () => {
    const { keyboard } = await open(4)
    // Both keys `,<` and `<>` type it.
    const [less] = await keyboard.strokes(keysyms('<'))
    expect(less!.shift).toBe(false)
  })

  test('never uses a spare key that is in use', async () => {
    const { keyboard } = await open(4)
    await keyboard.strokes(keysyms('α'))
    expect(keyboard.has(keysyms('α')[0]!)).toBe(false)
  })
})

describe('a spare key', () => {
  test('is a keycode that is empty and unknown to Chromium; all other keys stay unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: MAX_KEYCODE - KNOWN_BY_PLACE[1] }),
        fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }), { maxLength: 12 }),
        async (spares, texts) => {
          const display = await open(spares)
          const before = new Map(display.map)
          expect(display.keyboard.spares).toBe(spares)
          for (const text of texts) await display.keyboard.strokes([...new Set(keysyms(text))].filter(Boolean).slice(0, display.keyboard.spares))
          for (const { code } of display.changes) expect([isSpare(code), before.get(code)]).toEqual([true, undefined])
          for (const [code, meaning] of before) expect(display.map.get(code)).toEqual(meaning)
        },
      ),
      runs(50),
    )
  })

  test('has the same character on both levels, so that Caps Lock cannot change its case', async () => {
    const { keyboard, changes } = await open(4)
    await keyboard.strokes(keysyms('éΩж🌽'))
    expect(changes.map(({ keysyms: levels }) => levels)).toEqual(keysyms('éΩж🌽').map((keysym) => [keysym, keysym]))
  })

  test('is the least recently used one', async () => {
    const { keyboard } = await open(3)
    const codeOf = async (text: string) => (await keyboard.strokes(keysyms(text)))[0]!.code
    const [alpha, beta, gamma] = [await codeOf('α'), await codeOf('β'), await codeOf('γ')]
    expect(new Set([alpha, beta, gamma]).size).toBe(3)
    expect(await codeOf('α')).toBe(alpha)
    expect(await codeOf('δ')).toBe(beta)
    expect(await codeOf('γ')).toBe(gamma)
    expect(await codeOf('ε')).toBe(alpha)
    expect(await codeOf('δ')).toBe(beta)
    expect(await codeOf('ζ')).toBe(gamma)
  })

  test('types the right character after any sequence, and is remapped only when it is the least recently used', async () => {
    const asked = fc.uniqueArray(greek, { minLength: 1, maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 5, max: 8 }), fc.array(asked, { maxLength: 20 }), async (spares, requests) => {
        const { keyboard, map, changes } = await open(spares)
        /** The mapped keysyms, least recently used first. */
        let used: number[] = []
        for (const request of requests.map((characters) => keysyms(characters.join('')))) {
          const rest = used.filter((keysym) => !request.includes(keysym))
          const kept = rest.slice(Math.max(0, rest.length + request.length - spares))
          const fresh = request.filter((keysym) => !used.includes(keysym))
          const before = changes.length
          const strokes = await keyboard.strokes(request)
          strokes.forEach(({ code, shift }, index) => expect([map.get(code), shift]).toEqual([[request[index], request[index]], false]))
          expect(changes.slice(before).map(({ keysyms: [keysym] }) => keysym)).toEqual(fresh)
          used = [...kept, ...request.filter((keysym) => !fresh.includes(keysym)), ...fresh]
          const lent = [...map].filter(([code, [keysym]]) => isSpare(code) && keysym! > 0x100_0000 && keysym! < 0x1008_0000)
          expect(lent.map(([, [keysym]]) => keysym!).toSorted((a, b) => a - b)).toEqual(used.toSorted((a, b) => a - b))
        }
      }),
      runs(100),
    )
  })

  test('is not remapped before the focused program has handled its last press', async () => {
    const asked = fc.record({ characters: fc.uniqueArray(greek, { minLength: 1, maxLength: 3 }), waits: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 3, max: 5 }), fc.array(asked, { maxLength: 20 }), async (spares, requests) => {
        const { keyboard, connection, caughtUp, hurried, text } = await open(spares)
        const input = openInput(connection)
        for (const { characters, waits } of requests) {
          for (const { code } of await keyboard.strokes(keysyms(characters.join('')))) {
            input.key(code, true)
            input.key(code, false)
          }
          if (waits) await caughtUp()
        }
        await caughtUp()
        expect(hurried).toEqual([])
        expect(text()).toBe(requests.map(({ characters }) => characters.join('')).join(''))
      }),
      runs(100),
    )
  })

  test('is announced, and the program has read the new keymap, before the key is pressed', async () => {
    const { keyboard, events } = await open(2)
    await keyboard.strokes(keysyms('aαbβ'))
    expect(events.map((event) => event.replace(/ \d+$/, ''))).toEqual(['changed', 'changed', 'announced', 'caught up', 'caught up'])
    events.length = 0
    await keyboard.strokes(keysyms('βαz'))
    expect(events).toEqual([])
    await keyboard.strokes(keysyms('γ'))
    expect(events.map((event) => event.replace(/ \d+$/, ''))).toEqual(['caught up', 'changed', 'announced', 'caught up', 'caught up'])
  })

  test('is refused if a call needs more keys at once than exist, and the keymap stays unchanged', async () => {
    const { keyboard, changes } = await open(3)
    await expect(keyboard.strokes(keysyms('αβγδ'))).rejects.toThrow('4 characters for 3 spare keys')
    expect(changes).toEqual([])
    // A repeated character needs one key.
    expect(await keyboard.strokes(keysyms('αβγαβγ'))).toHaveLength(6)
  })
})

test('the state of Caps Lock is reported', async () => {
  const display = await open(1)
  expect(await display.keyboard.capsLock()).toBe(false)
  display.capsLock = true
  expect(await display.keyboard.capsLock()).toBe(true)
})

test('a display without a usable keyboard is refused immediately', async () => {
  const { connection, caughtUp } = makeDisplay(1, ['Virtual core XTEST keyboard'])
  await expect(openKeyboard(connection, caughtUp)).rejects.toThrow('no keyboard of its own')
})

describe('typed text', () => {
  async function type(spares: number, texts: readonly string[], capsLock = false): Promise<Display> {
    const display = await open(spares)
    display.capsLock = capsLock
    const { act } = hands(display)
    for (const text of texts) await act('type_text', { text })
    await display.caughtUp()
    return display
  }

  test('arrives complete, for any characters, any number of spare keys, and with Caps Lock', async () => {
    const character = fc.oneof(fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 1 }), greek, fc.constantFrom('é', 'É', '🌽', '\n', '\t', 'я', '日'))
    const text = fc.string({ unit: character, maxLength: 150 })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 12 }), fc.array(text, { minLength: 1, maxLength: 3 }), fc.boolean(), async (spares, texts, capsLock) => {
        const display = await type(spares, texts, capsLock)
        expect(display.text()).toBe(texts.join(''))
        expect(display.hurried).toEqual([])
      }),
      runs(60),
    )
  })

  test('of few different characters changes the keymap once', async () => {
    const display = await type(4, ['Grüße', 'äß', 'Grüße'])
    expect(display.text()).toBe('GrüßeäßGrüße')
    expect(display.changes).toHaveLength(3)
  })
})

/** Runs actions on a display, in turns. */
function hands({ connection, caughtUp, keyboard }: Display & { keyboard: Keyboard }) {
  const input = openInput(connection)
  const screen = { viewport: { width: 1000, height: 700, refresh_rate: 60 } }
  const actions = makeActions({
    screen,
    keyboard,
    caughtUp,
    answers: async () => true,
    drags: { isOn: false, cursors: 0, ended: async () => {} },
    settled: caughtUp,
    cursor: { hidden: false, hide() {} },
    random: seeded(1),
  })
  const turns = makeHands(input, keyboard)
  const act = (kind: string, body: object) => turns.performAll(actions.batch(BatchBody.parse({ actions: [{ type: kind, [kind]: body }] }).actions), never)
  return { act }
}

describe('a key map that another program has changed', () => {
  /** Each letter on the key of the one after it. */
  const moved = LETTERS.map((_, index) => [100 + US.length + index, LETTERS[(index + 25) % LETTERS.length]!] as const)

  test('is the one by which text is typed and keys are pressed, from the next action on', async () => {
    const display = await open(3)
    const { act } = hands(display)
    await act('type_text', { text: 'Abc é' })
    display.relay(moved)
    await act('type_text', { text: 'Abc éö' })
    await act('press_key', { keys: ['a', 'Z'] })
    await display.caughtUp()
    expect(display.text()).toBe('Abc éAbc éöaZ')
  })

  test('may have taken the spare keys and the characters that were lent', async () => {
    const display = await open(4)
    const { act } = hands(display)
    await act('type_text', { text: 'αβγδ' })
    display.relay([
      [MAX_KEYCODE, [0, 0]],
      [MAX_KEYCODE - 1, [0x1008_ff01, 0]],
      [MAX_KEYCODE - 2, [0x1008_ff02, 0]],
    ])
    expect((await display.keyboard.refresh(), display.keyboard.spares)).toBe(2)
    await act('type_text', { text: 'αβγδ αδ' })
    await display.caughtUp()
    expect(display.text()).toBe('αβγδαβγδ αδ')
  })

  test('may have two layouts, of which either is in use', async () => {
    const display = await open(3)
    const { act } = hands(display)
    display.relay(LETTERS.map((pair, index) => [100 + US.length + index, [...pair, ...LETTERS[(index + 5) % LETTERS.length]!]] as const))
    for (const group of [0, 1, 0]) {
      display.group = group
      await act('type_text', { text: 'Hello ß' })
      await display.caughtUp()
    }
    expect(display.text()).toBe('Hello ßHello ßHello ß')
  })

  test('all the time costs one reading in each action', async () => {
    const display = await open(3)
    const { act } = hands(display)
    await act('type_text', { text: 'a' })
    const before = display.reads
    for (let change = 0; change < 1_000; change++) display.relay([[100 + US.length, LETTERS[change % 2]!]])
    await act('press_key', { keys: ['x'] })
    expect(display.reads - before).toBeLessThanOrEqual(1)
  })
})

describe('keys pressed by name', () => {
  test('arrive completely, one after the other and held together', async () => {
    const display = await open(3)
    const { act } = hands(display)
    await act('press_key', { keys: ['α', 'A', 'β', 'γ', 'δ', '%', 'ε', 'α'] })
    await act('press_key', { keys: ['ζ', 'η', 'x'], duration: 1 })
    await display.caughtUp()
    expect(display.text()).toBe('αAβγδ%εαζηx')
    expect(display.hurried).toEqual([])
  })

  test('that need more keys at once than there are spare keys are refused as a bad request', async () => {
    const { act } = hands(await open(3))
    for (const body of [
      { keys: ['α', 'β', 'γ', 'δ'], duration: 1 },
      { keys: ['α', 'β'], hold_keys: ['γ', 'δ', 'ε'] },
      { keys: ['a'], hold_keys: ['γ', 'δ', 'ε', 'ζ'] },
    ])
      await expect((async () => act('press_key', body))()).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('arrive while another spare key is held, also if there are more of them than spare keys', async () => {
    const display = await open(3)
    const { act } = hands(display)
    await act('press_key', { keys: ['β', 'γ', 'δ', 'ε'], hold_keys: ['α'] })
    await display.caughtUp()
    expect(display.text()).toBe('αβγδε')
  })
})
