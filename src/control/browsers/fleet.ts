// The instances of sessions. Connects the parts in fleet/. Knows nothing of requests.
import type { Log } from '../../base/log.ts'
import { Seats } from '../../base/seats.ts'
import { letGo, type Driver, type Exit, type Instance } from '../../instances/driver.ts'
import type { Db } from '../../store/db.ts'
import type { EndReason, EndStep } from './end-step.ts'
import { adopt, endLost } from './fleet/adoption.ts'
import { Boots } from './fleet/boots.ts'
import { Endings } from './fleet/endings.ts'
import type { Kind } from './fleet/kinds.ts'
import type { Registry } from './fleet/registry.ts'
import { Shelf } from './fleet/shelf.ts'
import { makeSweep } from './fleet/sweep.ts'
import { liveOnHost, type BrowserRow, type LiveRow, type Ownership } from './rows.ts'
import type { Endpoints } from './stored-endpoint.ts'

/** Limit on the text of why an instance ended, in the log and in the database: an agent may have written it. */
const MAX_REASON = 500

interface FleetSettings {
  db: Db
  driver: Driver
  host: string
  /** Empty at first. The steps of an end may use it, too. */
  registry: Registry
  endpoints: Endpoints
  /** What is kept ready. */
  kinds: readonly Kind[]
  /** What happens when a session ends, in this order. */
  endSteps: readonly EndStep[]
  /** Whether the disk has room for another ready instance. */
  hasRoom?: () => boolean
  log: Log
  /** Where clients on this host reach the API. Known once it listens. */
  apiPorts: () => number[]
}

export class Fleet {
  readonly #settings: FleetSettings
  readonly #seats: Seats
  readonly #endings: Endings
  readonly #boots: Boots
  readonly #shelf: Shelf
  readonly #sweep: () => Promise<void>
  readonly #stop = new AbortController()
  /** Rows that the last service left, between {@link adopt} and {@link endLost}. */
  #lost: LiveRow[] | undefined

  constructor(settings: FleetSettings) {
    this.#settings = settings
    const { registry, endSteps, hasRoom = () => true } = settings
    const keep = (instance: Instance, isReady: boolean) => this.#keep(instance, isReady)
    this.#seats = new Seats(() => registry.sessions)
    this.#endings = new Endings({ ...settings, steps: endSteps })
    const endings = this.#endings
    this.#boots = new Boots({ ...settings, endings, keep })
    this.#shelf = new Shelf({ ...settings, endings, hasRoom, boots: this.#boots, signal: this.#stop.signal })
    this.#sweep = makeSweep({ ...settings, endings, refill: () => this.refill() })
  }

  /** Instances that belong to a session. */
  get sessions(): number {
    return this.#settings.registry.sessions
  }

  /**
   * A seat for a session that is about to be made; undefined when all `of` are taken. It is released once: by the code that gives the session its
   * instance, and by its maker in any case.
   */
  seat(of: number): (() => void) | undefined {
    return this.#seats.reserve(of)
  }

  /** The endpoint of a running session's agent on this host, without a database query. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.#settings.registry.endpointOf(id)
  }

  /** Whether the wanted number of ready instances is there, or the last attempt to start one succeeded. */
  get isWell(): boolean {
    return this.#shelf.isWell
  }

  /** Claims a ready instance for a session; undefined when none serves it. Call {@link take} next: the instance may have ended. */
  claim(ownership: Ownership): Promise<BrowserRow | undefined> {
    return this.#shelf.claim(ownership)
  }

  /** Records that a ready instance has become a session; false when it has ended in the meantime. */
  take(id: string, leaveSeat: () => void): boolean {
    const runs = this.#settings.registry.claim(id)
    leaveSeat()
    return runs
  }

  /** After a start: adopts the instances that outlived the last service, and ends every instance or row that has no counterpart. */
  async reconcile(): Promise<void> {
    await this.adopt()
    await this.endLost()
  }

  /** The first half of {@link reconcile}: what ends is still reachable, for parts that continue work of the last service. */
  async adopt(): Promise<void> {
    this.#lost = await adopt({ ...this.#settings, endings: this.#endings, keep: (instance, isReady) => this.#keep(instance, isReady) })
  }

  /** The second half of {@link reconcile}. */
  async endLost(): Promise<void> {
    await endLost(this.#lost ?? [], { ...this.#settings, endings: this.#endings })
    this.#lost = undefined
  }

  /** Boots an instance for a caller. @throws when it does not come up; nothing is left then. */
  start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    return this.#boots.session(ownership, signal, leaveSeat)
  }

  /**
   * Ends a browser: the steps of an end, then its row is closed. A second call has no further effect; false when there is no such browser, or it has
   * ended. When a step does not work now, this resolves after the first attempt: the browser is out of use, its row stays `stopping`, and the sweep
   * (or the next start) retries until nothing is left.
   */
  end(id: string, reason: EndReason): Promise<boolean> {
    return this.#endings.end(id, reason)
  }

  /** Begins to end sessions whose timeout has passed, and continues ends that failed or were interrupted. Does not wait for any end. */
  async sweep(): Promise<void> {
    if (this.#lost === undefined) await this.#sweep()
  }

  /** Starts keeping ready instances, until {@link stop}. */
  refill(): void {
    this.#shelf.fill()
  }

  /** Ends every browser of this host, even when the database is not available: the next start then finds them lost. */
  async stop(): Promise<void> {
    const { db, host, registry, log } = this.#settings
    this.#stop.abort(new Error('the service stops'))
    await this.#shelf.settled()
    try {
      const ids = (await liveOnHost(db, host)).map(({ id }) => id)
      await Promise.all(ids.map((id) => this.end(id, 'shutdown')))
      await this.#endings.settled()
    } catch (err) {
      log.error({ err }, 'the end of the sessions could not be recorded')
    }
    await Promise.all(registry.instances.map((instance) => letGo(instance, log)))
  }

  /** Registers an instance and watches for its end. */
  #keep(instance: Instance, isReady: boolean): void {
    const { registry, log } = this.#settings
    const { id } = instance
    registry.add(instance, isReady)
    const onExit = async ({ reason: whole, limit }: Exit) => {
      const why = whole.slice(0, MAX_REASON)
      const reason = limit ? (`${limit}_limit` as const) : 'crashed'
      if (registry.isEnding(id) || !registry.get(id)) return
      registry.lost(id, { why, reason })
      log.error({ browser: id, reason: why }, 'a browser ended by itself')
      await this.#endings.crashed(id, why, reason)
      this.refill()
    }
    // The sweep tries again.
    void instance.exited.then(onExit).catch((err: unknown) => log.error({ err, browser: id }, 'cleaning up after a browser failed'))
  }
}

/** The step that ends the instance itself. Its driver has time limits of its own, below this one. */
export const removeInstance = (registry: Registry): EndStep => ({
  name: 'instance',
  limitMs: 60_000,
  mayFail: false,
  run({ id }) {
    const instance = registry.get(id)
    return instance === undefined ? undefined : Promise.resolve(instance[Symbol.asyncDispose]())
  },
})
