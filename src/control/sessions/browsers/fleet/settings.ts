// The settings of a fleet (types only).
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
  /** The replicas that share this scope. None unless given. */
  leases?: Leases
  /** How replicas tell each other of changes; needed when replicas share this scope. */
  notifier?: EventNotifier
  /** Most sessions of this scope, including the sizes of its pools. No limit unless given. */
  maxSessions?: number
  /** The limits of projects. No project has one unless given. */
  projectSeats?: ProjectSeats
  /** Empty at first. The steps of an end may use it, too. */
  registry: Registry
  endpoints: Endpoints
  /** The kinds of instances that are kept ready. */
  kinds: readonly Kind[]
  /** Most ready instances of all kinds together, beyond the minimum of each; no limit unless given. */
  mostReady?: number
  /** How browsers of owned pools are made. No such pools unless given. */
  pools?: PoolSource
  /** The steps of the end of a session, in this order. Called once, at the first end. */
  endSteps: () => readonly EndStep[]
  /** Whether the disk has room for another ready instance. */
  hasRoom?: () => boolean
  /** Replaces the query of the machine's memory. */
  memory?: () => Memory
  /** Replaces the clock of demand, in milliseconds. */
  now?: () => number
  /** Boots at the same time; one per processor unless given. */
  bootsAtOnce?: number
  meter?: WarmPoolMeter
  /** Called for each session and each browser of a pool that this service starts to watch but has not booted itself. */
  onTaken?: (session: Instance) => void
  /** Called for each other browser that this service watches when a dead replica had the links of its proxy. */
  onLinksLost?: (session: Instance) => void
  log: Log
  /** Ports at which clients on this machine reach the API. Known once the service listens. */
  apiPorts: () => number[]
}

/** How to make the next browser of an owned pool. */
export interface PoolBoot {
  ownership: PoolOwnership
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen' | 'lean'>
  /** Configures a booted browser, given by its row, for the sessions of its pool. @throws when the browser refuses a setting */
  configure(row: BrowserRow, signal: AbortSignal): Promise<void>
}

export interface PoolSource {
  /** Undefined when the pool was deleted. @throws a fault when its configuration names something that was deleted */
  plan(pool: string): Promise<PoolBoot | undefined>
  /** Records that a browser of the pool was made, or the error why not. Does not wait. */
  made(pool: string, error: unknown): void
}

/** Receives the events of the warm pool, for metrics. */
export interface WarmPoolMeter {
  /** A caller got an instance: it was ready before, or the caller waited for it. */
  served(wasReady: boolean, seconds: number): void
  booting(isAwaited: boolean): void
  bootFailed(isAwaited: boolean): void
}

/** The present state of the pools. */
export interface PoolsState {
  /** Callers who wait for a boot, or for their turn to look. */
  waiting: number
  /** Boots under way. */
  booting: number
  /** How many of each kind should be ready; one number for all owned pools together. */
  wanted: Record<string, number>
}
