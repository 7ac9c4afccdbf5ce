// Records which keys and buttons a turn has pressed, so that all of them are released at its end.
import { sleep } from '../../base/wait.ts'
import type { Input, Keyboard, Stroke } from '../display/display.ts'
import { SHIFT } from './names.ts'

/** The keys and buttons that one turn holds. */
export class HeldInput {
  readonly input: Input
  readonly #keyboard: Pick<Keyboard, 'strokes'>
  #keys: number[] = []
  #buttons: number[] = []

  constructor(input: Input, keyboard: Pick<Keyboard, 'strokes'>) {
    this.input = input
    this.#keyboard = keyboard
  }

  /** Resolves when the display has processed all input so far. */
  async settle(): Promise<void> {
    await this.input.pointer()
  }

  keyDown(code: number): void {
    this.input.key(code, true)
    this.#keys.push(code)
  }

  keyUp(code: number): void {
    this.input.key(code, false)
    this.#keys = this.#keys.filter((held) => held !== code)
  }

  buttonDown(number: number, afterMs = 0): void {
    this.input.button(number, true, afterMs)
    this.#buttons.push(number)
  }

  buttonUp(number: number, afterMs = 0): void {
    this.input.button(number, false, afterMs)
    this.#buttons = this.#buttons.filter((held) => held !== number)
  }

  /** Presses and releases a key, with Shift where the stroke needs it. */
  async tap({ code, shift }: Stroke, shiftCode: number, holdMs: number, signal: AbortSignal): Promise<void> {
    const pressShift = shift && !this.#keys.includes(shiftCode)
    if (pressShift) this.keyDown(shiftCode)
    this.keyDown(code)
    if (holdMs > 0) await sleep(holdMs, signal)
    this.keyUp(code)
    if (pressShift) this.keyUp(shiftCode)
  }

  /** Presses keys together, in order, with Shift where one needs it. Resolves with a function that releases them in reverse order. */
  async hold(keysyms: readonly number[]): Promise<() => void> {
    if (keysyms.length === 0) return () => {}
    const [shift, ...strokes] = await this.#keyboard.strokes([SHIFT, ...keysyms], this.#keys)
    const pressed: number[] = []
    const press = (code: number) => {
      if (this.#keys.includes(code)) return
      this.keyDown(code)
      pressed.push(code)
    }
    for (const stroke of strokes) {
      if (stroke.shift) press(shift!.code)
      press(stroke.code)
    }
    return () => pressed.toReversed().forEach((code) => this.keyUp(code))
  }

  /** Releases everything, at the end of a turn that failed or was cancelled. A key that cannot be released does not keep the others down. */
  async letGo(): Promise<void> {
    const failures: unknown[] = []
    const attempt = (release: () => void) => {
      try {
        release()
      } catch (error) {
        failures.push(error)
      }
    }
    for (const number of this.#buttons.toReversed()) attempt(() => this.buttonUp(number))
    for (const code of this.#keys.toReversed()) attempt(() => this.keyUp(code))
    await this.settle()
    if (failures.length > 0) throw new AggregateError(failures, 'keys or buttons could not be let go')
  }
}
