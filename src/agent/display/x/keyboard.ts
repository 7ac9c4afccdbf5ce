// The keys of this display: which key types which character, and spare keys that are mapped to characters without a key.
import type { Keyboard, Stroke } from '../display.ts'
import { openAnnouncer } from './keymap.ts'
import { WaitTimeout } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { XConnection } from './x11.ts'

/** LockMask of the X protocol, in the state that QueryPointer returns. */
const LOCK_MASK = 2

/** The 105th key, beside the left Shift. A US keyboard does not have it, and its `<` and `>` are on Shift with comma and period. */
const ISO_KEY = 94
/** Keypad digits need Shift unless Num Lock is on, and a page would see that Shift. So they use spare keys, like other characters. */
const isKeypad = (keysym: number): boolean => keysym >= 0xff80 && keysym <= 0xffbd
const isModifier = (keysym: number): boolean => keysym >= 0xffe1 && keysym <= 0xffee
/** Names of the Super key that the map has only on another key with Shift. */
const SUPERS = { super: 0xffeb, others: [0xffe7, 0xffe8, 0xffed, 0xffee] } // Super_L; Meta_L, Meta_R, Hyper_L, Hyper_R

/**
 * Keys that the map leaves empty and whose position Chromium does not know either, so their `event.code` is empty: above the keys of common
 * keyboards, without F13 to F24 (evdev's codes + 8).
 */
const isSpare = (code: number): boolean => code >= 180 && (code < 191 || code > 202)

/** Which keysyms a key has: a pair for each of the two halves (groups) of a map that has two layouts. */
const PAIR = 2
/** The group in use, in the state that QueryPointer returns. The core protocol knows two. */
const groupOf = (keyMask: number): number => Math.min((keyMask >> 13) & 3, 1)

/** XKB's events, by their `xkbType`: another keyboard or layout, and changed keys. The server sends them before its answer to any later request. */
const NEW_KEYBOARD = 0
const MAP_CHANGED = 1
const EVENTS = (1 << NEW_KEYBOARD) | (1 << MAP_CHANGED)
const EVERY_PART = 0xff

/**
 * Reads the display's key map, and again whenever it was changed: programs of the session may set another layout. `caughtUp` resolves when the program in
 * front has handled every key so far: if a spare key got a new keysym before that, the program would read the earlier press with the new meaning.
 */
export async function openKeyboard(connection: XConnection, caughtUp: () => Promise<void>): Promise<Keyboard> {
  const { x, ask, minKeycode, maxKeycode, root, xkb } = connection
  const announce = await openAnnouncer(connection)
  const fixed = new Map<number, Stroke>()
  let free: number[] = []
  /** Spare keys in use, by keysym; the least recently used first. */
  const lent = new Map<number, Stroke>()
  let group = 0
  /** The last map without what is lent, as text. */
  let known = ''
  let isStale = true
  // Only a note: a program may change the map all the time.
  x.on('event', ({ name, xkbType }: { name: string; xkbType: number }) => {
    if (name === 'XkbEvent' && (xkbType === NEW_KEYBOARD || xkbType === MAP_CHANGED)) isStale = true
  })
  xkb.SelectEvents(xkb.UseCoreKbd, EVENTS, 0, EVENTS, EVERY_PART, EVERY_PART)

  /** Takes over a map. Resolves with whether others have changed it. */
  function takeOver(map: number[][]): boolean {
    const ours = new Map([...lent].map(([keysym, { code }]) => [code, keysym]))
    const rows = map.map((symbols, index) => {
      const keysym = ours.get(minKeycode + index)
      const isOurs = keysym !== undefined && symbols[0] === keysym
      if (keysym !== undefined && !isOurs) lent.delete(keysym)
      return isOurs || symbols.every((symbol) => symbol === 0) ? [] : symbols
    })
    const text = `${group} ${JSON.stringify(rows)}`
    if (text === known) return false
    known = text
    fixed.clear()
    // A person would use the first key that has the keysym without Shift; otherwise any key that has it with Shift.
    for (const level of [0, 1])
      rows.forEach((symbols, index) => {
        // A key without symbols in its second group has those of the first.
        const other = symbols.slice(group * PAIR, (group + 1) * PAIR)
        const symbol = (other.some((each) => each !== 0) ? other : symbols)[level]
        if (!symbol || fixed.has(symbol) || minKeycode + index === ISO_KEY) return
        if (level === 0 || !(isKeypad(symbol) || isModifier(symbol))) fixed.set(symbol, { code: minKeycode + index, shift: level === 1 })
      })
    const superKey = fixed.get(SUPERS.super)
    for (const other of SUPERS.others) if (superKey && !fixed.has(other)) fixed.set(other, superKey)
    const taken = new Set([...lent.values()].map(({ code }) => code))
    free = rows
      .flatMap((symbols, index) => (isSpare(minKeycode + index) && symbols.length === 0 ? [minKeycode + index] : []))
      .filter((code) => !taken.has(code))
      .toReversed()
    return true
  }

  async function refresh(): Promise<void> {
    // All events so far come before this answer.
    const { keyMask } = await ask<{ keyMask: number }>((done) => x.QueryPointer(root, done))
    if (!isStale && groupOf(keyMask) === group) return
    isStale = false
    group = groupOf(keyMask)
    const isFirst = known === ''
    if (!takeOver(await ask<number[][]>((done) => x.GetKeyboardMapping(minKeycode, maxKeycode - minKeycode + 1, done))) || isFirst) return
    await readAnew()
  }

  /** Makes the program in front read the map, and waits until it has. Chromium does it in two steps, a request and its answer. */
  async function readAnew(): Promise<void> {
    announce()
    await readByProgram()
    await readByProgram()
  }

  const readByProgram = async (): Promise<void> => {
    try {
      await caughtUp()
    } catch (error) {
      throw error instanceof WaitTimeout
        ? fault.unavailable('the program in front does not answer, so it cannot get characters that have no key', error)
        : error
    }
  }

  async function lend(missing: readonly number[], held: readonly number[]): Promise<void> {
    const spares = free.length + lent.size
    if (missing.length > spares) throw new Error(`${missing.length} characters for ${spares} spare keys`)
    if (free.length < missing.length) await readByProgram()
    for (const keysym of missing) {
      let code = free.pop()
      if (code === undefined) {
        // A key that is down must keep its keysym until it is released.
        const [oldest, stroke] = [...lent].find(([, { code: taken }]) => !held.includes(taken))!
        lent.delete(oldest)
        code = stroke.code
      }
      // The same keysym on both levels; otherwise the server would pair a letter's lower and upper case.
      x.ChangeKeyboardMapping(code, 2, [keysym, keysym])
      lent.set(keysym, { code, shift: false })
    }
    // Keys sent before the program has the map would have no `key`.
    await readAnew()
  }

  await refresh()
  return {
    get spares() {
      return free.length + lent.size
    },
    refresh,
    has: (keysym) => fixed.has(keysym),
    async strokes(keysyms, held = []) {
      await refresh()
      const missing = new Set<number>()
      for (const keysym of keysyms) {
        const stroke = lent.get(keysym)
        if (stroke) {
          // Move it to the end: most recently used.
          lent.delete(keysym)
          lent.set(keysym, stroke)
        } else if (!fixed.has(keysym)) missing.add(keysym)
      }
      if (missing.size > 0) await lend([...missing], held)
      return keysyms.map((keysym) => fixed.get(keysym) ?? lent.get(keysym)!)
    },
    async capsLock() {
      const { keyMask } = await ask<{ keyMask: number }>((done) => x.QueryPointer(root, done))
      return (keyMask & LOCK_MASK) !== 0
    },
    setCapsLock: (on) => xkb.LatchLockState(xkb.UseCoreKbd, xkb.ModMask.Lock, on ? xkb.ModMask.Lock : 0, false, 0, 0, 0, false, 0),
  }
}
