// Names of keys to keycodes of this display, and keys that are held down.
import keysyms from 'x11/lib/keysyms.js'
import { fault } from '../../http/fault.ts'
import type { XConnection } from '../display/x11.ts'

/** Names people use for keys whose keysym is called otherwise; compared in lower case. */
const ALIASES: Record<string, string> = {
  ctrl: 'Control_L',
  control: 'Control_L',
  shift: 'Shift_L',
  alt: 'Alt_L',
  option: 'Alt_L',
  meta: 'Super_L',
  super: 'Super_L',
  cmd: 'Super_L',
  command: 'Super_L',
  win: 'Super_L',
  altgr: 'ISO_Level3_Shift',
  enter: 'Return',
  return: 'Return',
  esc: 'Escape',
  escape: 'Escape',
  backspace: 'BackSpace',
  tab: 'Tab',
  space: 'space',
  del: 'Delete',
  delete: 'Delete',
  ins: 'Insert',
  insert: 'Insert',
  up: 'Up',
  down: 'Down',
  left: 'Left',
  right: 'Right',
  arrowup: 'Up',
  arrowdown: 'Down',
  arrowleft: 'Left',
  arrowright: 'Right',
  home: 'Home',
  end: 'End',
  pageup: 'Page_Up',
  pagedown: 'Page_Down',
  capslock: 'Caps_Lock',
}

export interface Keyboard {
  /** Keycodes of named keys. @throws 400 naming the field of the first key that this keyboard does not have. */
  codes(names: readonly string[], field: string): number[]
  /** Presses keys in order and sends no release; whoever holds them releases them. */
  press(codes: readonly number[]): void
  /** Releases keys, the last pressed first. */
  release(codes: readonly number[]): void
}

/** The number of a keysym: by its X11 name, an alias, or as a single Latin-1 character. */
export function keysymOf(name: string): number | undefined {
  const known =
    (keysyms as Record<string, { code: number }>)[`XK_${name}`] ?? (keysyms as Record<string, { code: number }>)[`XK_${ALIASES[name.toLowerCase()] ?? ''}`]
  if (known) return known.code
  const code = name.codePointAt(0)!
  return name.length === 1 && code >= 0x20 && code <= 0xff ? code : undefined
}

/** Reads the display's key map and works its keys through XTEST. */
export async function openKeyboard({ x, ask, xtest, minKeycode, maxKeycode }: XConnection): Promise<Keyboard> {
  const map = await ask<number[][]>((done) => x.GetKeyboardMapping(minKeycode, maxKeycode - minKeycode + 1, done))
  const byKeysym = new Map<number, number>()
  // The first key that has the keysym unshifted is the one a person would hold; else any that has it.
  for (const level of [0, 1])
    map.forEach((symbols, index) => {
      const symbol = symbols[level]
      if (symbol && !byKeysym.has(symbol)) byKeysym.set(symbol, minKeycode + index)
    })
  const fake = (type: number, code: number) => xtest.FakeInput(type, code, 0, 0, 0, 0)
  return {
    codes: (names, field) =>
      names.map((name, index) => {
        const keysym = keysymOf(name)
        const code = keysym === undefined ? undefined : byKeysym.get(keysym)
        if (code === undefined) throw fault.field(`${field}.${index}`, `there is no key "${name}" (X11 keysym names such as Shift_L, Return, a)`)
        return code
      }),
    press: (codes) => codes.forEach((code) => fake(xtest.KeyPress, code)),
    release: (codes) => codes.toReversed().forEach((code) => fake(xtest.KeyRelease, code)),
  }
}
