// Spare keys for characters that no key types, on a fake display. It knows the key map, and which part of it the program in front has read.
// FC_SEED=<number> repeats a run.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MAX_KEYCODE, FIRST_SPARE, KNOWN_BY_PLACE, US, LETTERS, makeDisplay, open, type Display } from '../../../test/support/key-display.ts'
import { seeded } from '../../../test/support/seeded.ts'
import { makeActions } from './actions.ts'
import { BatchBody } from './contract.ts'
import { openInput } from './held-input.ts'
import { makeInputQueue } from './input-queue.ts'
import { openKeyboard, type Keyboard } from './keyboard.ts'
import { keysymOfCharacter } from './names.ts'

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
const runs = (numRuns: number) => ({ numRuns, seed })
const never = new AbortController().signal

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
    const { act } = inputQueue(display)
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
function inputQueue({ connection, caughtUp, keyboard }: Display & { keyboard: Keyboard }) {
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
  const turns = makeInputQueue(input, keyboard)
  const act = (kind: string, body: object) => turns.performAll(actions.batch(BatchBody.parse({ actions: [{ type: kind, [kind]: body }] }).actions), never)
  return { act }
}

describe('a key map that another program has changed', () => {
  /** Each letter on the key of the one after it. */
  const moved = LETTERS.map((_, index) => [100 + US.length + index, LETTERS[(index + 25) % LETTERS.length]!] as const)

  test('is the one by which text is typed and keys are pressed, from the next action on', async () => {
    const display = await open(3)
    const { act } = inputQueue(display)
    await act('type_text', { text: 'Abc é' })
    display.relay(moved)
    await act('type_text', { text: 'Abc éö' })
    await act('press_key', { keys: ['a', 'Z'] })
    await display.caughtUp()
    expect(display.text()).toBe('Abc éAbc éöaZ')
  })

  test('may have taken the spare keys and the characters that were lent', async () => {
    const display = await open(4)
    const { act } = inputQueue(display)
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
    const { act } = inputQueue(display)
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
    const { act } = inputQueue(display)
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
    const { act } = inputQueue(display)
    await act('press_key', { keys: ['α', 'A', 'β', 'γ', 'δ', '%', 'ε', 'α'] })
    await act('press_key', { keys: ['ζ', 'η', 'x'], duration: 1 })
    await display.caughtUp()
    expect(display.text()).toBe('αAβγδ%εαζηx')
    expect(display.hurried).toEqual([])
  })

  test('that need more keys at once than there are spare keys are refused as a bad request', async () => {
    const { act } = inputQueue(await open(3))
    for (const body of [
      { keys: ['α', 'β', 'γ', 'δ'], duration: 1 },
      { keys: ['α', 'β'], hold_keys: ['γ', 'δ', 'ε'] },
      { keys: ['a'], hold_keys: ['γ', 'δ', 'ε', 'ζ'] },
    ])
      await expect((async () => act('press_key', body))()).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('arrive while another spare key is held, also if there are more of them than spare keys', async () => {
    const display = await open(3)
    const { act } = inputQueue(display)
    await act('press_key', { keys: ['β', 'γ', 'δ', 'ε'], hold_keys: ['α'] })
    await display.caughtUp()
    expect(display.text()).toBe('αβγδε')
  })
})
