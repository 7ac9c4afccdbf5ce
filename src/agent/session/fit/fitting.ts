// Runs the steps of fitting.
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Fit } from '../contract.ts'
import type { Check, Setting, Step } from './step.ts'

export interface Fitting {
  /**
   * Applies the settings in the order of the steps. Resolves when all have taken effect. It continues when its caller disconnects, because the session's row
   * already has the settings. @throws 503 that names the setting that has not taken effect, or 400 when it cannot; later steps are skipped
   */
  fit(wanted: Fit): Promise<void>
  /** Applies again the settings that Chromium has lost by a restart. @throws as {@link fit} */
  afterRestart(): Promise<void>
}

/**
 * Calls of one step run one at a time. A slow step, for example with a page that hangs, does not delay calls that do not need it. `becomeFull` replaces a lean
 * browser by the full one, for steps that need it.
 */
export function makeFitting(steps: readonly Step[], becomeFull: () => Promise<void>, log: Log): Fitting {
  const turns = new Map(steps.map((step) => [step, new Mutex()]))
  const isDone = async ({ tries = 1 }: Step, settings: readonly Setting[], apply: () => Promise<Check>): Promise<void> => {
    for (let left = tries; ;) {
      try {
        return await (
          await apply()
        )()
      } catch (error) {
        // This is the caller's own mistake; another attempt would not change it.
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
        if (settings.length === 0) continue
        await turns.get(step)!.run(async () => {
          if (step.needsFull?.(wanted)) await becomeFull()
          await isDone(step, settings, () => step.apply(wanted))
        })
      }
    },
    async afterRestart() {
      // Do not wait for the turns: a step that restarts Chromium holds its turn while it waits for this.
      for (const step of steps) if (step.afterRestart) await isDone(step, step.settings, () => step.afterRestart!())
    },
  }
}
