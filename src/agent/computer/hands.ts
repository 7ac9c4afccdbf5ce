// Hands on the display: the pointer and held keys. One caller at a time, and nothing stays pressed behind any of them.
import { Mutex } from '../../base/mutex.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Screen } from '../display/screen.ts'
import type { XConnection } from '../display/x11.ts'
import { MAX_ACTION_MS, type DragMouse } from './contract.ts'
import type { Keyboard } from './keyboard.ts'
import { FRAME_MS, smoothPath, straightPath, type Point } from './path.ts'

/** Button numbers of the X protocol. */
const BUTTONS = { left: 1, middle: 2, right: 3 } as const

const tooLong = (field: string) => fault.field(field, `the drag would take longer than ${MAX_ACTION_MS} ms`)

export interface Hands {
  /** Runs `work` when every earlier caller is done; screenshots take a turn too, so none shows the middle of an action. */
  turn<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>
  /** Drags along the path; whatever ends it, button and keys are released. */
  drag(drag: DragMouse, signal: AbortSignal): Promise<void>
}

/** `random` makes smooth ways; tests give a seeded one. */
export function makeHands(
  connection: Pick<XConnection, 'xtest' | 'root' | 'sync'>,
  screen: Screen,
  keyboard: Keyboard,
  random: () => number = Math.random,
): Hands {
  const { xtest, root, sync } = connection
  const turns = new Mutex()
  const moveTo = (x: number, y: number) => xtest.FakeInput(xtest.MotionNotify, 0, 0, root, x, y)
  const button = (type: number, which: keyof typeof BUTTONS) => xtest.FakeInput(type, BUTTONS[which], 0, 0, 0, 0)

  /** @throws 400 naming the first coordinate that is off the screen. */
  function onScreen(path: readonly Point[]): void {
    const { width, height } = screen.viewport
    path.forEach(([x, y], index) => {
      if (x >= width) throw fault.field(`path.${index}.0`, `${x} is off the screen, which is ${width} wide`)
      if (y >= height) throw fault.field(`path.${index}.1`, `${y} is off the screen, which is ${height} high`)
    })
  }

  async function drag(wanted: DragMouse, signal: AbortSignal): Promise<void> {
    onScreen(wanted.path)
    const keys = keyboard.codes(wanted.hold_keys ?? [], 'hold_keys')
    // Counted before it is planned: a million steps are no plan.
    if (!wanted.smooth && (wanted.path.length - 1) * wanted.steps_per_segment * Math.max(1, wanted.step_delay_ms) > MAX_ACTION_MS)
      throw tooLong('steps_per_segment')
    const steps = wanted.smooth
      ? smoothPath(wanted.path, wanted.duration_ms, screen.viewport, random)
      : straightPath(wanted.path, wanted.steps_per_segment, wanted.step_delay_ms)
    if (wanted.delay > MAX_ACTION_MS) throw tooLong('delay')
    if (wanted.delay + steps.at(-1)!.atMs > MAX_ACTION_MS) throw tooLong('path')
    await turns.run(async () => {
      const [first] = wanted.path
      moveTo(first![0], first![1])
      // The page must have seen the pointer arrive before the button goes down, or it would hit what was under it before.
      await sync()
      await sleep(FRAME_MS, signal)
      keyboard.press(keys)
      button(xtest.ButtonPress, wanted.button)
      try {
        await sleep(wanted.delay, signal)
        const start = performance.now()
        for (const { atMs, x, y } of steps) {
          const ahead = start + atMs - performance.now()
          if (ahead > 0.5) await sleep(ahead, signal)
          signal.throwIfAborted()
          moveTo(x, y)
        }
        await sync()
        // A drop target learns of the last movement with the next frame; only then may the button go up.
        await sleep(wanted.smooth ? FRAME_MS : Math.max(FRAME_MS, wanted.step_delay_ms), signal)
      } finally {
        button(xtest.ButtonRelease, wanted.button)
        keyboard.release(keys)
        await sync()
      }
    }, signal)
  }

  return { turn: (work, signal) => turns.run(work, signal), drag }
}
