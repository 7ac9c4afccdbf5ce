// What an engine of containers does for the driver over it (driver.ts): starts containers with their standard input, finds those of a scope, and ends them.
import type { Exit, Found } from '../driver.ts'

/** Which sandbox a container is: the instance of a session, or a build or run of an app. */
export type ContainerKind = 'browser' | 'app'

/** The TCP port at which the program in a container answers, over TLS. */
export const PROGRAM_PORT = 2628

/** Room in memory for the files of one folder. */
export interface Folder {
  path: string
  bytes: number
  inodes: number
  /** As for chmod. */
  mode: string
}

/** How a container is made. Only {@link input} is secret: the engine shows the rest to its users. */
export interface ContainerPlan {
  id: string
  kind: ContainerKind
  /** Arguments of the image's own program (images/guest). */
  args: string[]
  env: Record<string, string>
  /** Its standard input, which ends after it. Nobody can read it from the engine. */
  input: string
  /** Empty folders that it may write, owned by its user. All else is read-only. Their files count as its memory. */
  folders: Folder[]
  limits: { memoryBytes: number; pids: number; cpuPercent: number }
  /** Servers that it may reach although its network is closed to them: the API, for an app. The host `host.cob.internal` is the engine's own. */
  reaches: Address[]
  /** What the next service needs to adopt it, kept by the engine. The driver has sealed what is secret in it. */
  note: string
}

/** Where the program in a container is reached. */
export interface Address {
  host: string
  port: number
}

/** A container that still runs. */
export interface Running {
  note: string
  address: Address
}

export interface Engine extends AsyncDisposable {
  /**
   * Starts a container and closes its network to everything that a session must not reach; an app gets its input only after that. Resolves when both is done; its program may not
   * listen yet. On failure something may be left, which {@link remove} removes.
   */
  start(plan: ContainerPlan, signal: AbortSignal): Promise<Address>
  /** Every container of a kind in this scope, whether it runs or not. */
  found(kind: ContainerKind): Promise<Found[]>
  /** Undefined when it does not run. */
  running(kind: ContainerKind, id: string): Promise<Running | undefined>
  /** Why it has ended; undefined while it runs, and for {@link noticesMs} at most after that. */
  whyEnded(kind: ContainerKind, id: string): Promise<Exit | undefined>
  /** How long an engine may take until it knows of an end. */
  readonly noticesMs: number
  /** The last of what its programs have printed, for the log of a failed start. */
  said(kind: ContainerKind, id: string): Promise<string>
  /** Ends it at once, and resolves when nothing is left of it. One that is not there is no error. */
  remove(kind: ContainerKind, id: string): Promise<void>
}
