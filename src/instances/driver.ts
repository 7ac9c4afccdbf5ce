// THE SEAM. A driver starts instances and finds those that run. Code above it does not depend on the kind of driver.
import type { Readable } from 'node:stream'
import type { Log } from '../base/log.ts'
import { RETRY_SECONDS, Unavailable } from '../base/unavailable.ts'
import type { Endpoint } from '../http/endpoint.ts'
import type { MaxScreen } from '../agent/spec.ts'
import type { Viewport } from '../agent/session/contract.ts'
import type { RunnerSpec } from '../runner/contract.ts'

/** The settings of a new instance that many instances share. */
export interface InstanceForm {
  viewport: Viewport
  /** The largest viewport that it can be given later. */
  maxScreen: MaxScreen
  /** Its browser is the headless shell, without a display. */
  lean?: boolean | undefined
  /** The API's ports on this host's addresses. At these ports only the session's own URLs work inside the session, and nothing else of the API. */
  apiPorts: readonly number[]
}

/** The settings of a new instance. */
export interface InstanceSpec extends InstanceForm {
  /** A new id, or that of a {@link Reserved} sandbox. */
  id: string
  /** Resolves when a caller waits for the instance. Until then its start yields the CPU to callers' work, if the driver supports that. */
  wanted?: Promise<void>
}

/** A prepared sandbox that is reserved for the start of an instance with its id. Disposing gives it back, unless it was started. */
export interface Reserved extends Disposable {
  readonly id: string
}

/** The reason why an instance has ended. */
export interface Exit {
  reason: string
  /** The limit that it exceeded, and for which it was ended. */
  limit?: 'disk' | 'memory'
  /** Another cause of its end: the engine needed its place, its machine is away, or its browser crashed again and again. */
  cause?: 'evicted' | 'node_lost' | 'browser_failed'
}

/**
 * Something that a driver has started. Disposing ends it and removes everything that it had: processes, sockets, limits and its directory (files may be removed
 * later, also after a restart). Disposing rejects when this fails. It may then be disposed again, and its driver retries by itself until the service stops.
 * After a restart, the next `list` continues.
 */
interface Started extends AsyncDisposable {
  readonly id: string
  /** Resolves when it has ended, by itself or because we ended it. */
  readonly exited: Promise<Exit>
  /** Stops watching it without ending it, because another service watches it now. After that `exited` does not resolve, and it is not counted here. */
  unwatch(): void
}

/** An instance or sandbox that a driver finds in its scope. */
export interface Found {
  id: string
  /** The replica that has started it, if known. Another replica may watch it by now. */
  replica: string | undefined
  /** It is a prepared sandbox: no row names it, and its replica needs it while that lives. */
  isPrepared?: boolean
}

/** An engine has no room for another instance now. The message says why, for callers. */
export class NoRoom extends Error {
  override name = 'NoRoom'
}

/** An engine does not answer just now. Nothing was started, or the container is removed when the engine is back. */
export class EngineAway extends Unavailable {
  constructor(cause: unknown) {
    super('the engine that starts browsers does not answer at the moment; try again', RETRY_SECONDS, cause, true)
  }
}

/** A running instance. */
export interface Instance extends Started {
  /** The address of its agent. */
  readonly agent: Endpoint
  /** Signals its processes to end at once, and waits for nothing. Disposing does the rest. @throws when they cannot be listed now */
  kill(): void
}

/** A running sandbox of an app: a build, or one run. */
export interface AppSandbox extends Started {
  /** The address of its runner (runner/contract.ts). */
  readonly runner: Endpoint
  /**
   * Says that the code of a build is stored as the object `key`. A driver that keeps copies of code may take it from the sandbox when that ends. Without this
   * call, the result of the build is removed with its sandbox.
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
  /** The id of a build. Other sandboxes have ids of their own. */
  id: string
  /** The code that it runs; none for a build. */
  code?: AppCode
  /** The input for the runner inside. */
  runner: RunnerSpec
  /**
   * Of a build: the owner whose downloads it uses. The next build of the same owner runs what one build leaves there, so builds of different owners share
   * nothing. Its own id if absent.
   */
  downloadsOf?: string
  /** The API's origin for the app's code; the code finds it in KERNEL_BASE_URL. */
  apiUrl: string
}

/** Builds and runs the code of apps. Disposing ends the prepared sandboxes, but no running one; disposing the driver does the same. */
export interface AppSandboxes extends AsyncDisposable {
  /** Starts a sandbox. Resolves when its runner answers, which is before its app is loaded. @throws CodeUnavailable when its code cannot be had */
  start(spec: AppSandboxSpec, signal: AbortSignal): Promise<AppSandbox>
  /** Every sandbox in this scope that exists or has remains, also when another service has started it. */
  found(): Promise<Found[]>
  /** Watches a sandbox that another service has started. Undefined when it does not run any more; then its remains are removed. */
  adopt(id: string): Promise<AppSandbox | undefined>
  /** Tells the driver that the code of this key is not needed any more: it may delete copies. Sandboxes that use it keep it. */
  forget(key: string): Promise<void>
}

/** Starts and finds instances. */
export interface Instances {
  /** Reserves a sandbox that is prepared for such an instance. Undefined, or absent, when there is none: then the whole instance is started. */
  reserve?(form: InstanceForm): Reserved | undefined
  /** Starts an instance. Resolves when its browser answers. On failure, everything that was started is ended. @throws NoRoom, EngineAway */
  start(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>
  /** Every instance in this scope that exists or has remains, also when another service has started it. */
  found(): Promise<Found[]>
  /** Watches an instance that another service has started. Undefined when it does not run any more; then its remains are removed. */
  adopt(id: string): Promise<Instance | undefined>
}

/** Adopts everything found that runs, and removes the remains of everything else but prepared sandboxes. */
export async function adoptAll<T>(from: { found(): Promise<Found[]>; adopt(id: string): Promise<T | undefined> }): Promise<T[]> {
  const adopted = await Promise.all((await from.found()).filter(({ isPrepared }) => !isPrepared).map(({ id }) => from.adopt(id)))
  return adopted.filter((one) => one !== undefined)
}

/**
 * The connections of an instance that bypass its browser's proxy. Calls may be repeated, also by another service. An instance without such connections, or an
 * ended one, is no error.
 */
export interface DirectWays {
  /**
   * Refuses the UDP of the whole instance, except to its resolvers. Call it while the browser switches to its proxy. Call the returned function when the switch
   * is done: it ends the browser's remaining TCP connections to other hosts.
   */
  close(id: string): Promise<() => Promise<void>>
  /** Undoes {@link close}. */
  open(id: string): Promise<void>
}

/** Stops the processes of an instance, and continues them. Its agent stays awake. Calls may be repeated, also by another service that shares the scope. */
export interface Standby {
  /**
   * Stops them, unless a service has called {@link wake} within `unusedMs`, or calls it meanwhile, or the signal aborts. Resolves with whether they are
   * stopped. Otherwise they continue.
   */
  sleep(id: string, unusedMs: number, signal: AbortSignal): Promise<boolean>
  /** Continues them before it returns. An instance that is awake, or has ended, is no error. */
  wake(id: string): void
  /** Whether they are stopped. The driver's own actions on an instance wake it, without a call of {@link wake}. */
  isAsleep(id: string): boolean
  /** Returns memory of a sleeping instance to the machine, as far as possible, until the signal aborts. Does not reject. */
  reclaim(id: string, signal: AbortSignal): Promise<void>
}

/** Both kinds of sandboxes on one engine. Disposing ends prepared sandboxes and running removals, but no instance. */
export interface Driver extends Instances, AsyncDisposable {
  /** Whether its browsers load pages. If not, the service takes no action of its own that needs a page, such as a login. */
  readonly loadsPages: boolean
  apps: AppSandboxes
  /** Absent when the driver cannot close them. Connections that a browser has open when it gets a proxy then continue directly. */
  directWays?: DirectWays
  /** Absent when the driver cannot stop instances. Unused sessions stay awake then. */
  standby?: Standby
  /** Called when the machine's disk is nearly full. Ends the instance or app sandbox that uses most of it and returns its id; undefined when none uses much. */
  relieve(): Promise<string | undefined>
}

/** A display of this size is large enough for all usual viewports. A larger one is made for sessions that request it. */
export const USUAL_MAX_SCREEN: MaxScreen = { width: 2560, height: 1600 }

/** Ends an instance or a sandbox. A failure is logged, and its driver retries. */
export async function letGo(instance: Started, log: Log): Promise<void> {
  try {
    await instance[Symbol.asyncDispose]()
  } catch (err) {
    log.error({ err, instance: instance.id }, 'an instance could not be ended yet')
  }
}
