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
  /** Minimum number that is kept. */
  target: number
  /** Maximum number that is kept, if demand asks for them and memory is free; `target` unless given. */
  most?: number
  /** The screen with which they are booted. A session that needs another one is fitted while it runs. */
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen' | 'lean'>
  /** Settings that are applied before they are ready, so that no caller waits for them. Absent: none. */
  fit?: Pick<Fit, 'fullscreen' | 'stealth'>
  /** Whether an instance of this kind can become the session that a caller wants. */
  serves(wanted: Ownership): boolean
}

const fits = ({ width, height }: Viewport): boolean => width <= USUAL_MAX_SCREEN.width && height <= USUAL_MAX_SCREEN.height

/** The kind for every session with a full browser whose viewport fits a screen of the usual size. */
export const usualKind = (target: number, most = target): Kind => ({
  name: 'usual',
  target,
  most,
  spec: { viewport: DEFAULT_VIEWPORT, maxScreen: USUAL_MAX_SCREEN },
  serves: ({ options: { viewport, lean } }) => !lean && fits(viewport),
})

/**
 * The kind for the sessions among those whose page fills the screen. It is kept only when there is demand: until then, these sessions get a usual instance and
 * wait for its window.
 */
export const headlessKind = (most: number): Kind => {
  const { serves, ...usual } = usualKind(0, most)
  return { ...usual, name: 'headless', fit: { fullscreen: true }, serves: (wanted) => serves(wanted) && (wanted.options.headless || wanted.options.kiosk_mode) }
}

/** The kind for sessions with a lean browser. It is kept only when there is demand. */
export const leanKind = (most: number): Kind => ({
  name: 'lean',
  target: 0,
  most,
  spec: { viewport: DEFAULT_VIEWPORT, maxScreen: USUAL_MAX_SCREEN, lean: true },
  fit: { fullscreen: true },
  // The screen of the full browser that it may become has the usual size.
  serves: ({ options: { viewport, lean } }) => lean === true && fits(viewport),
})

/**
 * The kind for the sessions among those that want stealth, which takes a restart of Chromium. It is kept only when there is demand, like {@link headlessKind}.
 */
export const stealthKind = (most: number): Kind => {
  const { serves, ...usual } = usualKind(0, most)
  return { ...usual, name: 'stealth', fit: { stealth: true }, serves: (wanted) => serves(wanted) && wanted.options.stealth }
}

/** The settings that a ready instance already has. */
export type ReadyState = Omit<Booted, 'maxScreen' | 'lean'>

/** The state of an instance of a kind when a session gets it. `kinds` are those of this service; a row of another version may name an unknown kind. */
export const readyState = (kinds: readonly Kind[], name: string | null): ReadyState => {
  const kind = kinds.find((one) => one.name === name)
  return { viewport: kind?.spec.viewport ?? DEFAULT_VIEWPORT, fullscreen: kind?.fit?.fullscreen ?? false, stealth: kind?.fit?.stealth ?? false }
}
