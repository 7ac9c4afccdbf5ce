// What a step of fitting is. The list of steps is in steps.ts.
import type { Fit } from '../contract.ts'

export type Setting = keyof Fit

/** Resolves when a setting has taken effect. @throws when it has not */
export type Check = () => Promise<void>

/** Applies one setting or several to the running browser. */
export interface Step {
  /** The settings that it applies. Each setting is applied by one step. */
  settings: readonly Setting[]
  /** Settings of other steps that it has work for, too. */
  also?: readonly Setting[]
  /** How often it is tried. Absent: once. */
  tries?: number
  /** Applies what is wanted of its settings, of which at least one is given. The result is called next: the step is done when it resolves. */
  apply(wanted: Fit): Promise<Check>
  /**
   * Applies again what has been lost with a run of Chromium; its result is as that of {@link Step.apply}. Absent: Chromium, or what is around it, keeps
   * the setting over a restart; the step says where.
   */
  afterRestart?(): Promise<Check>
}

/** For a step that has nothing to wait for. */
export const atOnce: Check = async () => {}
