// The interface of a step of fitting. The list of steps is in steps.ts.
import type { Fit } from '../contract.ts'

export type Setting = keyof Fit

/** Resolves when a setting has taken effect. @throws when it has not */
export type Check = () => Promise<void>

/** Applies one setting or several to the running browser. */
export interface Step {
  /** The settings that it applies. Each setting is applied by one step. */
  settings: readonly Setting[]
  /** Settings of other steps that it also handles. */
  also?: readonly Setting[]
  /** Whether these settings need the full browser; a lean one is replaced by it first. Absent: they do not. */
  needsFull?: (wanted: Fit) => boolean
  /** Number of attempts. Absent: one. */
  tries?: number
  /** Applies the wanted values of its settings, of which at least one is given. The result is called next: the step is done when it resolves. */
  apply(wanted: Fit): Promise<Check>
  /**
   * Applies again what a restart of Chromium has lost; its result is like that of {@link Step.apply}. Absent: Chromium, or a part around it, keeps the setting
   * over a restart; the step says where.
   */
  afterRestart?(): Promise<Check>
}

/** For a step without anything to wait for. */
export const atOnce: Check = async () => {}
