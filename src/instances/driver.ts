// THE SEAM. A driver starts instances and finds those that run; nothing above it asks which driver it has.
import type { Endpoint } from '../http/endpoint.ts'
import type { MaxScreen } from '../agent/spec.ts'
import type { Viewport } from '../agent/session/contract.ts'

/** What an instance is started with. */
export interface InstanceSpec {
  id: string
  viewport: Viewport
  /** The largest viewport it can be given later. */
  maxScreen: MaxScreen
}

/** Why an instance is no more. */
export interface Exit {
  reason: string
}

/** A running instance. Disposing ends it and removes all that it had: processes, sockets, directories, limits. */
export interface Instance extends AsyncDisposable {
  readonly id: string
  /** Where its agent answers. */
  readonly agent: Endpoint
  /** Resolves when it has ended, by itself or by us. */
  readonly exited: Promise<Exit>
}

export interface Driver {
  /** Starts an instance; resolves when its browser answers. Whatever had been started is ended if it does not. */
  start(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>
  /** Every instance of this host that still runs, ours again after a crash of the control plane; removes what is left of those that do not. */
  list(): Promise<Instance[]>
}

/** A display of this size serves all of the usual viewports; a larger one is made for those that ask for it. */
export const USUAL_MAX_SCREEN: MaxScreen = { width: 2560, height: 1600 }
