// Runs the steps of fitting.
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Fit } from '../contract.ts'
import type { Check, Setting, Step } from './step.ts'

export interface Fitting {
  /**
   * Applies the settings in the order of the steps. Resolves when all have taken effect. It goes on when its caller leaves: the session's row has the
   * settings already. @throws 503 that names the setting that has not taken effect, or 400 when it cannot; the steps after it are left out
   */
  fit(wanted: Fit): Promise<void>
  /** Applies again what Chromium has lost by a restart. @throws as {@link fit} */
  afterRestart(): Promise<void>
}

/** Calls of one step run one at a time. A step that is slow, as with a page that hangs, does not delay calls that do not need it. */
export function makeFitting(steps: readonly Step[], log: Log): Fitting {
  const turns = new Map(steps.map((step) => [step, new Mutex()]))
  const isDone = async ({ tries = 1 }: Step, settings: readonly Setting[], apply: () => Promise<Check>): Promise<void> => {
    for (let left = tries; ;) {
      try {
        return await (
          await apply()
        )()
      } catch (error) {
        // The caller's own mistake; another try would not change it.
        if (error instanceof Fault && error.code === 'bad_request') throw error
        if (--left === 0) throw fault.unavailable(`the browser did not take its ${settings.join(', ')}`, error)
        log.warn({ err: error, settings }, 'a setting did not take effect; trying again')
      }
    }
  }
  return {
    async fit(wanted) {
      const given = (setting: Setting) => wanted[setting] !== undefined
      for (const step of steps) {
        const own = step.settings.filter(given)
        const settings = own.length > 0 ? own : (step.also ?? []).filter(given)
        if (settings.length > 0) await turns.get(step)!.run(() => isDone(step, settings, () => step.apply(wanted)))
      }
    },
    async afterRestart() {
      // Without its turn: a step that restarts Chromium has it while it waits for this.
      for (const step of steps) if (step.afterRestart) await isDone(step, step.settings, () => step.afterRestart!())
    },
  }
}
