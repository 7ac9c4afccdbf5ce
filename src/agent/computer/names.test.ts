// Names of keys: X's names, other common names, single characters, and combinations.
import fc from 'fast-check'
import keysyms from 'x11/lib/keysyms.js'
import { describe, expect, test } from 'vitest'
import { Fault } from '../../http/fault.ts'
import { combination, isShortcut, keysymOf, keysymOfCharacter } from './names.ts'

test.each([
  ['Return', 0xff0d],
  ['Escape', 0xff1b],
  ['Shift_L', 0xffe1],
  ['Control_R', 0xffe4],
  ['F12', 0xffc9],
  ['Page_Up', 0xff55],
  ['KP_Enter', 0xff8d],
  ['space', 0x20],
  ['plus', 0x2b],
  ['ISO_Level3_Shift', 0xfe03],
])('the X11 name %s is a key', (name, code) => {
  expect(keysymOf(name)).toBe(code)
})

test.each([
  ['ctrl', 'Control_L'],
  ['Ctrl', 'Control_L'],
  ['CONTROL', 'Control_L'],
  ['Shift', 'Shift_L'],
  ['alt', 'Alt_L'],
  ['Option', 'Alt_L'],
  ['cmd', 'Super_L'],
  ['Meta', 'Super_L'],
  ['AltGr', 'ISO_Level3_Shift'],
  ['Enter', 'Return'],
  ['Esc', 'Escape'],
  ['Backspace', 'BackSpace'],
  ['Del', 'Delete'],
  ['ArrowLeft', 'Left'],
  ['PageDown', 'Page_Down'],
  ['CapsLock', 'Caps_Lock'],
  // The names of KeyboardEvent.
  ['Control', 'Control_L'],
  ['ControlRight', 'Control_R'],
  ['ShiftRight', 'Shift_R'],
  ['AltRight', 'Alt_R'],
  ['AltGraph', 'ISO_Level3_Shift'],
  ['ArrowUp', 'Up'],
  ['ArrowDown', 'Down'],
  ['ArrowRight', 'Right'],
  ['PageUp', 'Page_Up'],
  ['Insert', 'Insert'],
  ['Delete', 'Delete'],
  ['Home', 'Home'],
  ['NumLock', 'Num_Lock'],
  ['ScrollLock', 'Scroll_Lock'],
  ['PrintScreen', 'Print'],
  ['ContextMenu', 'Menu'],
  ['F1', 'F1'],
  ['Tab', 'Tab'],
])('%s means %s', (alias, name) => {
  expect(keysymOf(name)).toBeDefined()
  expect(keysymOf(alias)).toBe(keysymOf(name))
})

test('every X11 name gives its own keysym, also if an alias looks like it', () => {
  for (const [name, { code }] of Object.entries(keysyms)) expect(keysymOf(name.replace(/^XK_/, ''))).toBe(code)
})

test('a single Latin-1 character is its own code', () => {
  for (let code = 0x20; code <= 0xff; code++) if (code < 0x7f || code > 0x9f) expect(keysymOf(String.fromCharCode(code))).toBe(code)
})

test.each(['', ' a', 'ab', 'NoSuchKey', '\n', 'Control_L ', 'constructor', 'toString', '__proto__', 'hasOwnProperty'])('%j is not a key', (name) => {
  expect(keysymOf(name)).toBeUndefined()
})

/** Names that differ only in case and mean different keys. */
const cases = Map.groupBy(
  Object.entries(keysyms).flatMap(([name, { code }]) => (name.startsWith('XK_') ? [{ name: name.slice('XK_'.length), code }] : [])),
  ({ name }) => name.toLowerCase(),
)

describe('an X11 name in another case', () => {
  test('is accepted if it matches only one key', () => {
    for (const [lower, keys] of cases)
      if (lower.length > 1 && new Set(keys.map(({ code }) => code)).size === 1) expect(keysymOf(lower), lower).toBe(keys[0]!.code)
    expect(keysymOf('PAGE_DOWN')).toBe(keysymOf('Page_Down'))
    expect(keysymOf('bAcKsPaCe')).toBe(keysymOf('BackSpace'))
  })

  test('is refused if it matches several keys', () => {
    expect(keysymOf('Eacute')).toBe(0xc9)
    expect(keysymOf('eacute')).toBe(0xe9)
    expect(keysymOf('EACUTE')).toBeUndefined()
    for (const [lower, keys] of cases)
      if (lower.length > 1 && new Set(keys.map(({ code }) => code)).size > 1 && !keys.some(({ name }) => name === lower.toUpperCase()))
        expect(keysymOf(lower.toUpperCase()), lower).toBeUndefined()
  })
})

test.each([
  ['XF86Back', 0x1008ff26],
  ['xf86back', 0x1008ff26],
  ['XF86AudioPlay', 0x1008ff14],
  ['XF86Reload', 0x1008ff73],
  ['U20AC', 0x0100_20ac],
  ['u20ac', 0x0100_20ac],
  ['U1F33D', 0x0101_f33d],
  ['U10FFFF', 0x0110_ffff],
  ['U00E9', 0xe9],
  ['U0041', 0x41],
  ['🌽', 0x0101_f33d],
  ['€', 0x0100_20ac],
  ['ж', 0x0100_0436],
  ['U', 0x55],
])('the name %s is a key', (name, keysym) => {
  expect(keysymOf(name)).toBe(keysym)
})

test.each(['U110000', 'UD800', 'UDFFF', 'U0007', 'U007F', 'U0085', 'U12', 'U1234567', 'U20AG', 'XF86NoSuch', '\ud800', '\u007f', '\u0085', '👩‍👧', 'é\u0301'])(
  '%j is not a key',
  (name) => {
    expect(keysymOf(name)).toBeUndefined()
  },
)

test('every character except control characters has a key, and only line breaks share one', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }), fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }), (one, other) => {
      const [a, b] = [keysymOfCharacter(one), keysymOfCharacter(other)]
      expect(a === undefined).toBe(/^\p{Cc}$/u.test(one) && !/[\n\r\t]/.test(one))
      if (one !== other && !/[\r\n]/.test(one + other) && a !== undefined) expect(a).not.toBe(b)
    }),
    { numRuns: 2_000 },
  )
})

const keys = (text: string) => combination(text, 'keys.0').map((keysym) => keysym.toString(16))
const [CONTROL, SHIFT, ALT, SUPER, LEVEL3] = ['ffe3', 'ffe1', 'ffe9', 'ffeb', 'fe03']

describe('a combination', () => {
  test.each([
    ['ctrl+shift+t', [CONTROL, SHIFT, '74']],
    ['shift+ctrl+t', [SHIFT, CONTROL, '74']],
    ['Control_L+Alt_L+Delete', [CONTROL, ALT, 'ffff']],
    ['cmd+ArrowLeft', [SUPER, 'ff51']],
    ['ctrl+PageDown', [CONTROL, 'ff56']],
    ['AltGraph+e', [LEVEL3, '65']],
    ['alt+XF86Back', [ALT, '1008ff26']],
    ['ctrl+U20AC', [CONTROL, '10020ac']],
    ['ctrl+a+b', [CONTROL, '61', '62']],
    ['a', ['61']],
    [' ', ['20']],
    ['ctrl+ ', [CONTROL, '20']],
    ['-', ['2d']],
  ])('%j is a list of keys in the order in which they are pressed', (text, expected) => {
    expect(keys(text)).toEqual(expected)
  })

  test.each([
    ['+', ['2b']],
    ['plus', ['2b']],
    ['ctrl++', [CONTROL, '2b']],
    ['ctrl+plus', [CONTROL, '2b']],
    ['ctrl+shift++', [CONTROL, SHIFT, '2b']],
    ['ctrl+plus+a', [CONTROL, '2b', '61']],
    ['KP_Add', ['ffab']],
  ])('%j contains the plus key', (text, expected) => {
    expect(keys(text)).toEqual(expected)
  })

  test.each([
    ['Ctrl+A', 'ctrl+a'],
    ['CTRL+SHIFT+T', 'ctrl+shift+t'],
    ['Alt+F', 'alt+f'],
    ['Cmd+Q', 'cmd+q'],
  ])('%s equals %s: with Ctrl, Alt or Super a capital letter means the key of that letter, as in menus', (large, small) => {
    expect(keys(large)).toEqual(keys(small))
  })

  test.each([
    ['A', ['41']],
    ['shift+A', [SHIFT, '41']],
    ['ctrl+%', [CONTROL, '25']],
    ['ctrl+É', [CONTROL, 'c9']],
  ])('%s types exactly the character that it ends with', (text, expected) => {
    expect(keys(text)).toEqual(expected)
  })

  test.each([
    ['ctrl+', 'no key behind a "+"'],
    ['+a', 'no key behind a "+"'],
    ['++', 'no key behind a "+"'],
    ['ctrl++a', 'no key behind a "+"'],
    ['ctrl+++', 'no key behind a "+"'],
    ['NoSuchKey', 'no key "NoSuchKey"'],
    ['ctrl+NoSuchKey', 'no key "NoSuchKey"'],
    ['ctrl +a', 'no key "ctrl "'],
    ['ctrl-a', 'no key "ctrl-a"'],
    ['ab', 'no key "ab"'],
    ['EACUTE', 'no key "EACUTE"'],
    ['toString+a', 'no key "toString"'],
  ])('%j is refused, and the error names the field and the invalid part', (text, words) => {
    const refusal = (): unknown => {
      try {
        return combination(text, 'keys.7')
      } catch (error) {
        return error
      }
    }
    const error = refusal()
    expect(error).toBeInstanceOf(Fault)
    expect((error as Fault).status).toBe(400)
    expect((error as Fault).message).toMatch(/^keys\.7: /)
    expect((error as Fault).message).toContain(words)
  })

  test('of any text is a list of keys or a refusal, and never another error', () => {
    const part = fc.oneof(fc.constantFrom('ctrl', 'shift', 'a', '', 'plus', 'Return', 'U20AC', '__proto__'), fc.string({ unit: 'binary', maxLength: 5 }))
    fc.assert(
      fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
        try {
          const found = combination(parts.join('+'), 'keys.0')
          expect(found.length).toBeGreaterThan(0)
          expect(found.every((keysym) => Number.isInteger(keysym) && keysym > 0)).toBe(true)
        } catch (error) {
          expect(error).toBeInstanceOf(Fault)
        }
      }),
      { numRuns: 1_000 },
    )
  })
})

test('keys that the browser may handle itself are shortcuts; keys that type or move are not', () => {
  const is = (name: string) => isShortcut(combination(name, 'keys'))
  expect(['ctrl+l', 'alt+Left', 'cmd+a', 'ctrl+shift+t', 'F6', 'F11', 'Escape', 'XF86Back', 'shift+F10', 'alt+F4'].filter((name) => !is(name))).toEqual([])
  expect(['a', 'A', 'shift+a', 'Return', 'Tab', 'Down', 'shift+Left', 'ctrl', 'ctrl+alt', 'é', 'altgr+q', 'Page_Down', 'Delete', 'space'].filter(is)).toEqual(
    [],
  )
})
