// The kinds of instances that the shelf keeps ready.
import type { Viewport } from '../../../agent/session/contract.ts'
import { USUAL_MAX_SCREEN, type InstanceSpec } from '../../../instances/driver.ts'
import { DEFAULT_VIEWPORT } from '../options/contract.ts'
import type { Ownership } from '../rows.ts'

/** A kind of ready instances: how many are kept, how they are booted, and which sessions they can become. */
export interface Kind {
  /** Stored with each instance (`warm_kind`). A session claims only an instance of a kind that serves it. */
  name: string
  /** How many are kept at least. */
  target: number
  /** How many are kept at most, when demand asks for them and memory is free; as many as `target` unless given. */
  most?: number
  /** How they are booted. A session that needs something else is fitted while it runs. */
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen'>
  /** Whether an instance of this kind can become the session that a caller wants. */
  serves(wanted: Ownership): boolean
}

/** The viewport of ready instances: that of sessions whose caller names none. */
export const WARM_VIEWPORT: Viewport = DEFAULT_VIEWPORT

/** The kind for every session whose viewport fits a screen of the usual size. */
export const usualKind = (target: number, most = target): Kind => ({
  name: 'usual',
  target,
  most,
  spec: { viewport: WARM_VIEWPORT, maxScreen: USUAL_MAX_SCREEN },
  serves: ({ options: { viewport } }) => viewport.width <= USUAL_MAX_SCREEN.width && viewport.height <= USUAL_MAX_SCREEN.height,
})
