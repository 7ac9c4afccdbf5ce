// Runs actions on the display one at a time, in the order of their calls. An action that fails releases what it pressed.
import { Mutex } from '../../base/mutex.ts'
import { Fault, fault } from '../../http/fault.ts'
import { MAX_ACTION_MS } from './contract.ts'
import type { Input } from '../display/display.ts'
import { HeldInput } from './held-input.ts'
import type { Keyboard } from '../display/display.ts'

/** The back and forward buttons: X does not report whether they are down. It ignores the release of a button that is up. */
const UNREPORTED_BUTTONS = [8, 9]

/** An action that has been checked against screen and keyboard, with a known longest duration. */
export interface Planned {
  /** The longest time it takes, in milliseconds; 0 when it is instant. */
  ms: number
  run(held: HeldInput, signal: AbortSignal): Promise<void>
}

/** One step of a batch. */
export interface NamedPlan extends Planned {
  /** Its name in an error: `actions.2 (click_mouse)`. */
  name: string
}

export interface InputQueue {
  /** Runs `work` when every earlier caller is done; screenshots take a turn too, so none shows the middle of an action. */
  turn<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>
  /** Does one action in a turn of its own. @throws 400 naming `field` when it would take too long */
  perform(planned: Planned, field: string, signal: AbortSignal): Promise<void>
  /** Does several in one turn and stops at the first that fails; the error names that action. */
  performAll(plans: readonly NamedPlan[], signal: AbortSignal): Promise<void>
  /** Releases all keys and buttons, also those that turns have left down on purpose, and Caps Lock. @throws when one stays down */
  letGo(signal: AbortSignal): Promise<void>
  /** When the last turn that used the input ended, in milliseconds of `performance.now()`. */
  readonly lastAct: number
}

/** @throws 400 naming `field` */
function bounded(ms: number, field: string): void {
  if (ms > MAX_ACTION_MS) throw fault.field(field, `would take longer than ${MAX_ACTION_MS} ms`)
}

/** The queue for a display's input. `ready` runs before each action and resolves when the program in front takes input. */
export function makeInputQueue(input: Input, keyboard: Keyboard, ready: (signal: AbortSignal) => Promise<void> = async () => {}): InputQueue {
  const turns = new Mutex()
  let lastAct = -Infinity

  /** One turn. When it fails or its caller leaves, everything it pressed is released. A turn that succeeds may leave keys down on purpose. */
  function act(work: (held: HeldInput) => Promise<void>, signal: AbortSignal): Promise<void> {
    return turns.run(async () => {
      await ready(signal)
      const held = new HeldInput(input, keyboard)
      try {
        await work(held)
        await held.settle()
      } catch (error) {
        await held.letGo().catch((failure: unknown) => {
          throw new AggregateError([error, failure], 'an action failed, and what it pressed could not be let go')
        })
        throw error
      } finally {
        lastAct = performance.now()
      }
    }, signal)
  }

  return {
    turn: (work, signal) => turns.run(work, signal),
    async perform(planned, field, signal) {
      bounded(planned.ms, field)
      await act((held) => planned.run(held, signal), signal)
    },
    async performAll(plans, signal) {
      bounded(
        plans.reduce((sum, { ms }) => sum + ms, 0),
        'actions',
      )
      await act(async (held) => {
        for (const plan of plans) {
          signal.throwIfAborted()
          await plan.run(held, signal).catch((error: unknown) => {
            throw signal.aborted ? error : naming(plan.name, error)
          })
        }
      }, signal)
    },
    letGo: (signal) =>
      turns.run(async () => {
        const { keys, buttons } = await input.held()
        for (const number of [...buttons, ...UNREPORTED_BUTTONS]) input.button(number, false)
        for (const code of keys) input.key(code, false)
        keyboard.setCapsLock(false)
        const left = await input.held()
        if (left.keys.length + left.buttons.length > 0) throw new Error(`keys ${left.keys.join()} and buttons ${left.buttons.join()} stay down`)
      }, signal),
    get lastAct() {
      return lastAct
    },
  }
}

/** The same error, prefixed with the name of its action. */
function naming(name: string, error: unknown): Fault {
  const { code, message, headers, inner } = error instanceof Fault ? error : fault.internal(error)
  const text = `${name} failed, and the actions after it were not done: ${message}`
  return new Fault(code, text, { headers, inner, details: [{ code, message: text }], cause: error })
}
