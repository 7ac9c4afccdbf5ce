// Mouse actions: clicks, moves, drags, scrolls.
import { abortable, sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Screen } from '../display/display.ts'
import { MAX_ACTION_MS, type ClickMouse, type DragMouse, type MoveMouse, type Scroll } from './contract.ts'
import { makeDrop, type DropTools } from './drop.ts'
import type { HeldInput } from './held-input.ts'
import type { Planned } from './input-queue.ts'
import type { Keyboard } from '../display/display.ts'
import { combination } from './names.ts'
import { FRAME_MS, naturalDuration, naturalTotal, smoothPath, straightPath, type Point, type Step } from './path.ts'

/** Button numbers of the X protocol. */
const BUTTONS = { left: 1, middle: 2, right: 3, back: 8, forward: 9 } as const
/** The duration that a step without a delay counts, so that a batch cannot have millions of them. */
const STEP_MS = 0.5
/**
 * Shortest rest of the pointer at the end of a drag before the button is released. People rest for 100 to 200 ms to check the position, and pages rely on it.
 */
const DROP_MS = 150
/** X reports the wheel as buttons. */
const WHEEL = { up: 4, down: 5, left: 6, right: 7 } as const

/** Time between the clicks of a double click, by the clock of the display. Chromium distinguishes clicks by their millisecond, and counts those within 500 ms. */
const BETWEEN_CLICKS_MS = 20
/** Within this time, and near the last press, Chromium takes a press as the second of a double click. Such a press starts no drag. */
const DOUBLE_CLICK_MS = 500
const DOUBLE_CLICK_PX = 4

/** A triple click is the longest click with a meaning; after it, check whether the caller is still there. */
const CLICKS_AT_ONCE = 3

/** After this many movements without a pause, check whether the caller is still there. */
const AT_ONCE = 100

/**
 * The longest scroll on a machine that is not busy. It has 300 frames; if there are more notches, they share frames. Chromium reports each notch to the page (tested
 * with 10,000), but merged ones may scroll less far than their sum. With up to 4 per frame nothing was lost.
 */
const MAX_SCROLL_MS = 5_000
/**
 * Chromium merges the notches that it gets before the page is scrolled, and the first of a movement scrolls at most the height of the page. The movement lasts
 * at least 100 ms. So after a frame that took this long, the next notch waits until the page has handled all earlier ones.
 */
const LATE_MS = 50
/** Limit on these waits together, for a page that is always busy. */
const MAX_LATE_MS = 60_000

export interface PointerTools extends DropTools {
  screen: Pick<Screen, 'viewport'>
  keyboard: Keyboard
  /** Resolves when the program in front has read what was sent to it, or hangs. */
  answers: () => Promise<boolean>
  /** Random numbers for smooth paths. Tests use a seeded generator. */
  random: () => number
  /**
   * Whether the session has stealth: then the pointer moves to a click along a path, and buttons and keys are held as long as a person holds them. Absent: no.
   */
  asPerson?: (() => boolean) | undefined
}

/** How long people hold a button or a key that they press once. */
const HOLD_MS = { least: 45, most: 110 }

/** How long a person holds a button or key; 0 without stealth. */
const holdMs = ({ asPerson, random }: Pick<PointerTools, 'asPerson' | 'random'>): number =>
  asPerson?.() ? Math.round(HOLD_MS.least + random() * (HOLD_MS.most - HOLD_MS.least)) : 0

/** Waits as long as a person holds a button or key. */
export async function holdAsPerson(tools: Pick<PointerTools, 'asPerson' | 'random'>, signal: AbortSignal): Promise<void> {
  const ms = holdMs(tools)
  if (ms > 0) await sleep(ms, signal)
}

/** Longest duration of {@link holdAsPerson} for `presses` presses. */
export const heldAtMost = ({ asPerson }: Pick<PointerTools, 'asPerson'>, presses: number): number => (asPerson?.() ? presses * HOLD_MS.most : 0)

/** How long a smooth path takes from one corner to the other. */
const longestWay = ({ viewport: { width, height } }: PointerTools['screen']): number => naturalDuration(Math.hypot(width, height))

/** The keys by name. Checked before anything is pressed. @throws 400 naming `hold_keys` or its entry */
export function heldKeys(names: readonly string[] | undefined, keyboard: PointerTools['keyboard'], at: string): number[] {
  const keys = (names ?? []).flatMap((name, index) => combination(name, `${at}hold_keys.${index}`))
  fitTogether(keys, keyboard, `${at}hold_keys`)
  return keys
}

/** @throws 400 naming `field` if the keys need more spare keys at once than there are */
export function fitTogether(keysyms: readonly number[], keyboard: PointerTools['keyboard'], field: string): void {
  const lent = new Set(keysyms.filter((keysym) => !keyboard.has(keysym)))
  if (lent.size > keyboard.spares) throw fault.field(field, `at most ${keyboard.spares} characters without a key of their own can be held at once`)
}

/** @throws 400 naming the coordinate that is off the screen. */
function onScreen({ viewport: { width, height } }: PointerTools['screen'], [x, y]: Point, fields: readonly [string, string]): void {
  if (x >= width) throw fault.field(fields[0], `${x} is off the screen, which is ${width} wide`)
  if (y >= height) throw fault.field(fields[1], `${y} is off the screen, which is ${height} high`)
}

/**
 * A plan for each pointer action. `at` is the prefix of field names in errors: '' or `actions.2.click_mouse.`. Every plan checks its points again
 * when its turn comes, because the screen may have become smaller.
 */
export function pointerPlans(tools: PointerTools) {
  const { screen, keyboard, random } = tools
  const within = (point: Point, at: string) => onScreen(screen, point, [`${at}x`, `${at}y`])
  const drop = makeDrop(tools)
  /** Position of the last button that was left down. */
  let downAt: Point | undefined
  /** The last press. */
  let last: { at: Point; time: number } | undefined
  const press = (held: HeldInput, button: number, at: Point, afterMs = 0) => {
    held.buttonDown(button, afterMs)
    last = { at, time: performance.now() + afterMs }
  }

  /** Resolves when a press there counts as a first one. */
  async function singleClick([x, y]: Point, signal: AbortSignal): Promise<void> {
    if (!last || Math.abs(last.at[0] - x) > DOUBLE_CLICK_PX || Math.abs(last.at[1] - y) > DOUBLE_CLICK_PX) return
    const left = last.time + DOUBLE_CLICK_MS - performance.now()
    if (left > -BETWEEN_CLICKS_MS) await sleep(Math.ceil(left) + BETWEEN_CLICKS_MS, signal)
  }

  function click(wanted: ClickMouse, at = ''): Planned {
    const point = [wanted.x, wanted.y] as const
    within(point, at)
    if (wanted.click_type !== 'click' && wanted.num_clicks !== 1)
      throw fault.field(`${at}num_clicks`, `only a click_type of "click" can be repeated, not "${wanted.click_type}"`)
    const keys = heldKeys(wanted.hold_keys, keyboard, at)
    const button = BUTTONS[wanted.button]
    return {
      ms: (wanted.num_clicks - 1) * BETWEEN_CLICKS_MS + (tools.asPerson?.() ? longestWay(screen) : 0) + heldAtMost(tools, wanted.num_clicks),
      async run(held, signal) {
        within(point, at)
        if (tools.asPerson?.()) await follow(held, smoothPath([await held.input.pointer(), point], undefined, screen.viewport, random), signal)
        else held.input.move(...point)
        const release = await held.hold(keys)
        if (wanted.click_type === 'down') {
          press(held, button, point) // stays down if the turn succeeds
          downAt = point
        } else if (wanted.click_type === 'up') {
          const isCarried = drop.isDragging || (downAt !== undefined && String(downAt) !== String(point))
          if (isCarried) await drop.ready(held, point, signal)
          held.buttonUp(button)
          downAt = undefined
          await drop.done(signal)
        } else {
          // The display makes the pauses: on a busy machine this process may be later than the time of a double click.
          for (let count = 0; count < wanted.num_clicks; count++) {
            if (count > 0 && count % CLICKS_AT_ONCE === 0) await held.settle()
            signal.throwIfAborted()
            press(held, button, point, count > 0 ? BETWEEN_CLICKS_MS : 0)
            held.buttonUp(button, holdMs(tools))
          }
        }
        release()
      },
    }
  }

  function move(wanted: MoveMouse, at = ''): Planned {
    const point = [wanted.x, wanted.y] as const
    within(point, at)
    const keys = heldKeys(wanted.hold_keys, keyboard, at)
    return {
      ms: wanted.smooth ? (wanted.duration_ms ?? longestWay(screen)) : 0,
      async run(held, signal) {
        within(point, at)
        const release = await held.hold(keys)
        if (wanted.smooth) await follow(held, smoothPath([await held.input.pointer(), point], wanted.duration_ms, screen.viewport, random), signal)
        else held.input.move(...point)
        release()
      },
    }
  }

  function drag(wanted: DragMouse, at = ''): Planned {
    const all = () => wanted.path.forEach((point, index) => onScreen(screen, point, [`${at}path.${index}.0`, `${at}path.${index}.1`]))
    all()
    const keys = heldKeys(wanted.hold_keys, keyboard, at)
    const count = (wanted.path.length - 1) * wanted.steps_per_segment
    if (!wanted.smooth && count * Math.max(1, wanted.step_delay_ms) > MAX_ACTION_MS)
      throw fault.field(`${at}steps_per_segment`, `the drag would take longer than ${MAX_ACTION_MS} ms`)
    const pathMs = wanted.smooth ? (wanted.duration_ms ?? naturalTotal(wanted.path)) : (count - 1) * (wanted.step_delay_ms || STEP_MS)
    return {
      ms: wanted.delay + pathMs + FRAME_MS + DROP_MS, // and half a second after a click there
      async run(held, signal) {
        all()
        // Only now: the steps of a batch that may still be refused would not fit into memory.
        const steps = wanted.smooth
          ? smoothPath(wanted.path, wanted.duration_ms, screen.viewport, random)
          : straightPath(wanted.path, wanted.steps_per_segment, wanted.step_delay_ms)
        const from = wanted.path[0]!
        held.input.move(...from)
        // The page must get the movement before the press. Otherwise the press would hit the element that was there before.
        await held.settle()
        await sleep(FRAME_MS, signal)
        await singleClick(from, signal)
        const release = await held.hold(keys)
        press(held, BUTTONS[wanted.button], from)
        await sleep(wanted.delay, signal)
        await follow(held, steps, signal)
        await held.settle()
        const rest = sleep(wanted.smooth ? DROP_MS : Math.max(DROP_MS, wanted.step_delay_ms), signal)
        await Promise.all([rest, drop.ready(held, wanted.path.at(-1)!, signal)])
        held.buttonUp(BUTTONS[wanted.button])
        release()
        await drop.done(signal)
      },
    }
  }

  function scroll(wanted: Scroll, at = ''): Planned {
    const point = [wanted.x, wanted.y] as const
    within(point, at)
    const keys = heldKeys(wanted.hold_keys, keyboard, at)
    const notches = Math.abs(wanted.delta_x) + Math.abs(wanted.delta_y)
    const perFrame = Math.max(1, (notches * FRAME_MS) / MAX_SCROLL_MS)
    return {
      ms: (notches / perFrame + 2) * FRAME_MS,
      async run(held, signal) {
        within(point, at)
        held.input.move(...point)
        const release = await held.hold(keys)
        await turnWheel(held, wanted.delta_x > 0 ? WHEEL.right : WHEEL.left, Math.abs(wanted.delta_x), perFrame, signal)
        await turnWheel(held, wanted.delta_y > 0 ? WHEEL.down : WHEEL.up, Math.abs(wanted.delta_y), perFrame, signal)
        release()
      },
    }
  }

  /** Scrolls by `notches`, several in each frame. Does not catch up after a delay: simultaneous notches are merged. */
  async function turnWheel(held: HeldInput, button: number, notches: number, perFrame: number, signal: AbortSignal): Promise<void> {
    let lateMs = 0
    for (let frame = 1, sent = 0; sent < notches; frame++) {
      const start = performance.now()
      for (; sent < Math.min(notches, Math.round(frame * perFrame)); sent++) {
        held.buttonDown(button)
        held.buttonUp(button)
      }
      await Promise.all([sleep(Math.ceil(FRAME_MS), signal), tools.answers()])
      if (performance.now() - start < LATE_MS || lateMs > MAX_LATE_MS) continue
      await abortable(tools.settled(), signal)
      lateMs += performance.now() - start
    }
  }

  return { click, move, drag, scroll }
}

/** Moves along a path, each step at its time. */
async function follow(held: HeldInput, steps: readonly Step[], signal: AbortSignal): Promise<void> {
  const start = performance.now()
  for (const [index, { atMs, x, y }] of steps.entries()) {
    const ahead = start + atMs - performance.now()
    // A timer drops fractions of a millisecond: steps would come early.
    if (ahead > 0.5) await sleep(Math.ceil(ahead), signal)
    else if (index % AT_ONCE === AT_ONCE - 1) await held.settle()
    signal.throwIfAborted()
    held.input.move(x, y)
  }
}
