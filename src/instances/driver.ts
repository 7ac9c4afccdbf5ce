// THE SEAM. A driver starts instances and finds those that run; nothing above it asks which driver it has.
import type { Log } from '../base/log.ts'
import type { Endpoint } from '../http/endpoint.ts'
import type { MaxScreen } from '../agent/spec.ts'
import type { Viewport } from '../agent/session/contract.ts'
import type { RunnerSpec } from '../runner/contract.ts'

/** What an instance is started with. */
export interface InstanceSpec {
  id: string
  viewport: Viewport
  /** The largest viewport it can be given later. */
  maxScreen: MaxScreen
  /** Our ports on this host's addresses; at these the session's own URLs work inside it, and nothing else of the API does. */
  apiPorts: readonly number[]
}

/** Why an instance is no more. */
export interface Exit {
  reason: string
  /** It was ended because it used more of this than it may. */
  limit?: 'disk' | 'memory'
}

/**
 * A running instance. Disposing ends it and removes all that it had: processes, sockets, limits, and its directory from its place (its
 * files may be removed later, also after a restart). Disposing rejects when that does not work now; it may then be disposed
 * again, and its driver tries again by itself until the service stops. The next `list` goes on.
 */
export interface Instance extends AsyncDisposable {
  readonly id: string
  /** Where its agent answers. */
  readonly agent: Endpoint
  /** Resolves when it has ended, by itself or by us. */
  readonly exited: Promise<Exit>
}

/** What the sandbox of an app is started with: a build of a deployment's code, or a place for one run of it. */
export interface AppSandboxSpec {
  /** Of a build. A run's sandbox has the id that its instance tells. */
  id: string
  /** The deployment whose code it makes (build) or uses (run). */
  deployment: string
  /** What the runner inside is told. */
  runner: RunnerSpec
  /** Our port on this host's loopback; inside, the API answers on 127.0.0.1 at the same port. */
  apiPort: number
}

/** Where code of apps is built and run. Disposing ends what is kept ready, and nothing that runs; the driver does it, too. A sandbox is an instance whose agent is a runner (runner/contract.ts). */
export interface AppSandboxes extends AsyncDisposable {
  /** Starts one; resolves when its runner answers, which is before its app is loaded. */
  start(spec: AppSandboxSpec, signal: AbortSignal): Promise<Instance>
  /** Every one of this host that still runs; removes what is left of those that do not. */
  list(): Promise<Instance[]>
  /** Deployments whose code is here. */
  codes(): Promise<string[]>
  /** Removes a deployment's code; nothing may run on it. */
  removeCode(deployment: string): Promise<void>
}

/** Disposing ends what is kept ready and removals under way, and no instance. */
export interface Driver extends AsyncDisposable {
  apps: AppSandboxes
  /** Starts an instance; resolves when its browser answers. Whatever had been started is ended if it does not. */
  start(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>
  /** Every instance of this host that still runs, ours again after a crash of the control plane; removes what is left of those that do not. */
  list(): Promise<Instance[]>
  /** The machine's disk runs out: ends the instance or app sandbox that holds most of it, and gives its id; undefined when none holds much. */
  relieve(): Promise<string | undefined>
}

/** A display of this size serves all of the usual viewports; a larger one is made for those that ask for it. */
export const USUAL_MAX_SCREEN: MaxScreen = { width: 2560, height: 1600 }

/** Ends an instance whose end nothing waits for. When that does not work now, it is logged, and the instance's driver goes on trying. */
export async function letGo(instance: Instance, log: Log): Promise<void> {
  try {
    await instance[Symbol.asyncDispose]()
  } catch (err) {
    log.error({ err, instance: instance.id }, 'an instance could not be ended yet')
  }
}
