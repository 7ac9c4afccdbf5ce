// The interface between the engine and sessions: the browser of a flow. Implemented in ../browsers.ts; scripted in tests.
import type * as z from 'zod'
import type { Action, Acted, login, PageModel, Settled } from '../../../../agent/login/contract.ts'

type Marks = z.output<(typeof login)['readLoginMarks']['reply']['schema']>

/**
 * The browser of one flow. Every call throws {@link BrowserGone} when the browser has ended, or the errors of calls to an agent (CallFailed, Unavailable, the
 * signal's reason).
 */
export interface LoginBrowser {
  /** The id of its session. */
  readonly id: string
  /** Chromium's error, or null. */
  open(url: string, how: { newTab: boolean }, signal: AbortSignal): Promise<string | null>
  read(signal: AbortSignal): Promise<PageModel>
  act(actions: readonly Action[], hosts: readonly string[], signal: AbortSignal): Promise<Acted>
  settle(limitMs: number, signal: AbortSignal): Promise<Settled>
  marks(hosts: readonly string[], signal: AbortSignal): Promise<Marks>
  /** Leaves one tab, and undoes the login's other changes of the browser. */
  end(signal: AbortSignal): Promise<void>
}

/** The browser has ended, for whatever reason. */
export class BrowserGone extends Error {
  override name = 'BrowserGone'
}

/** The settings of a flow's browser. */
export interface BrowserWish {
  project: string
  profileId: string
  flowId: string
  proxyId: string | undefined
  stealth: boolean
  /** Captured telemetry, in a caller's form. */
  telemetry: object | undefined
  record: boolean
}

export interface LoginBrowsers {
  /** @throws Fault with the error for the caller of a login: no seat, the project's limit, a proxy that was deleted */
  make(wish: BrowserWish, signal: AbortSignal): Promise<{ browser: LoginBrowser; replayId: string | undefined; capturesTelemetry: boolean }>
  /** The browser that a flow had before a restart, or at another replica; undefined when it has ended. */
  find(id: string): Promise<LoginBrowser | undefined>
  /**
   * Ends it, if it has not ended. With `save`, its profile is saved first. Resolves when it has ended and, with `save`, its profile has been saved. Repeated
   * calls are harmless.
   * @throws when the profile could not be saved
   */
  finish(id: string, how: { save: boolean }, signal: AbortSignal): Promise<void>
  /** An address where a person sees the browser. With `act`, they may act in it while the login waits for that. */
  liveViewUrl(id: string, origin: string, access: 'act' | 'watch'): Promise<string | undefined>
}
