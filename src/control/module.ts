// The interface of a group of the API: the parts that it brings to the control plane, and the parts that it gets. A new group: copy test/template-group, and
// add a line to modules.ts.
import type { RawBuilder, SqlBool } from 'kysely'
import type { Config } from '../base/config.ts'
import type { Keys } from '../base/keys.ts'
import type { Log } from '../base/log.ts'
import type { DataPaths } from '../base/paths.ts'
import { mount, type MountContext } from '../http/mount.ts'
import type { Contract, Handlers } from '../http/route.ts'
import type { Endpoints } from '../http/stored-endpoint.ts'
import type { UpgradeHandler } from '../http/upgrade.ts'
import type { Driver } from '../instances/driver.ts'
import type { Db } from '../store/db.ts'
import type { EventNotifier } from '../store/events.ts'
import type { Leases } from '../store/leases.ts'
import type { Objects } from '../store/objects.ts'
import type { SealedColumn } from '../store/sealed-columns.ts'
import type { ObjectOwner } from '../store/sweep.ts'
import type { Tables } from '../store/tables.ts'
import type { Disk } from './service/system/disk.ts'
import type { Metrics } from './service/system/metrics.ts'

/** A group of the API, or a part of the service. All fields but `open` are data, which commands also read, without a service. */
export interface Module<Part = unknown> {
  /** The name of its folder, or of its file. */
  name: string
  /** Its calls. */
  contracts?: readonly Contract[]
  /** Columns with encrypted values: `cob secrets rotate` encrypts them again. */
  sealed?: readonly SealedColumn[]
  /** Rows that name objects: an object that no row names is removed. */
  objects?: readonly ((db: Db, scope: string) => ObjectOwner)[]
  /** Removal of old rows. */
  purges?: (given: PurgeSettings) => readonly Purge[]
  /** Work that one replica does for all of its scope: names of leases. */
  duties?: readonly string[]
  /** Objects of the group in a project, which keep the project from being deleted. */
  holdings?: readonly Holding[]
  /** How many of something a project, or this scope, has. Limits of projects use these counts. */
  counts?: Partial<Record<Counted, Count>>
  /** Opens its part and connects it: mounts its calls, fills hooks. No work starts before {@link phases}. */
  open?: (house: House) => Part | Promise<Part>
}

/** What purges need. */
export interface PurgeSettings {
  db: Db
  objects: Objects
  scope: string
  config: Pick<Config, 'keepEndedDays' | 'auditLogRetentionDays' | 'replayRetentionDays' | 'telemetryRetentionDays'>
}

/** Removes one kind of old rows, a batch at a time, and returns their number. Stops between two batches when the signal aborts. */
export interface Purge {
  what: string
  run(signal: AbortSignal): Promise<number>
}

/** Objects of one kind that live in a project. */
export interface Holding {
  /** Their name, as in "3 live browsers". */
  called: string
  /** Whether they are running. While there are such objects, the project cannot be archived, because nobody could end them. */
  isAtWork: boolean
  /** Their table, and the condition for rows that are over (by default none). When the project is deleted, rows that are over stay without a project. */
  table: keyof Tables
  isOver?: RawBuilder<SqlBool>
  /** The condition for rows that keep the project from being deleted; by default all rows that are not over. */
  keeps?: RawBuilder<SqlBool>
}

export type Counted = 'sessions' | 'invocations' | 'auth_connections'
export type Count = (db: Db, of: { project: string } | { scope: string }) => Promise<number>

/** Types a module by what `open` returns. */
export const defineModule = <Part = void>(module: Module<Part>): Module<Part> => module

/**
 * A place where modules notify or ask each other. The module that asks defines the hook; other modules fill it. `isOne`: exactly one module fills it. When all
 * modules are open, the start checks that, so no call finds the hook empty.
 */
export interface Hook<T> {
  what: string
  isOne: boolean
  /** For types only. */
  readonly _?: T
}

/** A hook that any number of modules fill, in the order of the modules. */
export const hook = <T>(what: string): Hook<T> => ({ what, isOne: false })
/** A hook that exactly one module fills. */
export const question = <T>(what: string): Hook<T> => ({ what, isOne: true })

type Step = () => void | PromiseLike<void>

/** The phases of a service, run for all modules one after the other: the first four in the order of the list, the others in reverse order. */
export const phases = {
  /** Takes over the instances that the last service left. */
  takeOver: hook<Step>('taking over instances'),
  /** Continues work that the last service began. None of it is ended before. */
  adopt: hook<Step>('going on with earlier work'),
  /** Everything is taken over: ends objects without a counterpart. */
  settle: hook<Step>('settling'),
  /** The service listens: starts the work in the background. */
  start: hook<Step>('starting'),
  /** No new callers: ends everything that runs. */
  stop: hook<Step>('stopping'),
  /** Nothing runs: ends the work in the background. */
  close: hook<Step>('closing'),
  /** Other replicas have taken over: disconnects clients. */
  leave: hook<Step>('leaving'),
}

/** The base of the service, opened before the first module. */
export interface Foundation {
  config: Config
  log: Log
  paths: DataPaths
  scope: string
  replica: string
  keys: Keys
  endpoints: Endpoints
  driver: Driver
  disk: Disk
  db: Db
  leases: Leases
  notifier: EventNotifier
  objects: Objects
  metrics: Metrics
  /** Aborts the start. */
  signal: AbortSignal
}

/** The parts that a module gets. */
export interface House extends Foundation {
  modules: readonly Module[]
  /** The part of a module that is before this one in the list. */
  of<Part>(module: Module<Part>): Part
  /** Adds a value to a hook. */
  fill<T>(hook: Hook<T>, value: T): void
  /** All values of a hook. Complete when all modules are open. */
  all<T>(hook: Hook<T>): readonly T[]
  /** The answer to a question, once all modules are open. */
  ask<T>(question: Hook<T>): () => T
  /** Serves a group's calls. */
  mount<C extends Contract>(contract: C, handlers: Handlers<C>): void
  /** Serves routes that are not plain calls: pages, forwarded calls. Called when the server is made. */
  serve(add: (context: MountContext) => void): void
  /** Serves WebSockets, by path. */
  upgrade(handlers: Record<string, UpgradeHandler>): void
  /** Closes a resource when the service has ended, the last one first. */
  use<T extends Disposable | AsyncDisposable>(resource: T): T
  /** Registers work that starts before the first caller comes, and ends after {@link phases}.close. */
  background(begin: () => AsyncDisposable): void
  count(kind: Counted): Count
  serving: Serving
}

/** The server. It is created after all modules are open. */
export interface Serving {
  /** Number of open WebSockets. */
  openSockets(): number
  /** The address on which the API listens. @throws before it listens */
  bound(): { address: string; port: number }
  /** The port, once the API listens. */
  listening: Promise<number>
}

/** A house whose modules can be opened and run. */
export interface Opening {
  /** Opens all modules, in their order. @throws when their questions and answers do not fit */
  openAll(): Promise<House>
  run(phase: Hook<Step>): Promise<void>
  /** Adds all routes, in the order of the modules. Returns the handlers of WebSockets. */
  mountAll(context: MountContext): Record<string, UpgradeHandler>
  /** Starts the work in the background. Disposing the result ends it. */
  beginBackground(): AsyncDisposable
}

/** @throws when two modules have one name */
export function opening(foundation: Foundation, serving: Serving, modules: readonly Module[], opened: AsyncDisposableStack): Opening {
  const names = modules.map(({ name }) => name)
  if (new Set(names).size < names.length) throw new Error(`two modules have the same name: ${names.join(', ')}`)
  const parts = new Map<Module, unknown>()
  const filled = new Map<Hook<unknown>, unknown[]>()
  const asked = new Set<Hook<unknown>>(Object.values(phases))
  const routes: ((context: MountContext) => void)[] = []
  const sockets: Record<string, UpgradeHandler> = {}
  const backgrounds: (() => AsyncDisposable)[] = []
  const valuesOf = <T>(of: Hook<T>): T[] => {
    const values = (filled.get(of) ?? []) as T[]
    filled.set(of, values)
    return values
  }
  const house: House = {
    ...foundation,
    modules,
    serving,
    of<Part>(module: Module<Part>): Part {
      if (!parts.has(module)) throw new Error(`the module ${module.name} is not open yet: it has to be before those that use it`)
      return parts.get(module) as Part
    },
    fill: (of, value) => void valuesOf(of).push(value),
    all(of) {
      asked.add(of)
      return valuesOf(of)
    },
    ask(of) {
      const values = house.all(of)
      return () => {
        if (values[0] === undefined) throw new Error(`${of.what}: asked before all modules are open`)
        return values[0]
      }
    },
    mount: (contract, handlers) => void routes.push((context) => mount(context, contract, handlers)),
    serve: (add) => void routes.push(add),
    upgrade: (handlers) => void Object.assign(sockets, handlers),
    use: (resource) => opened.use(resource),
    background: (begin) => void backgrounds.push(begin),
    count(kind) {
      const [count, ...others] = modules.flatMap(({ counts }) => counts?.[kind] ?? [])
      if (!count || others.length > 0) throw new Error(`${others.length + (count ? 1 : 0)} modules count ${kind}`)
      return count
    },
  }

  /** A question without an answer would fail at its first use, and an answer without a question would never be used. */
  function assertComplete(): void {
    const problems = [...filled].flatMap(([of, values]) => [
      ...(of.isOne && values.length !== 1 ? [`${of.what}: ${values.length} answers`] : []),
      ...(values.length > 0 && !asked.has(of) ? [`${of.what}: nobody asks`] : []),
    ])
    if (problems.length > 0) throw new Error(`the modules do not fit together: ${problems.join('; ')}`)
  }

  return {
    async openAll() {
      for (const module of modules) {
        foundation.signal.throwIfAborted()
        parts.set(module, await module.open?.(house))
      }
      assertComplete()
      return house
    },
    async run(phase) {
      const isEnd = [phases.stop, phases.close, phases.leave].includes(phase)
      const steps = house.all(phase)
      for (const step of isEnd ? steps.toReversed() : steps) await step()
    },
    mountAll(context) {
      for (const add of routes) add(context)
      return sockets
    },
    beginBackground() {
      const begun = new AsyncDisposableStack()
      for (const begin of backgrounds) begun.use(begin())
      return begun
    },
  }
}
