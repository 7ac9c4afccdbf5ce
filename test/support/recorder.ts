// Hands whose input and keyboard only write down what is done to them, and know what is down.
import { makeActions } from '../../src/agent/computer/actions.ts'
import { BatchBody } from '../../src/agent/computer/contract.ts'
import type { Input } from '../../src/agent/computer/grip.ts'
import { makeHands, type Hands, type NamedPlan } from '../../src/agent/computer/hands.ts'
import type { Keyboard, Stroke } from '../../src/agent/computer/keyboard.ts'
import type { Point } from '../../src/agent/computer/path.ts'
import { seeded } from './seeded.ts'

/** The signal of a caller who does not leave. */
export const NEVER = new AbortController().signal
export const BIG = { width: 1000, height: 700, refresh_rate: 60 }

export interface Recorder {
  input: Input
  keyboard: Keyboard
  /** What was asked for, oldest first: `move 5,6`, `key Control_L down`, `button 1 up`, `pointer`. */
  log: string[]
  /** Keys and buttons that are down now: `key Control_L`, `button 1`. */
  down: Set<string>
  /** What no hand does unless it is asked to: pressing what is down, letting go of what is not. */
  odd: string[]
  /** Called ahead of each request with its number, the first is 1; what it throws is thrown in place of the request. */
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

/** A recorder; its keys have the number of their keysym, and large letters and `%` are written with Shift. */
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
    },
    keyboard: {
      spares: 8,
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
  hands: Hands
  /** May be made smaller under what is planned. */
  screen: { viewport: typeof BIG }
  /** Plans what a caller may have sent. */
  plan(actions: readonly unknown[]): NamedPlan[]
}

/** Hands over a recorder. `caughtUp` is the program in front. */
export function makeBench(caughtUp: () => Promise<void> = async () => {}): Bench {
  const recorder = makeRecorder()
  const screen = { viewport: BIG }
  const cursor = { hidden: false, hide: (hidden: boolean) => void recorder.log.push(`cursor ${hidden ? 'hidden' : 'shown'}`) }
  const actions = makeActions({ screen, keyboard: recorder.keyboard, caughtUp, settled: caughtUp, cursor, random: seeded(1) })
  return Object.assign(recorder, {
    hands: makeHands(recorder.input, recorder.keyboard),
    screen,
    plan: (list: readonly unknown[]) => actions.batch(BatchBody.parse({ actions: list }).actions),
  })
}

/** What something failed with; undefined when it did not. */
export const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )
