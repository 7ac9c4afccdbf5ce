// Keyboard actions: keys pressed by name, and text.
import { sleep, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { PressKey, TypeText } from './contract.ts'
import type { HeldInput } from './held-input.ts'
import type { Planned } from './input-queue.ts'
import type { Keyboard } from '../display/display.ts'
import { asCommands, BACKSPACE, combination, isShortcut, keysymOfCharacter, SHIFT } from './names.ts'
import { fitTogether, heldAtMost, heldKeys, holdAsPerson, type PointerTools } from './pointer.ts'
import { evenTyping, humanTyping, type Keypress } from './typing.ts'

/** After this many keys, wait until the program in front has handled them, and check whether the caller is still there. */
const KEYS_AT_ONCE = 100

/** {@link KeyTools.settled} ends by itself within 5 s. */
const SETTLED_MS = 15_000

/** The tools that keyboard actions need. */
export interface KeyTools {
  keyboard: Keyboard
  /** Resolves when the program in front has handled what was sent to it. */
  caughtUp: () => Promise<void>
  /**
   * Like {@link KeyTools.caughtUp}, and also waits until the browser has done a shortcut that the page left to it. Resolves also when the program does
   * not answer, because people press shortcuts to close a program that hangs.
   */
  settled: () => Promise<void>
  random: () => number
  asPerson?: PointerTools['asPerson']
}

/** A plan for each keyboard action. `at` is the prefix of field names in errors. */
export function keyPlans(tools: KeyTools) {
  const { keyboard, caughtUp, settled, random } = tools
  function press(wanted: PressKey, at = ''): Planned {
    const modifiers = heldKeys(wanted.hold_keys, keyboard, at)
    const named = wanted.keys.map((key, index) => combination(key, `${at}keys.${index}`))
    const chords = (wanted.duration > 0 ? [named.flat()] : named).map((chord) => asCommands(chord, modifiers))
    for (const chord of chords) fitTogether([...modifiers, ...chord], keyboard, `${at}keys`)
    return {
      ms: wanted.duration || heldAtMost(tools, chords.length),
      async run(held, signal) {
        const release = await held.hold(modifiers)
        for (const chord of chords) {
          signal.throwIfAborted()
          const up = await held.hold(chord)
          if (wanted.duration > 0) await sleep(wanted.duration, signal)
          else await holdAsPerson(tools, signal)
          up()
          // A shortcut may move the focus to another part of the browser or to another window. The next keys must go there.
          if (isShortcut([...modifiers, ...chord])) await within('the browser to do a shortcut', SETTLED_MS, settled(), signal)
        }
        release()
      },
    }
  }

  function type(wanted: TypeText, at = ''): Planned {
    const characters = Array.from(wanted.text.replaceAll('\r\n', '\n'))
    characters.forEach((character, index) => {
      const keysym = keysymOfCharacter(character)
      if (keysym === undefined || (keyboard.spares === 0 && !keyboard.has(keysym)))
        throw fault.field(`${at}text`, `character ${index} (${pointOf(character)}) has no key`)
    })
    if (wanted.smooth === false && wanted.typo_chance > 0) throw fault.field(`${at}typo_chance`, 'mistakes are part of smooth typing, which is off')
    const smooth = wanted.smooth ?? wanted.typo_chance > 0
    const keys = smooth ? humanTyping(characters, wanted.delay, wanted.typo_chance, random) : evenTyping(characters, wanted.delay ?? 0)
    return {
      ms: keys.reduce((sum, { waitMs }) => sum + waitMs, keys.at(-1)?.holdMs ?? 0),
      run: (held, signal) => typeKeys(held, keys, signal),
    }
  }

  /** Types with Caps Lock off, and restores it. With it on, characters typed with spare keys would become capitals. */
  async function typeKeys(held: HeldInput, keys: readonly Keypress[], signal: AbortSignal): Promise<void> {
    const capsLock = await keyboard.capsLock()
    if (capsLock) keyboard.setCapsLock(false)
    try {
      await tapAll(held, keys, signal)
    } finally {
      if (capsLock) keyboard.setCapsLock(true)
    }
  }

  async function tapAll(held: HeldInput, keys: readonly Keypress[], signal: AbortSignal): Promise<void> {
    let due = performance.now()
    for (let from = 0; from < keys.length;) {
      await keyboard.refresh()
      const group = nextGroup(keys, from)
      const strokes = await keyboard.strokes([SHIFT, ...group.map(keysymOf)])
      for (const [index, { waitMs, holdMs }] of group.entries()) {
        due += waitMs
        const ahead = due - performance.now()
        // A timer drops fractions of a millisecond: keys would come early.
        if (ahead > 0.5) await sleep(Math.ceil(ahead), signal)
        signal.throwIfAborted()
        await held.tap(strokes[index + 1]!, strokes[0]!.code, holdMs, signal)
      }
      await caughtUp()
      from += group.length
    }
  }

  /** The keys that are sent together: at most {@link KEYS_AT_ONCE}, and no more different characters without a key than there are spare keys. */
  function nextGroup(keys: readonly Keypress[], from: number): Keypress[] {
    const lent = new Set<number>()
    let end = from
    for (; end < keys.length && end - from < KEYS_AT_ONCE; end++) {
      const keysym = keysymOf(keys[end]!)
      if (keyboard.has(keysym)) continue
      if (!lent.has(keysym) && lent.size === keyboard.spares) break
      lent.add(keysym)
    }
    return keys.slice(from, end)
  }

  return { press, type }
}

const keysymOf = ({ character }: Keypress): number => (character === undefined ? BACKSPACE : keysymOfCharacter(character)!)

/** `U+0007`. */
const pointOf = (character: string): string => `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`
