// Names of keys: what X calls them, what people call them, and single characters.
import keysyms from 'x11/lib/keysyms.js'
import { expect, test } from 'vitest'
import { keysymOf } from './keyboard.ts'

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
])('%s is known by its X11 name', (name, code) => {
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
])('%s means %s', (alias, name) => {
  expect(keysymOf(name)).toBeDefined()
  expect(keysymOf(alias)).toBe(keysymOf(name))
})

test('every X11 name gives its own keysym, also where an alias looks like it', () => {
  for (const [name, { code }] of Object.entries(keysyms)) expect(keysymOf(name.replace(/^XK_/, ''))).toBe(code)
})

test('a single character of Latin-1 is its own code', () => {
  for (let code = 0x20; code <= 0xff; code++) if (code < 0x7f || code > 0x9f) expect(keysymOf(String.fromCharCode(code))).toBe(code)
})

test.each(['', ' a', 'ab', 'NoSuchKey', '\n', '€', '🌽', 'Control_L ', 'constructor', 'toString', '__proto__', 'hasOwnProperty'])('%j is no key', (name) => {
  expect(keysymOf(name)).toBeUndefined()
})
