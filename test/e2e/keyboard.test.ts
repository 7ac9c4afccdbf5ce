// Keys and text through the published SDK: the events that the page records for each key, and the resulting text in its fields.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { areLean, of, openInFront, painted, recordUpToF8, sitDown, TAKE_MS, type Seat } from '../support/desk.ts'
import { seeded } from '../support/seeded.ts'
import { openSession, recorded, type Recorded } from '../support/session.ts'

let seat: Seat
let cloud: Seat['cloud']
let pages: Seat['pages']
let computer: Seat['computer']
let session: Seat['session']
let id: string
beforeAll(async () => {
  seat = await sitDown()
  ;({ cloud, pages, computer, session, id } = seat)
  await open()
})
afterAll(() => seat[Symbol.asyncDispose]())

const open = () => openInFront(session.page, pages.url('writing.html'))

type Field = 'text' | 'tabs' | 'password' | 'rich' | 'deaf' | 'keys'
type Text = { text: string; delay?: number; smooth?: boolean; typo_chance?: number }

const content = (field: Field): Promise<string> => session.page.evaluate(`content('${field}')`)
const begin = (field: Field): Promise<void> => session.page.evaluate(`begin('${field}')`)
const ended = () => recordUpToF8(computer, id, session.page)
/** Uses the keyboard in an empty field; resolves with all events that the page recorded. */
async function seen(field: Field, work: () => Promise<unknown>): Promise<Recorded[]> {
  await begin(field)
  return recordUpToF8(computer, id, session.page, work)
}
const press = (keys: string[], more: object = {}, field: Field = 'keys') => seen(field, () => computer.pressKey(id, { keys, ...more }))
/** Types into an empty field; resolves with its text and the page's record. `smooth` is newer than the SDK. */
async function type(text: string | Text, field: Field = 'text'): Promise<{ value: string; record: Recorded[] }> {
  const record = await seen(field, () => computer.typeText(id, typeof text === 'string' ? { text } : text))
  return { value: await content(field), record }
}
/** The characters of keydown events. */
const written = (record: Recorded[]) => of(record, 'keydown').filter(({ key }) => key !== 'Shift')
const gaps = (record: Recorded[]) => written(record).flatMap(({ at }, index, all) => (index === 0 ? [] : [at - all[index - 1]!.at]))
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

describe('press_key', () => {
  test.each([
    ['Return Enter enter KP_Enter', 'Enter', 'Enter Enter Enter NumpadEnter'],
    ['Escape esc', 'Escape', 'Escape Escape'],
    ['Tab', 'Tab', 'Tab'],
    ['BackSpace Backspace', 'Backspace', 'Backspace Backspace'],
    ['Delete del', 'Delete', 'Delete Delete'],
    ['Insert ins', 'Insert', 'Insert Insert'],
    ['Home home', 'Home', 'Home Home'],
    ['End', 'End', 'End'],
    ['Page_Up Prior PageUp pgup', 'PageUp', 'PageUp PageUp PageUp PageUp'],
    ['Page_Down Next pgdn', 'PageDown', 'PageDown PageDown PageDown'],
    ['Left ArrowLeft arrowleft', 'ArrowLeft', 'ArrowLeft ArrowLeft ArrowLeft'],
    ['Right', 'ArrowRight', 'ArrowRight'],
    ['Up', 'ArrowUp', 'ArrowUp'],
    ['Down', 'ArrowDown', 'ArrowDown'],
    ['space spacebar', ' ', 'Space Space'],
    ['Menu ContextMenu', 'ContextMenu', 'ContextMenu ContextMenu'],
    ['Pause', 'Pause', 'Pause'],
    ['a', 'a', 'KeyA'],
    ['A', 'A', 'KeyA'],
    ['minus -', '-', 'Minus Minus'],
    ['plus', '+', 'Equal'],
    ['exclam !', '!', 'Digit1 Digit1'],
    ['less <', '<', 'Comma Comma'],
    ['KP_Add', '+', 'NumpadAdd'],
    // A digit of the keypad needs a lent key under X, because its own one would need Shift.
    ['KP_1', '1', areLean ? 'Numpad1' : ''],
    ['eacute é U00E9', 'é', '  '],
    ['EuroSign €', '€', ' '],
  ])('%s presses %j', async (names, key, codes) => {
    const record = await press(names.split(' '))
    expect(written(record).map((entry) => entry.key)).toEqual(names.split(' ').map(() => key))
    expect(written(record).map(({ code }) => code)).toEqual(codes.split(' '))
    expect(of(record, 'keyup').filter((entry) => entry.key === key)).toHaveLength(names.split(' ').length)
    expect(record.every(({ trusted, repeat }) => trusted && repeat !== true)).toBe(true)
  })

  test('F1 to F12 press the function keys', async () => {
    // Skip F8, which ends a recording, and F11, which toggles the browser's full screen.
    const names = Array.from({ length: 12 }, (_, index) => `F${index + 1}`).filter((name) => !['F8', 'F11'].includes(name))
    const downs = written(await press(names))
    expect(downs.map(({ key, code }) => [key, code])).toEqual(names.map((name) => [name, name]))
  })

  test.each([
    ['Shift_L shift', 'Shift', 'ShiftLeft', 1],
    ['Shift_R', 'Shift', 'ShiftRight', 2],
    ['Control_L ctrl Control', 'Control', 'ControlLeft', 1],
    ['Control_R', 'Control', 'ControlRight', 2],
    ['Alt_L alt option', 'Alt', 'AltLeft', 1],
    ['Alt_R', 'Alt', 'AltRight', 2],
    ['Super_L cmd meta win', 'Meta', 'MetaLeft', 1],
    ['Meta_L', 'Meta', 'MetaLeft', 1],
  ])('%s presses the modifier %s, with its side', async (names, key, code, location) => {
    const record = await press(names.split(' '))
    expect(record.map((entry) => [entry.type, entry.key, entry.code, entry.location])).toEqual(
      names.split(' ').flatMap(() => ['keydown', 'keyup'].map((type) => [type, key, code, location])),
    )
  })

  test('presses a combination in order, releases it in reverse order, and the page sees its modifiers', async () => {
    const record = await press(['ctrl+shift+k'])
    expect(record.map(({ type, code }) => [type, code])).toEqual([
      ['keydown', 'ControlLeft'],
      ['keydown', 'ShiftLeft'],
      ['keydown', 'KeyK'],
      ['keyup', 'KeyK'],
      ['keyup', 'ShiftLeft'],
      ['keyup', 'ControlLeft'],
    ])
    expect(record[2]).toMatchObject({ key: 'K', ctrl: true, shift: true, alt: false, meta: false })
    expect((await press(['alt+Up']))[1]).toMatchObject({ key: 'ArrowUp', alt: true, ctrl: false })
    // Menus print the letter as a capital, but it does not mean Shift.
    expect((await press(['ctrl+K']))[1]).toMatchObject({ key: 'k', ctrl: true, shift: false })
    expect(written(await press(['ctrl++'])).at(-1)).toMatchObject({ key: '+', ctrl: true })
  })

  test.each([
    [['x', 'y'], {}, 'x+ x- y+ y-'],
    [['shift+A'], {}, 'Shift+ A+ A- Shift-'],
    [['ctrl+ctrl'], {}, 'Control+ Control-'],
    // A combination does not release a key that the caller also holds.
    [['ctrl+a', 'b'], { hold_keys: ['ctrl'] }, 'Control+ a+ a- b+ b- Control-'],
  ])('%j with %o are pressed and released as %s', async (keys, more, story) => {
    expect((await press(keys, more)).map(({ type, key }) => `${key}${type === 'keydown' ? '+' : '-'}`).join(' ')).toBe(story)
  })

  test('any number of characters that have no key of their own arrive; held together they have to fit', async () => {
    const names = Array.from({ length: 200 }, (_, index) => String.fromCodePoint(0x4e00 + index))
    expect(written(await press(names)).map(({ key }) => key)).toEqual(names)
    // Keys of an X server are lent to characters; a lean browser gets the characters themselves.
    if (!areLean)
      await expect(computer.pressKey(id, { keys: names, duration: 10 })).rejects.toMatchObject({ status: 400, message: expect.stringContaining('keys') })
  })

  test('with duration holds all keys together that long, and the key repeats', async () => {
    const record = await press(['x', 'y'], { duration: 1_000 })
    const first = (type: string, key: string) => record.find((entry) => entry.type === type && entry.key === key)!
    for (const key of ['x', 'y']) expect(first('keyup', key).at - first('keydown', key).at).toBeGreaterThanOrEqual(950)
    expect(of(record, 'keyup').map(({ key }) => key)).toEqual(['y', 'x'])
    const again = of(record, 'keydown').filter(({ repeat }) => repeat)
    expect(again.length).toBeGreaterThan(2)
    expect(again.every(({ key }) => key === 'y')).toBe(true)
  })

  test('with hold_keys holds them from before the first key to after the last', async () => {
    const record = await press(['a', 'b'], { hold_keys: ['Shift_L'] }, 'text')
    expect(await content('text')).toBe('AB')
    expect(record.map(({ type, code }) => `${type} ${code}`)).toEqual([
      'keydown ShiftLeft',
      'keydown KeyA',
      'keyup KeyA',
      'keydown KeyB',
      'keyup KeyB',
      'keyup ShiftLeft',
    ])
  })

  test('edits text with Return, Backspace, arrows, and by replacing a selection', async () => {
    const steps: [string[], string][] = [
      [['a', 'b', 'Return', 'c', 'd'], 'ab\ncd'],
      [['BackSpace', 'Left', 'Delete', 'e'], 'ab\ne'],
      [['shift+Left', 'f'], 'ab\nf'],
      [['Up', 'Home', 'shift+End', 'g'], 'g\nf'],
      [['ctrl+A', 'h', 'i'], 'hi'],
      [['ctrl+z'], 'g\nf'],
      [['ctrl+a', 'Delete'], ''],
    ]
    await begin('text')
    for (const [keys, value] of steps) {
      await computer.pressKey(id, { keys })
      await until(`${keys.join()} to make ${value}`, TAKE_MS, async () => (await content('text')) === value)
    }
  })

  test('moves the focus with Tab and shift+Tab', async () => {
    const focused = () => session.page.evaluate('document.activeElement.id')
    await press(['Tab'], {}, 'text')
    expect(await focused()).toBe('tabs')
    await press(['shift+Tab'], {}, 'password')
    expect(await focused()).toBe('tabs')
  })
})

const ASCII = String.fromCharCode(...Array.from({ length: 95 }, (_, index) => 32 + index))
const TEXTS = {
  'every printable character of ASCII': ASCII,
  accents: 'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞß šžőűłđąęśćź ŠŽŐŰŁ',
  'Greek and Cyrillic': 'Καλημέρα κόσμε, Здравствуй, мир! Ђђ Љљ Її Ґґ',
  'right-to-left scripts': 'مرحبا بالعالم שלום עולם ‏(1)‎',
  'Chinese, Japanese and Korean': '漢字仮名交じり文 简体中文 ひらがな カタカナ ｶﾀｶﾅ 한국어 텍스트',
  'Thai, Hindi and Tamil': 'สวัสดีชาวโลก नमस्ते दुनिया வணக்கம்',
  emoji: '😀 🎉 ❤️ 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 1️⃣ 👩🏿‍🚀',
  'combining marks': 'e\u0301 o\u0308 n\u0303 a\u030A\u0323 Z\u0351\u036B\u0343 q\u0307\u0323',
  symbols: '€ £ ¥ © ® ™ § ¶ • … – — “quotes” ‘single’ «guillemets» ← ↑ → ↓ ∀x∈ℝ ½ ¼ ² ³ ± × ÷ √ ∞ ≠ ≤ ≥ 𝒜 𝔅 𝕮',
  'odd spaces and marks': 'a\u00A0b\u2009c\u200Bd\u00ADe\u2060f\uFEFFg\uE000h\uF8FFi\uFFFDj',
}

describe('type_text', () => {
  test.each(Object.entries(TEXTS))('with %s gives exactly this text, and each key event names its character', async (_name, text) => {
    const { value, record } = await type(text)
    expect(value).toBe(text)
    const basic = (characters: (string | undefined)[]) => characters.filter((character) => character!.length === 1 && character! <= '\uFFFF')
    expect(basic(written(record).map(({ key }) => key))).toEqual(Array.from(text).filter((character) => character.length === 1))
    expect(of(record, 'compositionstart', 'compositionend')).toEqual([])
    expect(record.every(({ trusted }) => trusted)).toBe(true)
  })

  test('types line breaks of every kind as the Return key', async () => {
    const { value, record } = await type('one\ntwo\r\nthree\n\n\r\nfour\rfive')
    expect(value).toBe('one\ntwo\nthree\n\n\nfour\nfive')
    expect(of(record, 'keydown').filter(({ key }) => key === 'Enter')).toHaveLength(6)
  })

  test('types a tab as the Tab key: an editor inserts it, elsewhere it moves the focus', async () => {
    expect((await type('\tone\n\t\ttwo', 'tabs')).value).toBe('\tone\n\t\ttwo')
    const { value } = await type('here\tthere', 'text')
    expect([value, await content('tabs')]).toEqual(['here', '\tone\n\t\ttwothere'])
  })

  test.each([1, 2, 3])('types 300 different characters in any order exactly (order %i)', async (seed) => {
    const random = seeded(seed)
    const ranges = [0xa1, 0x391, 0x410, 0x5d0, 0x627, 0x3041, 0x4e00, 0xac00, 0x2200, 0x1f600, 0x1f400, 0x20000]
    const different = ranges.flatMap((from) => Array.from({ length: 25 }, (_, index) => String.fromCodePoint(from + index))).filter((c) => c !== '\u00AD')
    const text = different
      .map((character) => [random(), character] as const)
      .toSorted(([a], [b]) => a - b)
      .map(([, character]) => character)
      .join('')
    expect(Array.from(text).length).toBeGreaterThanOrEqual(299)
    const { value, record } = await type(text)
    expect(value).toBe(text)
    const basic = Array.from(text).filter((character) => character.length === 1)
    expect(written(record).flatMap(({ key }) => (key!.length === 1 ? [key] : []))).toEqual(basic)
  })

  test('types 1,000 characters of many kinds without a delay exactly', async () => {
    const all = Array.from(Object.values(TEXTS).join('')).filter((character) => !/\p{M}|\p{Cf}/u.test(character))
    const random = seeded(7)
    const text = Array.from({ length: 1_000 }, () => (random() < 0.8 ? ASCII[Math.floor(random() * 95)]! : all[Math.floor(random() * all.length)]!)).join('')
    expect((await type({ text, delay: 0 })).value).toBe(text)
  })

  test('with delay waits that long between characters', async () => {
    const { value, record } = await type({ text: 'abCdé漢fgh', delay: 80 })
    expect(value).toBe('abCdé漢fgh')
    expect(sum(gaps(record))).toBeGreaterThanOrEqual(8 * 80 * 0.9)
    expect(Math.min(...gaps(record))).toBeGreaterThan(30)
  })

  test('with smooth is irregular and exact', async () => {
    const text = 'The quick brown fox, it seems, jumps over the lazy dog. Again.'
    const { value, record } = await type({ text, smooth: true, delay: 40 })
    expect(value).toBe(text)
    const times = gaps(record)
    const mean = sum(times) / times.length
    const deviation = Math.sqrt(sum(times.map((time) => (time - mean) ** 2)) / times.length)
    expect(mean).toBeGreaterThan(25)
    expect(deviation / mean).toBeGreaterThan(0.2)
    // A person holds each key for a moment; programs do not.
    const held = of(record, 'keyup').filter(({ key }) => key !== 'Shift')
    expect(sum(held.map(({ at }) => at)) - sum(written(record).map(({ at }) => at))).toBeGreaterThan(held.length * 5)
  })

  test('makes and corrects mistakes, and the final text is exact', async () => {
    const text = 'Every sentence of this text is typed by a hand that errs now and then but never leaves an error behind, for it reads what it has written.'
    const { value, record } = await type({ text, typo_chance: 0.1, delay: 15 })
    expect(value).toBe(text)
    const back = of(record, 'keydown').filter(({ key }) => key === 'Backspace').length
    expect(back).toBeGreaterThan(0)
    expect(written(record)).toHaveLength(text.length + 2 * back)
  })

  test.each([
    ['ASCII', ASCII],
    ['other letters', 'äÖß Жж Ωω ıİ ǆǅ 漢'],
  ])('is exact with Caps Lock on, and leaves Caps Lock on: %s', async (_name, text) => {
    await computer.pressKey(id, { keys: ['Caps_Lock'] })
    try {
      const { value, record } = await type(text)
      expect(value).toBe(text)
      expect(of(record, 'keydown').some(({ capsLock }) => capsLock)).toBe(false)
      // CDP cannot say that Caps Lock is on; letters are capitals all the same.
      const [key, says] = areLean ? ['A', { key: 'A', capsLock: false }] : ['ArrowLeft', { capsLock: true }]
      expect((await press([areLean ? 'a' : 'Left'])).find((each) => each.key === key)).toMatchObject({ type: 'keydown', ...says })
    } finally {
      await computer.pressKey(id, { keys: ['Caps_Lock'] })
    }
    expect((await press(['a'])).find(({ key }) => key === 'a')).toMatchObject({ type: 'keydown', capsLock: false })
  })

  test.each(['password', 'rich'] as const)('works in another kind of field: %s', async (field) => {
    const text = 'pässwörd 漢字 😀 <b>&amp;'
    expect((await type(text, field)).value).toBe(text)
  })

  test('sends every key event to a page that prevents the default of all keys', async () => {
    const { value, record } = await type('Hé漢o', 'deaf')
    expect(value).toBe('')
    expect(written(record).map(({ key }) => key)).toEqual(['H', 'é', '漢', 'o'])
  })

  test('leaves the keymap of other keys unchanged', async () => {
    // Each character is the name of its key, except `+`, which joins combinations.
    const names = Array.from(ASCII.trim()).filter((character) => character !== '+')
    const pairs = async () => written(await press(names)).map(({ key, code, location }) => [key, code, location])
    const before = await pairs()
    expect(before.map(([key]) => key)).toEqual(names)
    await type(Object.values(TEXTS).join(''))
    expect(await pairs()).toEqual(before)
    expect((await press(['F9', 'Home', 'Multi_key', 'KP_Add'])).filter((entry) => entry.type === 'keydown').map(({ code }) => code)).toEqual(
      expect.arrayContaining(['F9', 'Home', 'NumpadAdd']),
    )
  })

  describe.skipIf(areLean)('a layout that a program of the session has set', () => {
    const program = async (...args: string[]) => {
      const { exit_code, stderr_b64 = '' } = await cloud.client.browsers.process.exec(id, { command: 'setxkbmap', args, timeout_sec: 20 })
      expect([exit_code, Buffer.from(stderr_b64, 'base64').toString()]).toEqual([0, ''])
    }
    const words = 'Azerty, qwerty: 1234567890 !@#$%^&*() <a@b.c> [zm] "Été" ñ 東京'
    afterAll(() => program('us'))

    test.each([['fr'], ['de'], ['ru'], ['us', '-variant', 'dvorak'], ['us']])('types the same text, and presses the same keys: %s', async (...layout) => {
      await program(...layout)
      const record = await seen('text', async () => {
        await computer.typeText(id, { text: words })
        await computer.pressKey(id, { keys: ['a', 'A', 'm', '1', 'ctrl+a'] })
      })
      expect(await content('text')).toBe(`${words}aAm1`)
      expect(of(record, 'keydown').at(-1)).toMatchObject({ key: 'a', ctrl: true })
      const selected = await session.page.evaluate('document.activeElement.selectionEnd - document.activeElement.selectionStart')
      expect(selected).toBe(`${words}aAm1`.length)
    })

    test('types the same text when it is changed between two calls, and by lent keys', async () => {
      await seen('text', async () => {
        for (const layout of ['fr', 'us', 'de']) {
          await computer.typeText(id, { text: 'Zay é東 ' })
          await program(layout)
          await computer.typeText(id, { text: 'Zay é東 ' })
        }
      })
      expect(await content('text')).toBe('Zay é東 '.repeat(6))
    })

    test('may be the second of two', async () => {
      await program('us,fr', '-option', 'grp:menu_toggle')
      await seen('text', async () => {
        await computer.typeText(id, { text: 'azq ' })
        await computer.pressKey(id, { keys: ['Menu'] })
        await computer.typeText(id, { text: 'azq! ' })
        await computer.pressKey(id, { keys: ['Menu'] })
        await computer.typeText(id, { text: 'azq' })
      })
      expect(await content('text')).toBe('azq azq! azq')
      await program('us', '-option', '')
    })
  })

  test.each([
    ['slow text', { text: 'abcdefghijklmnopqrstuvwxyz'.repeat(20), delay: 100 }, 'type'],
    ['smooth text', { text: 'Some Words '.repeat(50), smooth: true }, 'type'],
    ['held keys', { keys: ['a', 'Shift_L', 'ctrl'], duration: 60_000 }, 'press_key'],
  ])('ends if its caller leaves during %s, with no key down', async (_what, body, operation) => {
    await begin('deaf')
    const leave = new AbortController()
    const [method, headers] = ['POST', { 'content-type': 'application/json' }]
    const call = cloud.fetch(`/browsers/${id}/computer/${operation}`, { method, headers, body: JSON.stringify(body), signal: leave.signal })
    const left = call.then(
      () => 'answered',
      () => 'left',
    )
    await until('some keys', TAKE_MS, async () => of(await recorded(session.page), 'keydown').length >= 3)
    leave.abort()
    expect(await left).toBe('left')
    // The next caller's turn starts after the cancelled call has ended.
    const record = await ended()
    const count = (type: string) => of(record, type).filter(({ repeat }) => !repeat).length
    expect(count('keyup')).toBe(count('keydown'))
    const length = (await recorded(session.page)).length
    await sleep(400)
    expect((await recorded(session.page)).length).toBe(length)
    expect((await press(['a']))[0]).toMatchObject({ key: 'a', shift: false, ctrl: false })
  })
})

test.each([
  ['headless', true],
  ['headful', false],
])('in a new %s session the start page has the keyboard focus', async (_kind, headless) => {
  const before = session
  session = await openSession(cloud, { timeout_seconds: 300, headless, start_url: pages.url('writing.html') })
  try {
    await session.page.waitForURL(pages.url('writing.html'))
    await painted(session.page)
    await begin('text')
    await computer.typeText(session.id, { text: 'abc' })
    await until('the text', TAKE_MS, async () => (await content('text')) === 'abc')
  } finally {
    await session[Symbol.asyncDispose]()
    session = before
  }
})

test('a headful session accepts the same keys and texts', async () => {
  const headless = session
  session = await openSession(cloud, { timeout_seconds: 300, headless: false })
  try {
    id = session.id
    await open()
    expect((await type(Object.values(TEXTS).join(''))).value).toBe(Object.values(TEXTS).join(''))
    expect(written(await press(['ctrl+a', 'Delete', 'é'], {}, 'text')).map(({ key }) => key)).toEqual(['Control', 'a', 'Delete', 'é'])
    expect(await content('text')).toBe('é')
  } finally {
    await session[Symbol.asyncDispose]()
    ;({ id } = session = headless)
  }
})
