// A viewer's mouse and keyboard. What a person does takes its turn with what callers do, and nothing stays pressed behind a viewer who leaves.
import type { Log } from '../../base/log.ts'
import { Grip } from '../computer/grip.ts'
import type { Computer } from '../computer/handlers.ts'
import type { Hands } from '../computer/hands.ts'
import { asCommands, SHIFT } from '../computer/names.ts'

/** From the first press until all is let go is one turn, but nobody waits longer than this for a person who holds something. */
const GESTURE_MS = 5_000
/** After this long in the queue a viewer is told that it waits. */
const PATIENCE_MS = 300
/** Something is held and nothing has been heard: time to ask whether anybody is there. */
const SILENCE_MS = 3_000
/** What may wait. A person who is kept waiting longer than this lasts does not mean it any more. */
const MAX_WAITING = 500

const isShift = (keysym: number): boolean => keysym === 0xffe1 || keysym === 0xffe2
const isModifier = (keysym: number): boolean => keysym >= 0xffe1 && keysym <= 0xffee
/** Their effect is in the characters already: locks, and the keys of a third level (AltGr). */
const isUnneeded = (keysym: number): boolean => [0xff7e, 0xff7f, 0xffe5, 0xffe6].includes(keysym) || (keysym >= 0xfe01 && keysym <= 0xfe0f)
/** Keys that write something of their own; the space bar means more with Shift. */
const isCharacter = (keysym: number): boolean => keysym !== 0x20 && (keysym < 0xfe00 || keysym >= 0x0100_0000)

type Act = { kind: 'pointer'; x: number; y: number; buttons: number } | { kind: 'key'; keysym: number; down: boolean } | { kind: 'text'; text: string }

export interface ViewerHandsSettings {
  desk: Computer
  hands: Hands
  /** Told when a viewer begins and stops to wait for somebody else's action. */
  onWaiting: (waiting: boolean) => void
  /** Whether the viewer is there; asked while it holds something. */
  isThere: () => Promise<boolean>
  log: Log
}

export class ViewerHands {
  readonly #settings: ViewerHandsSettings
  readonly #grip: Grip
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

  constructor(settings: ViewerHandsSettings) {
    this.#settings = settings
    this.#grip = new Grip(settings.desk.input, settings.desk.keyboard)
  }

  pointer(x: number, y: number, buttons: number): void {
    const last = this.#waiting.at(-1)
    // Of movements that wait only the last one matters.
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

  /** Puts a text into the clipboard; keys that come after it find it there. */
  text(text: string): void {
    this.#add({ kind: 'text', text })
  }

  /** The viewer has left: what waits is forgotten, what is held is let go. */
  async leave(): Promise<void> {
    this.#left.abort(new Error('the viewer left'))
    clearTimeout(this.#watch)
    this.#waiting = []
    this.#wake()
    // Not in a turn of its own: what is held must not stay down until others are done.
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
    if (!this.#pumping) void this.#pump().catch((err: unknown) => this.#settings.log.warn({ err }, 'what a viewer did was not done'))
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    const { signal } = this.#left
    try {
      while (this.#waiting.length > 0 && !signal.aborted) {
        let told = false
        const impatient = setTimeout(() => this.#settings.onWaiting((told = true)), PATIENCE_MS)
        const begin = () => {
          clearTimeout(impatient)
          if (told) this.#settings.onWaiting((told = false))
        }
        await this.#settings.hands.turn(() => (begin(), this.#gesture(signal)), signal).finally(begin)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      this.#pumping = false
      if (signal.aborted) await this.#letGo()
      else if (this.#isHolding) this.#watchHeld()
    }
  }

  /** One turn: all that waits, and while something is held whatever follows. */
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
      // One key that cannot be written does not keep the next ones from being so.
      if (!signal.aborted) this.#settings.log.debug({ err, kind: act.kind }, 'what a viewer did was not done')
    }
  }

  #point({ x, y, buttons }: Act & { kind: 'pointer' }): void {
    const { width, height } = this.#settings.desk.screen.viewport
    this.#settings.desk.input.move(Math.min(x, width - 1), Math.min(y, height - 1))
    // Bit 0 is button 1, and so on to 8; 4 to 7 are the wheel.
    for (let bit = 0; bit < 8; bit++) {
      const mask = 1 << bit
      if ((buttons & mask) === (this.#buttons & mask)) continue
      if (buttons & mask) this.#grip.buttonDown(bit + 1)
      else this.#grip.buttonUp(bit + 1)
    }
    this.#buttons = buttons
  }

  /** Presses the key that writes what the viewer's own key wrote, on whatever layout that was. */
  async #press(wanted: number, signal: AbortSignal): Promise<void> {
    // The display repeats a key that is held; the viewer's own repetitions would come on top.
    if (this.#keys.has(wanted)) return
    const held = [...this.#keys.keys()]
    const shifts = held.filter(isShift)
    // Caps Lock and a shortcut: the letter is meant, not the capital.
    const keysym = shifts.length > 0 ? wanted : asCommands([wanted], held)[0]!
    const { keyboard } = this.#settings.desk
    const [shift, stroke] = (await keyboard.strokes([SHIFT, keysym], [...this.#keys.values()])) as [{ code: number }, { code: number; shift: boolean }]
    if (!isModifier(keysym) && stroke.shift && shifts.length === 0) return this.#grip.tap(stroke, shift.code, 0, signal)
    // Shift made another character on the viewer's keyboard than it would here. A lent key writes the same with it.
    if (isCharacter(keysym) && !stroke.shift && shifts.length > 0 && keyboard.has(keysym)) {
      const codes = shifts.map((down) => this.#keys.get(down)!)
      codes.forEach((code) => this.#grip.keyUp(code))
      await this.#grip.tap(stroke, shift.code, 0, signal)
      codes.forEach((code) => this.#grip.keyDown(code))
      return
    }
    this.#grip.keyDown(stroke.code)
    this.#keys.set(wanted, stroke.code)
  }

  #release(keysym: number): void {
    const code = this.#keys.get(keysym)
    if (code === undefined) return
    this.#keys.delete(keysym)
    this.#grip.keyUp(code)
  }

  async #letGo(): Promise<void> {
    this.#keys.clear()
    this.#buttons = 0
    this.#wake()
    await this.#grip.letGo()
  }

  /** A viewer whose line is dead holds nothing. */
  #watchHeld(): void {
    clearTimeout(this.#watch)
    const check = async () => {
      if (!this.#isHolding || this.#left.signal.aborted) return
      if (performance.now() - this.#lastAct >= SILENCE_MS && !(await this.#settings.isThere()) && this.#isHolding) await this.#letGo()
      else this.#watchHeld()
    }
    this.#watch = setTimeout(() => void check().catch((err: unknown) => this.#settings.log.warn({ err }, 'a viewer was not asked')), SILENCE_MS)
    this.#watch.unref()
  }
}

const sameButtons = (act: Act | undefined, buttons: number): boolean => act?.kind === 'pointer' && act.buttons === buttons
