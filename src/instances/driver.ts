// THE SEAM. A driver starts instances and finds those that run. Code above it does not depend on which driver it has.
import type { Readable } from 'node:stream'
import type { Log } from '../base/log.ts'
import { RETRY_SECONDS, Unavailable } from '../base/unavailable.ts'
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
  /** The API's ports on this host's addresses. At these the session's own URLs work inside the session, and nothing else of the API does. */
  apiPorts: readonly number[]
  /** Nobody waits for it until this resolves. So long its start leaves the CPU to what callers do, where the driver can arrange that. */
  wanted?: Promise<void>
}

/** Why an instance has ended. */
export interface Exit {
  reason: string
  /** It was ended because it exceeded this limit. */
  limit?: 'disk' | 'memory'
  /** Or this has ended it: the engine needed its place, its machine is away, or its browser crashed again and again. */
  cause?: 'evicted' | 'node_lost' | 'browser_failed'
}

/**
 * What a driver has started. Disposing ends it and removes everything it had: processes, sockets, limits and its directory (files may be removed later,
 * also after a restart). Disposing rejects when that does not work now. It may then be disposed again, and its driver retries by itself until the
 * service stops. After a restart, the next `list` continues.
 */
interface Started extends AsyncDisposable {
  readonly id: string
  /** Resolves when it has ended, by itself or because we ended it. */
  readonly exited: Promise<Exit>
  /** Stops watching it without ending it, because another service watches it now. After that `exited` does not resolve, and it counts for nothing here. */
  unwatch(): void
}

/** What a driver finds in its scope. */
export interface Found {
  id: string
  /** The replica that has started it, if that is known. Another one may watch it by now. */
  replica: string | undefined
}

/** An engine has no room for another instance now. The message says why, for callers. */
export class NoRoom extends Error {
  override name = 'NoRoom'
}

/** An engine does not answer just now. Nothing was started, or it is removed when the engine is back. */
export class EngineAway extends Unavailable {
  constructor(cause: unknown) {
    super('the engine that starts browsers does not answer at the moment; try again', RETRY_SECONDS, cause, true)
  }
}

/** A running instance. */
export interface Instance extends Started {
  /** Where its agent answers. */
  readonly agent: Endpoint
  /** Signals its processes to end at once, and waits for nothing. Disposing does the rest. @throws when they cannot be looked for now */
  kill(): void
}

/** A running sandbox of an app: a build, or one run. */
export interface AppSandbox extends Started {
  /** Where its runner (runner/contract.ts) answers. */
  readonly runner: Endpoint
  /**
   * Says that the code of a build is stored as the object `key`. A driver that keeps copies of code may take it from the sandbox when that ends. Without
   * this call, what the build has made is removed with its sandbox.
   */
  stored(key: string): void
}

/** The code of an app as the object store has it, packed by a runner. */
export interface AppCode {
  /** The object's key. Its last part, after the last `/`, is the code's name wherever a driver needs one. */
  key: string
  /** Its size, packed. */
  bytes: number
  /** Its content. @throws CodeUnavailable */
  open(signal: AbortSignal): Promise<Readable>
}

/** The code of an app cannot be had. The message says why, for callers. */
export class CodeUnavailable extends Error {
  override name = 'CodeUnavailable'
}

/** How the sandbox of an app is started: for a build or for one run. */
export interface AppSandboxSpec {
  /** Of a build. Another sandbox has an id of its own. */
  id: string
  /** The code that it runs; none for a build. */
  code?: AppCode
  /** The input for the runner inside. */
  runner: RunnerSpec
  /** Of a build: whose downloads it uses. What one build leaves there, the next one of the same owner runs, so builds of different owners share none. Its own, if absent. */
  downloadsOf?: string
  /** Where the app's code reaches the API: an origin. It is what the code finds in KERNEL_BASE_URL. */
  apiUrl: string
}

/** Builds and runs the code of apps. Disposing ends the prepared sandboxes, but none that runs; disposing the driver does so, too. */
export interface AppSandboxes extends AsyncDisposable {
  /** Starts a sandbox. Resolves when its runner answers, which is before its app is loaded. @throws CodeUnavailable when its code cannot be had */
  start(spec: AppSandboxSpec, signal: AbortSignal): Promise<AppSandbox>
  /** Every sandbox that exists in this scope, or of which something is left, also when another service has started it. */
  found(): Promise<Found[]>
  /** Watches a sandbox that another service has started. Undefined when it does not run any more; what is left of it is removed then. */
  adopt(id: string): Promise<AppSandbox | undefined>
  /** Says that the code of this key is not needed any more: copies of it may go. Sandboxes that use it keep it. */
  forget(key: string): Promise<void>
}

/** Starts and finds instances. */
export interface Instances {
  /** Starts an instance. Resolves when its browser answers. On failure, everything that was started is ended. @throws NoRoom, EngineAway */
  start(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>
  /** Every instance that exists in this scope, or of which something is left, also when another service has started it. */
  found(): Promise<Found[]>
  /** Watches an instance that another service has started. Undefined when it does not run any more; what is left of it is removed then. */
  adopt(id: string): Promise<Instance | undefined>
}

/** Adopts everything that is found and runs, and removes what is left of the rest. */
export async function adoptAll<T>(from: { found(): Promise<Found[]>; adopt(id: string): Promise<T | undefined> }): Promise<T[]> {
  const adopted = await Promise.all((await from.found()).map(({ id }) => from.adopt(id)))
  return adopted.filter((one) => one !== undefined)
}

/** What leads around the proxy of an instance's browser. Calls may be repeated, also by another service. An instance that has none, or has ended, is no error. */
export interface DirectWays {
  /**
   * Refuses the UDP of all of the instance, except to its resolvers. Call it while the browser turns to its proxy, and what it returns when the browser has: that ends
   * the TCP connections that the browser still has to others.
   */
  close(id: string): Promise<() => Promise<void>>
  /** Undoes {@link close}. */
  open(id: string): Promise<void>
}

/** Stops the processes of an instance, and lets them go on. Its agent stays awake. Calls may be repeated, also by another service that shares the scope. */
export interface Standby {
  /**
   * Stops them, unless a service has called {@link wake} within `unusedMs`, or does so meanwhile, or the signal aborts. Resolves with whether they
   * stand still. Otherwise they go on.
   */
  sleep(id: string, unusedMs: number, signal: AbortSignal): Promise<boolean>
  /** Lets them go on, before it returns. An instance that is awake, or has ended, is no error. */
  wake(id: string): void
  /** Whether they are stopped. What the driver does to an instance by itself wakes it, without a call of {@link wake}. */
  isAsleep(id: string): boolean
  /** Gives memory of an instance that sleeps back to the machine, as far as that is possible, until the signal aborts. Does not reject. */
  reclaim(id: string, signal: AbortSignal): Promise<void>
}

/** Both kinds of sandboxes on one engine. Disposing ends prepared sandboxes and running removals, but no instance. */
export interface Driver extends Instances, AsyncDisposable {
  apps: AppSandboxes
  /** Absent: the driver cannot close them. What a browser has open when it gets a proxy then goes on directly. */
  directWays?: DirectWays
  /** Absent: the driver cannot stop instances. Sessions that nobody uses stay awake then. */
  standby?: Standby
  /**
   * Called when the machine's disk is nearly full. Ends the instance or app sandbox that uses most of it and returns its id; undefined when none
   * uses much.
   */
  relieve(): Promise<string | undefined>
}

/** A display of this size serves all of the usual viewports. A larger one is made for sessions that ask for it. */
export const USUAL_MAX_SCREEN: MaxScreen = { width: 2560, height: 1600 }

/** Ends an instance or a sandbox. When that does not work now, it is logged, and its driver retries. */
export async function letGo(instance: Started, log: Log): Promise<void> {
  try {
    await instance[Symbol.asyncDispose]()
  } catch (err) {
    log.error({ err, instance: instance.id }, 'an instance could not be ended yet')
  }
}
