// Mouse and keys of a browser without a display, by CDP. Pages cannot tell them from input of devices.
import { sleep } from '../../../base/wait.ts'
import type { Point } from '../../computer/path.ts'
import type { CdpSession } from '../../chromium/cdp.ts'
import type { Protocol } from '../../chromium/cdp-protocol.ts'
import type { Input } from '../display.ts'
import type { FrontPage } from './front.ts'
import { CAPS_LOCK, keyOf, MODIFIERS, SHIFT_BIT, type Key } from './keys.ts'

/** Buttons by their number in the X protocol, and their bits in `MouseEvent.buttons`. */
const BUTTONS: Readonly<Record<number, { name: Protocol.Input.MouseButton; bit: number }>> = {
  1: { name: 'left', bit: 1 },
  2: { name: 'middle', bit: 4 },
  3: { name: 'right', bit: 2 },
  8: { name: 'back', bit: 8 },
  9: { name: 'forward', bit: 16 },
}
/** X reports the wheel as buttons. The distance of a notch is Chromium's under X. */
const NOTCH_PX = 120
const WHEEL: Readonly<Record<number, readonly [number, number]>> = { 4: [0, -NOTCH_PX], 5: [0, NOTCH_PX], 6: [-NOTCH_PX, 0], 7: [NOTCH_PX, 0] }

/** Chromium's own limits for a double click under X. */
const DOUBLE_CLICK_MS = 500
const DOUBLE_CLICK_PX = 4

/** The longest wait for a page to take an event. A page with an open dialog or a busy script takes none; its input waits, as it would for a person. */
const TAKEN_MS = 1_000

/** A key that stays down repeats after this time, and then at this pace, as under X. */
const REPEAT_AFTER_MS = 660
const REPEAT_EVERY_MS = 40

/** Keys with which a page may copy without a modifier: Enter clicks. */
const COPYING = ['Enter', 'Copy', 'Cut']

/** `PointerEvent.pressure` of a mouse whose button is down (Pointer Events, 4.1). */
const FORCE = 0.5

type Mouse = Protocol.Input.DispatchMouseEventRequest
type KeyEvent = Protocol.Input.DispatchKeyEventRequest
type Send = (page: CdpSession) => Promise<unknown>

export class CdpInput implements Input {
  readonly #front: FrontPage
  readonly #onError: (err: unknown) => void
  readonly #onMove: () => void
  /** Sends in the order of the calls. Never rejects. */
  #turn: Promise<unknown> = Promise.resolve()
  /** Answers to what was sent; none of them rejects. */
  #taken: Promise<boolean> = Promise.resolve(true)
  #at: Point = [0, 0]
  #buttons = 0
  readonly #keys = new Set<number>()
  readonly #held = new Set<number>()
  #last = { number: 0, at: [0, 0] as Point, time: -Infinity, clicks: 0 }
  capsLock = false
  /** When a button or a key was used with which a page may copy, by `performance.now()`. */
  commandAt = -Infinity
  /** The key that went down last, and the timer of its next repeat. */
  #repeating: { code: number; timer: NodeJS.Timeout } | undefined

  /** `onMove` is called when the pointer has another position. */
  constructor(front: FrontPage, onError: (err: unknown) => void, onMove: () => void) {
    this.#front = front
    this.#onError = onError
    this.#onMove = onMove
  }

  move(x: number, y: number): void {
    this.#at = [x, y]
    this.#onMove()
    this.#mouse({ type: 'mouseMoved', x, y, button: BUTTONS[this.#pressed()]?.name ?? 'none' })
  }

  button(number: number, down: boolean, afterMs = 0): void {
    const [x, y] = this.#at
    const wheel = WHEEL[number]
    if (wheel) {
      if (down) this.#mouse({ type: 'mouseWheel', x, y, deltaX: wheel[0], deltaY: wheel[1] })
      return
    }
    const button = BUTTONS[number]
    if (!button || this.#held.has(number) === down) return
    this.commandAt = performance.now()
    if (down) this.#held.add(number)
    else this.#held.delete(number)
    this.#buttons = down ? this.#buttons | button.bit : this.#buttons & ~button.bit
    const event = { x, y, button: button.name, buttons: this.#buttons, modifiers: this.#modifiers() }
    this.#queue(async (page) => {
      if (afterMs > 0) await sleep(afterMs)
      // By the time of sending: on a busy machine the calls may have come at another pace.
      if (down) this.#last = { number, at: [x, y], time: performance.now(), clicks: this.#isAnother(number, [x, y]) ? this.#last.clicks + 1 : 1 }
      const clickCount = this.#last.number === number ? this.#last.clicks : 1
      return await sendMouse(page, { ...event, force: down ? FORCE : 0, type: down ? 'mousePressed' : 'mouseReleased', clickCount })
    }, true)
  }

  key(code: number, down: boolean): void {
    const key = keyOf(code)
    const isRepeat = down && this.#keys.has(code)
    if (!down && !this.#keys.delete(code)) return
    if (down) this.#keys.add(code)
    this.#repeat(code, key, down, isRepeat ? REPEAT_EVERY_MS : REPEAT_AFTER_MS)
    if (key.code === CAPS_LOCK && down && !isRepeat) this.capsLock = !this.capsLock
    const modifiers = this.#modifiers()
    const isShifted = (modifiers & SHIFT_BIT) !== 0
    const isLetter = /^[a-z]$/i.test(key.text?.[0] ?? '')
    const level = (isLetter && this.capsLock) !== isShifted ? 1 : 0
    // With one of these, a key is a command and types nothing.
    const types = (modifiers & (MODIFIERS.Control! | MODIFIERS.Meta! | MODIFIERS.Alt!)) === 0
    if (!types || COPYING.includes(key.key[0])) this.commandAt = performance.now()
    const text = types ? key.text?.[level] : undefined
    const event: KeyEvent = {
      type: !down ? 'keyUp' : text === undefined ? 'rawKeyDown' : 'keyDown',
      modifiers,
      code: key.code,
      key: key.key[level],
      windowsVirtualKeyCode: key.keyCode,
      ...(key.location && { location: key.location }),
      ...(key.isKeypad && { isKeypad: true }),
      ...(isRepeat && { autoRepeat: true }),
      ...(down && text !== undefined && { text, unmodifiedText: text }),
    }
    this.#queue((page) => page.send('Input.dispatchKeyEvent', event, { limitMs: TAKEN_MS }), this.#held.size > 0)
  }

  async pointer(): Promise<Point> {
    await this.taken()
    return this.#at
  }

  async held(): Promise<{ keys: number[]; buttons: number[] }> {
    await this.taken()
    return { keys: [...this.#keys], buttons: [...this.#held] }
  }

  /** Where the pointer is, after all calls so far. */
  get at(): Point {
    return this.#at
  }

  /** Resolves when the page has taken all input so far, or takes none for {@link TAKEN_MS}. Resolves with whether it has taken the last one. */
  async taken(): Promise<boolean> {
    await this.#turn
    return await this.#taken
  }

  /** The number of the button that went down first; 0 if none is down. */
  #pressed(): number {
    return this.#held.values().next().value ?? 0
  }

  #isAnother(number: number, [x, y]: Point): boolean {
    const { number: before, at, time } = this.#last
    const isNear = Math.abs(at[0] - x) <= DOUBLE_CLICK_PX && Math.abs(at[1] - y) <= DOUBLE_CLICK_PX
    return before === number && isNear && performance.now() - time <= DOUBLE_CLICK_MS
  }

  #modifiers(): number {
    let bits = 0
    for (const code of this.#keys) bits |= MODIFIERS[keyOf(code).key[0]] ?? 0
    return bits
  }

  /** Only the key that went down last repeats, and no modifier does. */
  #repeat(code: number, key: Key, down: boolean, afterMs: number): void {
    if (!down && this.#repeating?.code !== code) return
    clearTimeout(this.#repeating?.timer)
    this.#repeating = undefined
    if (!down || Object.hasOwn(MODIFIERS, key.key[0]) || key.code === CAPS_LOCK) return
    this.#repeating = { code, timer: setTimeout(() => this.key(code, true), afterMs).unref() }
  }

  #mouse(event: Omit<Mouse, 'modifiers' | 'buttons'>): void {
    const full = { ...event, force: this.#buttons === 0 ? 0 : FORCE, buttons: this.#buttons, modifiers: this.#modifiers() }
    this.#queue((page) => sendMouse(page, full), this.#held.size > 0)
  }

  /**
   * Sends after everything that was queued earlier. `waits`: what is queued later is sent when the page has taken this. A drag needs that: Chromium asks the
   * page whether it begins, and where it may drop.
   */
  #queue(send: Send, waits: boolean): void {
    this.#turn = this.#turn.then(async () => {
      try {
        const page = await this.#front.session()
        const answer = send(page).then(
          () => true,
          (err: unknown) => this.#failed(err),
        )
        this.#taken = Promise.all([this.#taken, answer]).then(([, now]) => now)
        if (waits) await answer
      } catch (err) {
        this.#taken = Promise.resolve(this.#failed(err))
      }
    })
  }

  /** The page is busy or gone, or the browser is: like a window under X, it then gets no input. */
  #failed(err: unknown): boolean {
    this.#onError(err)
    return false
  }
}

const sendMouse = (page: CdpSession, event: Mouse): Promise<unknown> => page.send('Input.dispatchMouseEvent', event, { limitMs: TAKEN_MS })
