// Drops what the pointer drags, at a moment when the browser accepts the drop.
import { within } from '../../base/wait.ts'
import type { Drags } from '../display/display.ts'
import type { HeldInput } from './held-input.ts'
import type { Point } from './path.ts'

/**
 * Fewest times that the pointer's position is sent. For each one, Chromium asks the page whether it accepts the drop, and uses the answer to the previous one.
 * The first may start the drag, and only the second one on an element gives a final answer; the fourth is for a frame, which is entered first.
 */
const MIN_SENT = 4
/** Most times: the answer of a moving target changes all the time. */
const MAX_SENT = 20
/** Shortest time: pages move targets aside, or into place, when something is dragged over them. */
const MIN_SENT_MS = 300
/** Longest time: a busy page answers late. */
const READY_MS = 10_000
/** {@link DropTools.settled} ends by itself within 5 s. */
const SETTLED_MS = 15_000

export interface DropTools {
  drags: Drags
  /** Resolves when browser and pages have handled what was sent to them. */
  settled: () => Promise<void>
}

export interface Drop {
  /** Resolves when pages have handled the movement to `at`, and, if a drag has started, when the browser would accept the drop there. */
  ready(held: HeldInput, at: Point, signal: AbortSignal): Promise<void>
  /** Resolves when a drop after the release of the button is done. */
  done(signal: AbortSignal): Promise<void>
  /** Whether a drag is in progress. */
  readonly isDragging: boolean
}

/**
 * Chromium drops only after the page has answered a `dragover` at the place, and after another one: only then does it know the answer to the first. It sends
 * them when the pointer moves, and every 350 ms. A movement to the pointer's present position has the same effect, and a page sees only this event.
 */
export function makeDrop({ drags, settled }: DropTools): Drop {
  const handled = (signal: AbortSignal) => within('pages to handle the pointer', SETTLED_MS, settled(), signal)
  return {
    async ready(held, at, signal) {
      // A drag starts when the page has handled a movement.
      await handled(signal)
      const start = performance.now()
      for (let sent = 1; drags.isOn && sent <= MAX_SENT && performance.now() < start + READY_MS; sent++) {
        const { cursors } = drags
        held.input.move(...at)
        await handled(signal)
        if (sent >= MIN_SENT && performance.now() >= start + MIN_SENT_MS && drags.cursors === cursors) return
      }
    },
    async done(signal) {
      if (!drags.isOn) return
      await drags.ended(signal)
      await handled(signal)
    },
    get isDragging() {
      return drags.isOn
    },
  }
}
