// What a fleet is made of (types only).
import type { Log } from '../../../../base/log.ts'
import type { Memory } from '../../../../base/memory.ts'
import type { Driver, Instance } from '../../../../instances/driver.ts'
import type { Db } from '../../../../store/db.ts'
import type { EventNotifier } from '../../../../store/events.ts'
import type { Leases } from '../../../../store/leases.ts'
import type { ProjectSeats } from '../../../../store/seats.ts'
import type { EndStep } from '../end-step.ts'
import type { Endpoints } from '../../../../http/stored-endpoint.ts'
import type { Kind } from './kinds.ts'
import type { PoolSource } from './pools.ts'
import type { Registry } from './registry.ts'
import type { WarmPoolMeter } from './warm-pool-state.ts'

export interface FleetSettings {
  db: Db
  driver: Driver
  scope: string
  /** Who shares this scope. Nobody, unless given. */
  leases?: Leases
  /** How replicas tell each other; needed when others share this scope. */
  notifier?: EventNotifier
  /** Most sessions of this scope. Each replica counts its own by `Fleet.seat` besides. */
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
  /** The pools that it keeps browsers for. None, unless given. */
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
