// Maps names of keys to keysyms, X's numbers for the meaning of a key. Pure tables; keyboard.ts finds the key that has a keysym.
import keysyms from 'x11/lib/keysyms.js'
import { fault } from '../../http/fault.ts'

/** Names that people use for keys whose keysym has another name; compared in lower case. */
const ALIASES: Record<string, string> = {
  ctrl: 'Control_L',
  control: 'Control_L',
  controlleft: 'Control_L',
  controlright: 'Control_R',
  shift: 'Shift_L',
  shiftleft: 'Shift_L',
  shiftright: 'Shift_R',
  alt: 'Alt_L',
  altleft: 'Alt_L',
  altright: 'Alt_R',
  option: 'Alt_L',
  meta: 'Super_L',
  super: 'Super_L',
  cmd: 'Super_L',
  command: 'Super_L',
  win: 'Super_L',
  windows: 'Super_L',
  altgr: 'ISO_Level3_Shift',
  altgraph: 'ISO_Level3_Shift',
  enter: 'Return',
  esc: 'Escape',
  spacebar: 'space',
  del: 'Delete',
  ins: 'Insert',
  arrowup: 'Up',
  arrowdown: 'Down',
  arrowleft: 'Left',
  arrowright: 'Right',
  pageup: 'Page_Up',
  pgup: 'Page_Up',
  pagedown: 'Page_Down',
  pgdn: 'Page_Down',
  pgdown: 'Page_Down',
  capslock: 'Caps_Lock',
  numlock: 'Num_Lock',
  scrolllock: 'Scroll_Lock',
  printscreen: 'Print',
  prtsc: 'Print',
  contextmenu: 'Menu',
  apps: 'Menu',
  dash: 'minus',
  hyphen: 'minus',
  dot: 'period',
}

/** Keys of browsers and media players (X11's XF86keysym.h), which the x11 package's table lacks. */
const XF86: Record<string, number> = {
  XF86AudioLowerVolume: 0x1008ff11,
  XF86AudioMute: 0x1008ff12,
  XF86AudioRaiseVolume: 0x1008ff13,
  XF86AudioPlay: 0x1008ff14,
  XF86AudioStop: 0x1008ff15,
  XF86AudioPrev: 0x1008ff16,
  XF86AudioNext: 0x1008ff17,
  XF86HomePage: 0x1008ff18,
  XF86Search: 0x1008ff1b,
  XF86Back: 0x1008ff26,
  XF86Forward: 0x1008ff27,
  XF86Stop: 0x1008ff28,
  XF86Refresh: 0x1008ff29,
  XF86Copy: 0x1008ff57,
  XF86Cut: 0x1008ff58,
  XF86Paste: 0x1008ff6d,
  XF86Reload: 0x1008ff73,
}

const byName = new Map<string, number>(Object.entries(XF86))
for (const [name, { code }] of Object.entries(keysyms)) byName.set(name.slice('XK_'.length), code)

/** Names in lower case, without those whose case changes the meaning (`Eacute`, `eacute`). */
const byLowerName = new Map<string, number | undefined>()
for (const [name, code] of byName) {
  const lower = name.toLowerCase()
  byLowerName.set(lower, byLowerName.has(lower) && byLowerName.get(lower) !== code ? undefined : code)
}

/** Keysyms above Latin-1 are the code point with this bit (X11 protocol, appendix A). */
const UNICODE = 0x0100_0000

export const RETURN = byName.get('Return')!
const TAB = byName.get('Tab')!
export const BACKSPACE = byName.get('BackSpace')!
export const SHIFT = byName.get('Shift_L')!

/** Keys that change what other keys mean (X11's range from Shift_L to Hyper_R), and the third level's. */
const isModifier = (keysym: number): boolean => (keysym >= 0xffe1 && keysym <= 0xffee) || keysym === 0xfe03
const isShift = (keysym: number): boolean => keysym === 0xffe1 || keysym === 0xffe2

/** The keysym of a character; undefined for control characters without a key and for lone surrogates. */
export function keysymOfCharacter(character: string): number | undefined {
  const code = character.codePointAt(0)!
  if (character === '\n' || character === '\r') return RETURN
  if (character === '\t') return TAB
  if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code <= 0xdfff)) return undefined
  return code <= 0xff ? code : UNICODE | code
}

/** The keysym of a named key: its X11 name, an alias, an X11 name in other case, `U20AC`, or a single character. */
export function keysymOf(name: string): number | undefined {
  const lower = name.toLowerCase()
  const known = byName.get(name) ?? byName.get(Object.hasOwn(ALIASES, lower) ? ALIASES[lower]! : '')
  if (known !== undefined) return known
  if (name !== '' && Array.from(name).length === 1) return /[\n\r\t]/.test(name) ? undefined : keysymOfCharacter(name)
  const point = /^u([0-9a-f]{4,6})$/.exec(lower)?.[1]
  if (point && Number.parseInt(point, 16) <= 0x10_ffff) return keysymOfCharacter(String.fromCodePoint(Number.parseInt(point, 16)))
  return byLowerName.get(lower)
}

/**
 * The keysyms of a combination, in the order in which they go down: `ctrl+shift+t`, `ctrl++`, or one key alone. With Ctrl, Alt or Super, a capital letter means
 * the key of that letter, because menus show shortcuts with capitals. @throws 400 naming `field` when a part is not a key
 */
export function combination(text: string, field: string): number[] {
  const parts = text === '+' ? ['plus'] : text.endsWith('++') ? [...text.slice(0, -2).split('+'), 'plus'] : text.split('+')
  const keys = parts.map((part) => {
    const keysym = keysymOf(part)
    if (keysym === undefined)
      throw fault.field(
        field,
        part === ''
          ? `"${text}" has no key behind a "+" (the key itself is "plus")`
          : `there is no key "${part}" (X11 keysym names such as Shift_L, Return, a)`,
      )
    return keysym
  })
  return asCommands(keys, [])
}

/** The same keys, with letters in lower case when Ctrl, Alt or Super is among them or in `held`. */
export function asCommands(keys: readonly number[], held: readonly number[]): number[] {
  const isCommand = [...keys, ...held].some((keysym) => isModifier(keysym) && !isShift(keysym))
  return isCommand ? keys.map(small) : [...keys]
}

/** `A` to `a`, for the letters of ASCII. */
const small = (keysym: number): number => (keysym >= 0x41 && keysym <= 0x5a ? keysym + 0x20 : keysym)

/** Modifiers that make a shortcut: Ctrl, Alt, Meta, Super, Hyper. Shift and AltGr only change the character. */
const isCommandKey = (keysym: number): boolean => (keysym >= 0xffe3 && keysym <= 0xffe4) || (keysym >= 0xffe7 && keysym <= 0xffee)
const isFunctionKey = (keysym: number): boolean => keysym >= 0xffbe && keysym <= 0xffe0
const isBrowserKey = (keysym: number): boolean => keysym >= 0x1008_ff00 && keysym <= 0x1008_ffff
const ESCAPE = 0xff1b

/** Whether the browser itself may act on these keys held together, and not only the focused element. */
export const isShortcut = (keysyms: readonly number[]): boolean =>
  keysyms.some((keysym) => isFunctionKey(keysym) || isBrowserKey(keysym) || keysym === ESCAPE) || (keysyms.some(isCommandKey) && !keysyms.every(isCommandKey))
