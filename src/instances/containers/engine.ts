// The interface between the containers' driver (driver.ts) and an engine: it starts containers with their standard input, finds those of a scope, and ends
// them.
import type { Exit, Found } from '../driver.ts'

/** The kind of a container: the instance of a session, or a build or run of an app. */
export type ContainerKind = 'browser' | 'app'

/** The TCP port at which the program in a container answers, over TLS. */
export const PROGRAM_PORT = 2628

/** A folder in memory, and its limit. */
export interface Folder {
  path: string
  bytes: number
  inodes: number
  /** The mode, as for chmod. */
  mode: string
}

/** How a container is made. Only {@link input} is secret: the engine shows the rest to its users. */
export interface ContainerPlan {
  id: string
  kind: ContainerKind
  /** Arguments of the image's own program (images/guest). */
  args: string[]
  env: Record<string, string>
  /** Its standard input; it is closed after this. Nobody can read it from the engine. */
  input: string
  /** Empty folders that it may write, owned by its user. Everything else is read-only. Their files count towards its memory limit. */
  folders: Folder[]
  limits: { memoryBytes: number; pids: number; cpuPercent: number }
  /** Servers that it may reach although they are in closed networks: the API, for an app. The host `host.cob.internal` is the engine's own. */
  reaches: Address[]
  /** Data that the next service needs for an adoption. The engine keeps it. The driver has sealed the secrets in it. */
  note: string
}

/** The address of the program in a container. */
export interface Address {
  host: string
  port: number
}

/** A running container. */
export interface Running {
  note: string
  address: Address
}

export interface Engine extends AsyncDisposable {
  /**
   * Starts a container and closes its network to everything that a session must not reach. An app gets its input only after that. Resolves when both steps are
   * done; its program may not listen yet. After a failure remains may exist; {@link remove} removes them.
   */
  start(plan: ContainerPlan, signal: AbortSignal): Promise<Address>
  /** Every container of a kind in this scope, whether it runs or not. */
  found(kind: ContainerKind): Promise<Found[]>
  /** A container of this id; undefined when it does not run. */
  running(kind: ContainerKind, id: string): Promise<Running | undefined>
  /** Why it has ended; undefined while it runs, and for up to {@link noticesMs} after its end. */
  whyEnded(kind: ContainerKind, id: string): Promise<Exit | undefined>
  /** Longest time until the engine reports an end. */
  readonly noticesMs: number
  /** The last output of its programs, for the log of a failed start. */
  said(kind: ContainerKind, id: string): Promise<string>
  /** Ends it at once, and resolves when nothing is left of it. A missing container is no error. */
  remove(kind: ContainerKind, id: string): Promise<void>
}

/** Characters of a container's output that are kept for an error. */
const MAX_SAID = 2_000

/** The last of a container's output, without unprintable characters. */
export const printed = (output: string): string => output.replace(/[^\t\n\x20-\x7e]+/g, ' ').slice(-MAX_SAID)
