// An input queue with fake input and a fake keyboard, which record all requests and track what is down.
import { makeActions } from '../../src/agent/computer/actions.ts'
import { BatchBody } from '../../src/agent/computer/contract.ts'
import type { Input } from '../../src/agent/display/display.ts'
import { makeInputQueue, type InputQueue, type NamedPlan } from '../../src/agent/computer/input-queue.ts'
import type { Keyboard, Stroke } from '../../src/agent/display/display.ts'
import type { Point } from '../../src/agent/computer/path.ts'
import { seeded } from './seeded.ts'

/** A signal that never aborts. */
export const NEVER = new AbortController().signal
export const BIG = { width: 1000, height: 700, refresh_rate: 60 }

export interface Recorder {
  input: Input
  keyboard: Keyboard
  /** The requests, oldest first: `move 5,6`, `key Control_L down`, `button 1 up`, `pointer`. */
  log: string[]
  /** Keys and buttons that are down now: `key Control_L`, `button 1`. */
  down: Set<string>
  /** Requests that a real input queue makes only when a caller asks for them: pressing what is down, or releasing what is not. */
  odd: string[]
  /** Called before each request with its number, from 1. When it throws, the request fails with that error. */
  before: (call: number) => void
}

const NAMES: Record<number, string> = {
  0xffe3: 'Control_L',
  0xffe1: 'Shift_L',
  0xffe9: 'Alt_L',
  0xffeb: 'Super_L',
  0xff0d: 'Return',
  0xff08: 'BackSpace',
  0xff09: 'Tab',
}
const nameOf = (code: number): string => NAMES[code] ?? String.fromCodePoint(code & 0xff_ffff)

/** A recorder whose keycodes are the keysyms. Capital letters and `%` need Shift. */
function makeRecorder(): Recorder {
  let at: Point = [0, 0]
  let calls = 0
  const act = (entry: string) => {
    recorder.before(++calls)
    recorder.log.push(entry)
  }
  const press = (what: string, down: boolean) => {
    act(`${what} ${down ? 'down' : 'up'}`)
    if (recorder.down.has(what) === down) recorder.odd.push(`${what} ${down ? 'down' : 'up'}`)
    if (down) recorder.down.add(what)
    else recorder.down.delete(what)
  }
  const strokeOf = (keysym: number): Stroke =>
    keysym >= 0x41 && keysym <= 0x5a ? { code: keysym + 0x20, shift: true } : { code: keysym, shift: keysym === 0x25 }
  const recorder: Recorder = {
    log: [],
    down: new Set(),
    odd: [],
    before() {},
    input: {
      move(x, y) {
        act(`move ${x},${y}`)
        at = [x, y]
      },
      key: (code, down) => press(`key ${nameOf(code)}`, down),
      button: (number, down) => press(`button ${number}`, down),
      async pointer() {
        act('pointer')
        return at
      },
      held: async () => ({ keys: [], buttons: [] }),
    },
    keyboard: {
      spares: 8,
      refresh: async () => {},
      has: (keysym) => keysym < 0x100_0000,
      capsLock: async () => false,
      setCapsLock() {},
      async strokes(keysyms) {
        act('strokes')
        return keysyms.map(strokeOf)
      },
    },
  }
  return recorder
}

export interface Bench extends Recorder {
  inputQueue: InputQueue
  /** Tests may reduce it after an action was planned. */
  screen: { viewport: typeof BIG }
  /** Plans actions as if a caller had sent them. */
  plan(actions: readonly unknown[]): NamedPlan[]
}

/** An input queue on a recorder. `caughtUp` replaces the wait for the program in front. */
export function makeBench(caughtUp: () => Promise<void> = async () => {}): Bench {
  const recorder = makeRecorder()
  const screen = { viewport: BIG }
  const cursor = { hidden: false, hide: (hidden: boolean) => void recorder.log.push(`cursor ${hidden ? 'hidden' : 'shown'}`) }
  const actions = makeActions({
    screen,
    keyboard: recorder.keyboard,
    caughtUp,
    answers: async () => (await caughtUp(), true),
    drags: { isOn: false, cursors: 0, ended: async () => {} },
    settled: caughtUp,
    cursor,
    random: seeded(1),
  })
  return Object.assign(recorder, {
    inputQueue: makeInputQueue(recorder.input, recorder.keyboard),
    screen,
    plan: (list: readonly unknown[]) => actions.batch(BatchBody.parse({ actions: list }).actions),
  })
}

/** The error of `work`, or undefined when it succeeded. */
export const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )
