// The keys of a US keyboard, as pages see them, and characters that it does not have.
import keysyms from 'x11/lib/keysyms.js'

/** A key as CDP's Input.dispatchKeyEvent wants it. */
export interface Key {
  /** `KeyboardEvent.code`; empty for a character without a key. */
  code: string
  /** Windows' number of the key: `KeyboardEvent.keyCode`. */
  keyCode: number
  /** `KeyboardEvent.key`, without Shift and with it. */
  key: readonly [string, string]
  /** The text that it types, without Shift and with it; undefined for keys that type nothing. */
  text?: readonly [string, string]
  /** 1: the left one of two; 2: the right one. */
  location?: 1 | 2
  isKeypad?: boolean
}

/** Bits of `modifiers` (Input.dispatchKeyEvent), by `KeyboardEvent.key`. */
export const MODIFIERS: Readonly<Record<string, number>> = { Alt: 1, Control: 2, Meta: 4, Shift: 8 }
export const SHIFT_BIT = MODIFIERS.Shift!
export const CAPS_LOCK = 'CapsLock'

/** The number of a stroke: the index of its key, or this plus a code point for a character without a key. */
export const CHARACTERS = 0x100_0000

export const KEYS: Key[] = []
/** Each keysym's key, and whether it needs Shift. */
export const BY_KEYSYM = new Map<number, { code: number; shift: boolean }>()

function add(key: Key, plain: readonly number[], shifted?: number): void {
  const code = KEYS.push(key) - 1
  for (const keysym of plain) BY_KEYSYM.set(keysym, { code, shift: false })
  if (shifted !== undefined) BY_KEYSYM.set(shifted, { code, shift: true })
}
/** A key that types a character of Latin-1, whose keysym is its code. */
function addText(code: string, keyCode: number, plain: string, shifted: string): void {
  add({ code, keyCode, key: [plain, shifted], text: [plain, shifted] }, [plain.charCodeAt(0)], shifted.charCodeAt(0))
}
function addNamed(key: string, code: string, keyCode: number, keysyms: readonly number[], more: Partial<Key> = {}): void {
  add({ code, keyCode, key: [key, key], ...more }, keysyms)
}

for (let at = 0; at < 26; at++) {
  const capital = String.fromCharCode(65 + at)
  addText(`Key${capital}`, 65 + at, capital.toLowerCase(), capital)
}
Array.from(')!@#$%^&*(').forEach((shifted, digit) => addText(`Digit${digit}`, 48 + digit, String(digit), shifted))
addText('Minus', 189, '-', '_')
addText('Equal', 187, '=', '+')
addText('BracketLeft', 219, '[', '{')
addText('BracketRight', 221, ']', '}')
addText('Backslash', 220, '\\', '|')
addText('Semicolon', 186, ';', ':')
addText('Quote', 222, "'", '"')
addText('Backquote', 192, '`', '~')
addText('Comma', 188, ',', '<')
addText('Period', 190, '.', '>')
addText('Slash', 191, '/', '?')
add({ code: 'Space', keyCode: 32, key: [' ', ' '], text: [' ', ' '] }, [0x20])

// Keysyms of X11's keysymdef.h.
addNamed('Enter', 'Enter', 13, [0xff0d, 0xff0a], { text: ['\r', '\r'] })
addNamed('Tab', 'Tab', 9, [0xff09, 0xfe20]) // ISO_Left_Tab, too
addNamed('Backspace', 'Backspace', 8, [0xff08])
addNamed('Escape', 'Escape', 27, [0xff1b])
addNamed('Delete', 'Delete', 46, [0xffff])
addNamed('Insert', 'Insert', 45, [0xff63])
addNamed('Home', 'Home', 36, [0xff50])
addNamed('ArrowLeft', 'ArrowLeft', 37, [0xff51])
addNamed('ArrowUp', 'ArrowUp', 38, [0xff52])
addNamed('ArrowRight', 'ArrowRight', 39, [0xff53])
addNamed('ArrowDown', 'ArrowDown', 40, [0xff54])
addNamed('PageUp', 'PageUp', 33, [0xff55])
addNamed('PageDown', 'PageDown', 34, [0xff56])
addNamed('End', 'End', 35, [0xff57])
addNamed('Pause', 'Pause', 19, [0xff13])
addNamed('ScrollLock', 'ScrollLock', 145, [0xff14])
addNamed('PrintScreen', 'PrintScreen', 44, [0xff61])
addNamed('ContextMenu', 'ContextMenu', 93, [0xff67])
addNamed('NumLock', 'NumLock', 144, [0xff7f])
for (let at = 1; at <= 24; at++) addNamed(`F${at}`, `F${at}`, 111 + at, [0xffbd + at])
addNamed('Shift', 'ShiftLeft', 16, [0xffe1], { location: 1 })
addNamed('Shift', 'ShiftRight', 16, [0xffe2], { location: 2 })
addNamed('Control', 'ControlLeft', 17, [0xffe3], { location: 1 })
addNamed('Control', 'ControlRight', 17, [0xffe4], { location: 2 })
addNamed(CAPS_LOCK, CAPS_LOCK, 20, [0xffe5])
addNamed('Alt', 'AltLeft', 18, [0xffe9], { location: 1 })
addNamed('Alt', 'AltRight', 18, [0xffea], { location: 2 })
addNamed('AltGraph', 'AltRight', 225, [0xfe03], { location: 2 })
addNamed('Meta', 'MetaLeft', 91, [0xffeb, 0xffe7, 0xffed], { location: 1 })
addNamed('Meta', 'MetaRight', 92, [0xffec, 0xffe8, 0xffee], { location: 2 })
// The keypad, with Num Lock on.
for (let digit = 0; digit < 10; digit++) {
  const text = String(digit)
  add({ code: `Numpad${digit}`, keyCode: 96 + digit, key: [text, text], text: [text, text], isKeypad: true }, [0xffb0 + digit])
}
const keypad = [
  ['NumpadMultiply', 106, '*', 0xffaa],
  ['NumpadAdd', 107, '+', 0xffab],
  ['NumpadSubtract', 109, '-', 0xffad],
  ['NumpadDecimal', 110, '.', 0xffae],
  ['NumpadDivide', 111, '/', 0xffaf],
] as const
for (const [code, keyCode, text, keysym] of keypad) add({ code, keyCode, key: [text, text], text: [text, text], isKeypad: true }, [keysym])
addNamed('Enter', 'NumpadEnter', 13, [0xff8d], { text: ['\r', '\r'], isKeypad: true })
// Keys of browsers and media players (XF86keysym.h).
addNamed('AudioVolumeDown', 'AudioVolumeDown', 174, [0x1008ff11])
addNamed('AudioVolumeMute', 'AudioVolumeMute', 173, [0x1008ff12])
addNamed('AudioVolumeUp', 'AudioVolumeUp', 175, [0x1008ff13])
addNamed('MediaPlayPause', 'MediaPlayPause', 179, [0x1008ff14])
addNamed('MediaStop', 'MediaStop', 178, [0x1008ff15])
addNamed('MediaTrackPrevious', 'MediaTrackPrevious', 177, [0x1008ff16])
addNamed('MediaTrackNext', 'MediaTrackNext', 176, [0x1008ff17])
addNamed('BrowserHome', 'BrowserHome', 172, [0x1008ff18])
addNamed('BrowserSearch', 'BrowserSearch', 170, [0x1008ff1b])
addNamed('BrowserBack', 'BrowserBack', 166, [0x1008ff26])
addNamed('BrowserForward', 'BrowserForward', 167, [0x1008ff27])
addNamed('BrowserStop', 'BrowserStop', 169, [0x1008ff28])
addNamed('BrowserRefresh', 'BrowserRefresh', 168, [0x1008ff29, 0x1008ff73])
addNamed('Copy', 'Copy', 0, [0x1008ff57])
addNamed('Cut', 'Cut', 0, [0x1008ff58])
addNamed('Paste', 'Paste', 0, [0x1008ff6d])

/** Keysyms above Latin-1 are the code point with this bit (X11 protocol, appendix A). */
const UNICODE = 0x0100_0000

/** Characters of older keysyms, such as EuroSign: the table describes them as `(€) EURO SIGN`. */
const OLDER = new Map(
  Object.values(keysyms).flatMap(({ code, description }) => {
    const character = /^\((.)\) /u.exec(description ?? '')?.[1]
    return character === undefined ? [] : [[code, character] as const]
  }),
)

/** The character of a keysym that has no key here; undefined when it types nothing. */
function characterOf(keysym: number): string | undefined {
  const point = keysym >= UNICODE ? keysym - UNICODE : keysym
  if ((keysym >= UNICODE && point <= 0x10_ffff) || (keysym >= 0xa0 && keysym <= 0xff)) return String.fromCodePoint(point)
  return OLDER.get(keysym)
}

/** The key of a stroke's number. */
export function keyOf(code: number): Key {
  if (code < CHARACTERS) return KEYS[code]!
  const text = characterOf(code - CHARACTERS)
  // A named key that no US keyboard has, such as a dead key: pages see that it has no name.
  return text === undefined ? { code: '', keyCode: 0, key: ['Unidentified', 'Unidentified'] } : { code: '', keyCode: 0, key: [text, text], text: [text, text] }
}
