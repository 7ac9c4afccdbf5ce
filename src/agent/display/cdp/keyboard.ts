// The keyboard of a browser without a display: a US keyboard that also types characters without a key.
import type { Keyboard } from '../display.ts'
import type { CdpInput } from './input.ts'
import { BY_KEYSYM, CHARACTERS } from './keys.ts'

export const openKeyboard = (input: Pick<CdpInput, 'capsLock'>): Keyboard => ({
  strokes: async (keysyms) => keysyms.map((keysym) => BY_KEYSYM.get(keysym) ?? { code: CHARACTERS + keysym, shift: false }),
  refresh: async () => {},
  spares: Infinity,
  has: (keysym) => BY_KEYSYM.has(keysym),
  capsLock: async () => input.capsLock,
  setCapsLock(on) {
    input.capsLock = on
  },
})
