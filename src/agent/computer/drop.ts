// Letting go of what the pointer carries, when the browser would take it.
import { within } from '../../base/wait.ts'
import type { Drags } from '../display/drags.ts'
import type { HeldInput } from './held-input.ts'
import type { Point } from './path.ts'

/**
 * How often the pointer's place is sent, at least. For each, Chromium asks the page whether it takes the drop, and lets go by the answer to the one before. The first
 * may begin the drag, and the page is asked for good only at the second one on an element; the fourth is for a frame, which is entered before.
 */
const MIN_SENT = 4
/** And at most: a target that moves changes its answer all the time. */
const MAX_SENT = 20
/** And so long at least: pages move targets aside, or into place, when something is dragged over them. */
const MIN_SENT_MS = 300
/** No more after this long: a page that is busy answers late. */
const READY_MS = 10_000
/** What {@link DropTools.settled} waits for ends by itself within 5 s. */
const SETTLED_MS = 15_000

export interface DropTools {
  drags: Drags
  /** Resolves when browser and pages have handled what was sent to them. */
  settled: () => Promise<void>
}

export interface Drop {
  /** Resolves when pages have handled the way to `at`, and, if that has begun a drag, when the browser would drop there what it carries. */
  ready(held: HeldInput, at: Point, signal: AbortSignal): Promise<void>
  /** Resolves when a drop after the release of the button is done. */
  done(signal: AbortSignal): Promise<void>
  /** Whether something is dragged. */
  readonly isDragging: boolean
}

/**
 * Chromium drops only after the page has answered a `dragover` at the place, and after another one: it knows the answer to an earlier one then. It sends them when
 * the pointer is moved, and every 350 ms. A movement to where the pointer is has the same effect, and nothing that a page could see but this event.
 */
export function makeDrop({ drags, settled }: DropTools): Drop {
  const handled = (signal: AbortSignal) => within('pages to handle the pointer', SETTLED_MS, settled(), signal)
  return {
    async ready(held, at, signal) {
      // A drag begins when the page has handled a movement.
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
