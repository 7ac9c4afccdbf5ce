// A viewer's mouse and keyboard. A person's input takes turns with callers' actions, and a viewer who leaves leaves nothing pressed.
import type { Log } from '../../base/log.ts'
import { HeldInput } from '../computer/held-input.ts'
import type { Computer } from '../computer/handlers.ts'
import type { InputQueue } from '../computer/input-queue.ts'
import { asCommands, SHIFT } from '../computer/names.ts'

/** One turn lasts from the first press until everything is released, but at most this long, so that a held key does not block other callers. */
const GESTURE_MS = 5_000
/** After this long in the queue a viewer is told that it is waiting. */
const PATIENCE_MS = 300
/** After this long without input while something is held, check whether the viewer is still connected. */
const SILENCE_MS = 3_000
/** Most input events that may wait. When there are more, drop all of them: the user has moved on. */
const MAX_WAITING = 500

const isShift = (keysym: number): boolean => keysym === 0xffe1 || keysym === 0xffe2
const isModifier = (keysym: number): boolean => keysym >= 0xffe1 && keysym <= 0xffee
/** Locks and the keys of a third level (AltGr): the viewer's characters already include their effect. */
const isUnneeded = (keysym: number): boolean => [0xff7e, 0xff7f, 0xffe5, 0xffe6].includes(keysym) || (keysym >= 0xfe01 && keysym <= 0xfe0f)
/** Keys that type a character. Not the space bar, because Shift with it has a meaning of its own. */
const isCharacter = (keysym: number): boolean => keysym !== 0x20 && (keysym < 0xfe00 || keysym >= 0x0100_0000)

type Act = { kind: 'pointer'; x: number; y: number; buttons: number } | { kind: 'key'; keysym: number; down: boolean } | { kind: 'text'; text: string }

export interface ViewerInputSettings {
  desk: Computer
  inputQueue: InputQueue
  /** Called when a viewer begins and stops waiting for another caller's action. */
  onWaiting: (waiting: boolean) => void
  /** Whether the viewer is still connected; called while it holds something. */
  isThere: () => Promise<boolean>
  log: Log
}

export class ViewerInput {
  readonly #settings: ViewerInputSettings
  readonly #held: HeldInput
  readonly #left = new AbortController()
  #waiting: Act[] = []
  #pumping = false
  /** Called when there is something to do. */
  #wake: () => void = () => {}
  /** Keycodes that are down, by keysym. */
  readonly #keys = new Map<number, number>()
  #buttons = 0
  #lastAct = 0
  #watch: NodeJS.Timeout | undefined

  constructor(settings: ViewerInputSettings) {
    this.#settings = settings
    this.#held = new HeldInput(settings.desk.input, settings.desk.keyboard)
  }

  pointer(x: number, y: number, buttons: number): void {
    const last = this.#waiting.at(-1)
    // Of several waiting pointer moves only the last one matters.
    if (
      last?.kind === 'pointer' &&
      last.buttons === buttons &&
      this.#waiting.length > 1 &&
      this.#waiting.at(-2)?.kind === 'pointer' &&
      sameButtons(this.#waiting.at(-2), buttons)
    )
      Object.assign(last, { x, y })
    else this.#add({ kind: 'pointer', x, y, buttons })
  }

  key(keysym: number, down: boolean): void {
    if (!isUnneeded(keysym)) this.#add({ kind: 'key', keysym, down })
  }

  /** Puts a text into the clipboard; later keys find it there. */
  text(text: string): void {
    this.#add({ kind: 'text', text })
  }

  /** The viewer has left: drop its waiting input and release what it holds. */
  async leave(): Promise<void> {
    this.#left.abort(new Error('the viewer left'))
    clearTimeout(this.#watch)
    this.#waiting = []
    this.#wake()
    // Do not wait for a turn: held keys must not stay down until other callers are done.
    if (!this.#pumping) await this.#letGo()
  }

  get #isHolding(): boolean {
    return this.#keys.size > 0 || this.#buttons !== 0
  }

  #add(act: Act): void {
    if (this.#left.signal.aborted) return
    this.#lastAct = performance.now()
    if (this.#waiting.length >= MAX_WAITING) this.#waiting = []
    this.#waiting.push(act)
    this.#wake()
    if (!this.#pumping) void this.#pump().catch((err: unknown) => this.#settings.log.warn({ err }, 'the input of a viewer failed'))
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    const { signal } = this.#left
    try {
      while (this.#waiting.length > 0 && !signal.aborted) {
        let sent = false
        const impatient = setTimeout(() => this.#settings.onWaiting((sent = true)), PATIENCE_MS)
        const begin = () => {
          clearTimeout(impatient)
          if (sent) this.#settings.onWaiting((sent = false))
        }
        await this.#settings.inputQueue.turn(() => (begin(), this.#gesture(signal)), signal).finally(begin)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      this.#pumping = false
      if (signal.aborted) await this.#letGo()
      else if (this.#isHolding) this.#watchHeld()
    }
  }

  /** One turn: all waiting input, and, while something is held, all input that follows. */
  async #gesture(signal: AbortSignal): Promise<void> {
    const end = performance.now() + GESTURE_MS
    const { keyboard } = this.#settings.desk
    if (this.#waiting.some(({ kind }) => kind === 'key') && (await keyboard.capsLock())) keyboard.setCapsLock(false)
    for (;;) {
      for (let act = this.#waiting.shift(); act && !signal.aborted; act = this.#waiting.shift()) await this.#do(act, signal)
      const left = end - performance.now()
      if (!this.#isHolding || left <= 0 || signal.aborted) return
      this.#watchHeld()
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      const timer = setTimeout(resolve, left)
      if (this.#waiting.length > 0) resolve()
      await promise
      clearTimeout(timer)
    }
  }

  async #do(act: Act, signal: AbortSignal): Promise<void> {
    try {
      if (act.kind === 'pointer') this.#point(act)
      else if (act.kind === 'text') await this.#settings.desk.clipboard.write(act.text, signal)
      else if (act.down) await this.#press(act.keysym, signal)
      else this.#release(act.keysym)
    } catch (err) {
      // One key that cannot be typed does not stop the next ones.
      if (!signal.aborted) this.#settings.log.debug({ err, kind: act.kind }, 'the input of a viewer failed')
    }
  }

  #point({ x, y, buttons }: Act & { kind: 'pointer' }): void {
    const { width, height } = this.#settings.desk.screen.viewport
    this.#settings.desk.input.move(Math.min(x, width - 1), Math.min(y, height - 1))
    // Bit 0 is button 1, and so on to 8; 4 to 7 are the wheel.
    for (let bit = 0; bit < 8; bit++) {
      const mask = 1 << bit
      if ((buttons & mask) === (this.#buttons & mask)) continue
      if (buttons & mask) this.#held.buttonDown(bit + 1)
      else this.#held.buttonUp(bit + 1)
    }
    this.#buttons = buttons
  }

  /** Presses the key that types the same character as the viewer's own key, on any layout. */
  async #press(wanted: number, signal: AbortSignal): Promise<void> {
    // The display repeats a held key itself; the viewer's repeats would come twice.
    if (this.#keys.has(wanted)) return
    const held = [...this.#keys.keys()]
    const shifts = held.filter(isShift)
    // Caps Lock with a shortcut sends a capital, but the shortcut means the plain letter.
    const keysym = shifts.length > 0 ? wanted : asCommands([wanted], held)[0]!
    const { keyboard } = this.#settings.desk
    const [shift, stroke] = (await keyboard.strokes([SHIFT, keysym], [...this.#keys.values()])) as [{ code: number }, { code: number; shift: boolean }]
    if (!isModifier(keysym) && stroke.shift && shifts.length === 0) return this.#held.tap(stroke, shift.code, 0, signal)
    // The viewer's layout needs Shift for this character and ours does not. A spare key types it with and without Shift.
    if (isCharacter(keysym) && !stroke.shift && shifts.length > 0 && keyboard.has(keysym)) {
      // When a viewer is silent, its keys may be released at any time: they must not be pressed again.
      const codes = () => shifts.flatMap((down) => this.#keys.get(down) ?? [])
      codes().forEach((code) => this.#held.keyUp(code))
      await this.#held.tap(stroke, shift.code, 0, signal)
      codes().forEach((code) => this.#held.keyDown(code))
      return
    }
    this.#held.keyDown(stroke.code)
    this.#keys.set(wanted, stroke.code)
  }

  #release(keysym: number): void {
    const code = this.#keys.get(keysym)
    if (code === undefined) return
    this.#keys.delete(keysym)
    this.#held.keyUp(code)
  }

  async #letGo(): Promise<void> {
    this.#keys.clear()
    this.#buttons = 0
    this.#wake()
    await this.#held.letGo()
  }

  /** Releases what a viewer holds when its connection is dead. */
  #watchHeld(): void {
    clearTimeout(this.#watch)
    const check = async () => {
      if (!this.#isHolding || this.#left.signal.aborted) return
      if (performance.now() - this.#lastAct >= SILENCE_MS && !(await this.#settings.isThere()) && this.#isHolding) await this.#letGo()
      else this.#watchHeld()
    }
    this.#watch = setTimeout(() => void check().catch((err: unknown) => this.#settings.log.warn({ err }, 'a viewer could not be pinged')), SILENCE_MS)
    this.#watch.unref()
  }
}

const sameButtons = (act: Act | undefined, buttons: number): boolean => act?.kind === 'pointer' && act.buttons === buttons
