// The computer contract, answered by the screen and the input queue.
import type { Bytes, Handlers } from '../../http/route.ts'
import type { Clipboard } from '../display/display.ts'
import type { Drags } from '../display/display.ts'
import type { Screen } from '../display/display.ts'
import { makeActions } from './actions.ts'
import type { computer } from './contract.ts'
import type { Input } from '../display/display.ts'
import { makeInputQueue, type InputQueue } from './input-queue.ts'
import type { Keyboard } from '../display/display.ts'
import { Screenshots } from './screenshot.ts'

/** The devices that the computer controls use: real in an instance, simulated by the fake driver. */
export interface Computer {
  screen: Screen
  input: Input
  keyboard: Keyboard
  clipboard: Clipboard
  /** Resolves when the program in front has handled all input sent to it. */
  caughtUp: () => Promise<void>
  /** The same, but resolves also when that program hangs. Returns whether it answers. */
  answers: () => Promise<boolean>
  drags: Drags
  /** Resolves when the browser has carried out the last keys. */
  settled: () => Promise<void>
  /** Whether the session has stealth. */
  asPerson?: () => boolean
}

/** A page finishes a copy within this time, in milliseconds; 3-20 were measured, 170 for a text of 1 MiB. */
const COPY_MS = 250

/** `random` drives human-like paths and rhythms; a seeded one makes them repeatable. */
export function computerHandlers(
  { screen, input, keyboard, clipboard, caughtUp, answers, drags, settled, asPerson }: Computer,
  random: () => number = Math.random,
  inputQueue: InputQueue = makeInputQueue(input, keyboard),
): Handlers<typeof computer> {
  const actions = makeActions({ screen, keyboard, caughtUp, answers, drags, settled, cursor: screen.cursor, random, asPerson })
  const screenshots = new Screenshots(screen)
  return {
    batchActions: ({ body, signal }) => inputQueue.performAll(actions.batch(body.actions), signal),
    captureScreenshot({ body, headers, signal }) {
      const { promise, resolve, reject } = Promise.withResolvers<Bytes>()
      // The answer starts with the first pixels; the turn lasts until all are encoded.
      inputQueue.turn(() => screenshots.take(body.region, headers['if-none-match'], resolve, signal), signal).catch(reject)
      return promise
    },
    clickMouse: ({ body, signal }) => inputQueue.perform(actions.click(body), 'num_clicks', signal),
    dragMouse: ({ body, signal }) => inputQueue.perform(actions.drag(body), 'path', signal),
    getMousePosition: ({ signal }) =>
      inputQueue.turn(async () => {
        const [x, y] = await input.pointer()
        return { x, y }
      }, signal),
    moveMouse: ({ body, signal }) => inputQueue.perform(actions.move(body), 'duration_ms', signal),
    pressKey: ({ body, signal }) => inputQueue.perform(actions.press(body), 'duration', signal),
    readClipboard: ({ signal }) =>
      inputQueue.turn(async () => {
        // The page may not have finished the copy that the last keys started.
        await clipboard.changed(inputQueue.lastAct, inputQueue.lastAct + COPY_MS)
        return { text: await clipboard.read(signal) }
      }, signal),
    scroll: ({ body, signal }) => inputQueue.perform(actions.scroll(body), 'delta_y', signal),
    setCursorVisibility: async ({ body, signal }) => {
      await inputQueue.perform(actions.setCursor(body), 'hidden', signal)
      return { ok: true }
    },
    typeText: ({ body, signal }) => inputQueue.perform(actions.type(body), 'text', signal),
    writeClipboard: ({ body, signal }) => inputQueue.turn(() => clipboard.write(body.text, signal), signal),
  }
}
