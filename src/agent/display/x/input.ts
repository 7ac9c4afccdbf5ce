// The mouse and the keys of an X display.
import type { Input } from '../display.ts'
import type { XConnection } from './x11.ts'

/** X tells only of these buttons whether they are down. */
const REPORTED_BUTTONS = [1, 2, 3, 4, 5]
/** The lowest code of a key. */
const FIRST_KEY = 8

/** The display's input by XTEST: no process is spawned, and programs cannot tell it from input of devices. */
export function openInput({ x, root, xtest, ask }: XConnection): Input {
  return {
    move: (toX, toY) => xtest.FakeInput(xtest.MotionNotify, 0, 0, root, toX, toY),
    key: (code, down) => xtest.FakeInput(down ? xtest.KeyPress : xtest.KeyRelease, code, 0, 0, 0, 0),
    button: (number, down, afterMs = 0) => xtest.FakeInput(down ? xtest.ButtonPress : xtest.ButtonRelease, number, afterMs, 0, 0, 0),
    async pointer() {
      const { rootX, rootY } = await ask<{ rootX: number; rootY: number }>((done) => x.QueryPointer(root, done))
      return [rootX, rootY]
    },
    async held() {
      const bits = await ask<Buffer>((done) => x.QueryKeymap(done))
      const { keyMask } = await ask<{ keyMask: number }>((done) => x.QueryPointer(root, done))
      const codes = Array.from({ length: bits.length * 8 - FIRST_KEY }, (_, at) => FIRST_KEY + at)
      return {
        keys: codes.filter((code) => bits[code >> 3]! & (1 << (code & 7))),
        buttons: REPORTED_BUTTONS.filter((number) => keyMask & (1 << (number + 7))),
      }
    },
  }
}
