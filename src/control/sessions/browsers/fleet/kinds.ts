// The kinds of instances that the warm pool keeps ready.
import type { Fit, Viewport } from '../../../../agent/session/contract.ts'
import { USUAL_MAX_SCREEN, type InstanceSpec } from '../../../../instances/driver.ts'
import { DEFAULT_VIEWPORT } from '../options/contract.ts'
import type { Booted } from '../options/option/contract.ts'
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
  /** What they are fitted to before they are ready, so that no caller waits for it. Absent: nothing. */
  fit?: Pick<Fit, 'fullscreen' | 'stealth'>
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

/** The kind for those of them whose page fills the screen. Only demand has some of it kept: until then these sessions get a usual one and wait for its window. */
export const headlessKind = (most: number): Kind => {
  const { serves, ...usual } = usualKind(0, most)
  return { ...usual, name: 'headless', fit: { fullscreen: true }, serves: (wanted) => serves(wanted) && (wanted.options.headless || wanted.options.kiosk_mode) }
}

/** The kind for those of them with stealth: it takes a restart of Chromium. Only demand has some of it kept, as of {@link headlessKind}. */
export const stealthKind = (most: number): Kind => {
  const { serves, ...usual } = usualKind(0, most)
  return { ...usual, name: 'stealth', fit: { stealth: true }, serves: (wanted) => serves(wanted) && wanted.options.stealth }
}

/** What a session's options need not change. */
export type ReadyState = Omit<Booted, 'maxScreen'>

/** How an instance of a kind is when a session gets it. `kinds` are those of this service; a row may have one of another version. */
export const readyState = (kinds: readonly Kind[], name: string | null): ReadyState => {
  const kind = kinds.find((one) => one.name === name)
  return { viewport: kind?.spec.viewport ?? WARM_VIEWPORT, fullscreen: kind?.fit?.fullscreen ?? false, stealth: kind?.fit?.stealth ?? false }
}
