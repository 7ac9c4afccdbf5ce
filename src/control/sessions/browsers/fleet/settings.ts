// What a fleet is made of (types only).
import type { Log } from '../../../../base/log.ts'
import type { Memory } from '../../../../base/memory.ts'
import type { Endpoints } from '../../../../http/stored-endpoint.ts'
import type { Driver, Instance, InstanceSpec } from '../../../../instances/driver.ts'
import type { Db } from '../../../../store/db.ts'
import type { EventNotifier } from '../../../../store/events.ts'
import type { Leases } from '../../../../store/leases.ts'
import type { ProjectSeats } from '../../../../store/seats.ts'
import type { EndStep } from '../end-step.ts'
import type { PoolOwnership } from '../pooled-rows.ts'
import type { BrowserRow } from '../rows.ts'
import type { Kind } from './kinds.ts'
import type { Registry } from './registry.ts'

export interface FleetSettings {
  db: Db
  driver: Driver
  scope: string
  /** Who shares this scope. Nobody, unless given. */
  leases?: Leases
  /** How replicas tell each other; needed when others share this scope. */
  notifier?: EventNotifier
  /** Most sessions of this scope, those included that pools may have. No limit, unless given. */
  maxSessions?: number
  /** Of projects that have a limit of their own. None has one, unless given. */
  projectSeats?: ProjectSeats
  /** Empty at first. The steps of an end may use it, too. */
  registry: Registry
  endpoints: Endpoints
  /** What is kept ready. */
  kinds: readonly Kind[]
  /** Most ready instances of all kinds together, beyond the least of each; no limit unless given. */
  mostReady?: number
  /** How browsers of owned pools are made. There are no such pools, unless given. */
  pools?: PoolSource
  /** What happens when a session ends, in this order. Asked once, at the first end. */
  endSteps: () => readonly EndStep[]
  /** Whether the disk has room for another ready instance. */
  hasRoom?: () => boolean
  /** The machine's memory, when it is not asked for. */
  memory?: () => Memory
  /** The time in milliseconds that demand is remembered by, when it is not the machine's. */
  now?: () => number
  /** Boots at the same time; one per processor unless given. */
  bootsAtOnce?: number
  meter?: WarmPoolMeter
  /** Called for each session, and browser of a pool, that this service has just begun to watch, and has not made itself. */
  onTaken?: (session: Instance) => void
  log: Log
  /** Where clients on this machine reach the API. Known once it listens. */
  apiPorts: () => number[]
}

/** How the next browser of an owned pool is made. */
export interface PoolBoot {
  ownership: PoolOwnership
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen'>
  /** Gives a booted browser, by its row, all that its sessions want. @throws when it does not take that */
  configure(row: BrowserRow, signal: AbortSignal): Promise<void>
}

export interface PoolSource {
  /** Undefined when the pool was deleted. @throws a fault when its configuration names what does not exist any more */
  plan(pool: string): Promise<PoolBoot | undefined>
  /** Records that a browser of the pool could be made, or why not. Does not wait. */
  made(pool: string, error: unknown): void
}

/** Gets what the warm pool does, for metrics. */
export interface WarmPoolMeter {
  /** A caller got an instance: one that was ready when it asked, or one that it waited for. */
  served(wasReady: boolean, seconds: number): void
  booting(isAwaited: boolean): void
  bootFailed(isAwaited: boolean): void
}

/** The pools as they are now. */
export interface PoolsState {
  /** Callers who wait for a boot, or for their turn to look. */
  waiting: number
  /** Boots under way. */
  booting: number
  /** How many of each kind should be ready; those of all owned pools together. */
  wanted: Record<string, number>
}
