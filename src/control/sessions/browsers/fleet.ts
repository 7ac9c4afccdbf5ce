// The instances of sessions. Connects the parts in fleet/. Knows nothing of requests.
import { availableParallelism } from 'node:os'
import { newId } from '../../../base/ids.ts'
import { Slots } from '../../../base/slots.ts'
import { serviceStops } from '../../../base/unavailable.ts'
import { letGo, type Exit, type Instance } from '../../../instances/driver.ts'
import { alone, teller, type Leases } from '../../../store/leases.ts'
import type { EndReason } from './end-step.ts'
import { endLost, removeUnknown, takeOver } from './fleet/adoption.ts'
import { endElsewhere, outOfUse } from './fleet/elsewhere.ts'
import { Boots } from './fleet/boots.ts'
import { Endings } from './fleet/endings.ts'
import { readyState, type ReadyState } from './fleet/kinds.ts'
import type { Standing } from './fleet/registry.ts'
import { SessionSeats } from './fleet/session-seats.ts'
import { makeLending, type Lending } from './fleet/lending.ts'
import { endAskedOf, kindAskedFor, oneMoreIn, otherReplicas, warmPoolOf } from './fleet/notices.ts'
import { WarmPool } from './fleet/warm-pool.ts'
import type { WarmPoolState } from './fleet/warm-pool-state.ts'
import type { FleetSettings } from './fleet/settings.ts'
import { makeSweep } from './fleet/sweep.ts'
import { watchedBrowsers, watcherOf, type BrowserRow, type LiveRow, type Ownership } from './rows.ts'

/** Limit on the text of why an instance ended, in the log and in the database: an agent may have written it. */
const MAX_REASON = 500

export class Fleet {
  readonly #settings: FleetSettings
  readonly #leases: Leases
  readonly #tell: ReturnType<typeof teller>
  readonly #seats: SessionSeats
  readonly #endings: Endings
  readonly #boots: Boots
  readonly #warmPool: WarmPool
  /** Browsers of pools: lent to callers, given back, ended. */
  readonly lending: Lending
  readonly #sweep: () => Promise<void>
  readonly #stop = new AbortController()
  /** Rows that the last service left, between {@link adopt} and {@link endLost}. */
  #lost: LiveRow[] | undefined
  #taking: Promise<void> | undefined
  #sweeping: Promise<void> = Promise.resolve()
  #isSweepQueued = false

  constructor(settings: FleetSettings) {
    this.#settings = settings
    const { scope, endSteps, hasRoom = () => true } = settings
    const keep = (instance: Instance, standing: Standing) => this.#keep(instance, standing)
    const leases = settings.leases ?? alone(newId())
    this.#leases = leases
    this.#tell = teller(leases, settings.log)
    const onEnded = (id: string, isPooled: boolean) => {
      this.#tell('ended', id)
      // There is room for another one.
      if (isPooled) this.refill()
    }
    this.#endings = new Endings({ ...settings, steps: endSteps, onEnded, onOutOfUse: (id) => this.#tell('ended', outOfUse(id)) })
    const endings = this.#endings
    this.#seats = new SessionSeats({ ...settings, leases, endings, pooled: () => this.#warmPool.pooledSeats, signal: this.#stop.signal })
    const refill = () => this.refill()
    const starts = new Slots(settings.bootsAtOnce ?? availableParallelism())
    const boots = new Boots({ ...settings, leases, endings, keep, starts })
    this.#boots = boots
    const others = otherReplicas(scope, (text) => this.#tell('look', text))
    const takeOut = (id: string, reason: EndReason) => this.takeOut(id, reason)
    this.#warmPool = new WarmPool({ ...settings, leases, endings, hasRoom, refill, others, boots, starts, takeOut, signal: this.#stop.signal })
    this.#sweep = makeSweep({
      ...settings,
      leases,
      endings,
      refill,
      trim: () => this.#warmPool.trim(),
      takeOver: () => this.#beginTakeOver(),
      find: (id, standing) => this.#find(id, standing),
      removeUnknown: () => removeUnknown(settings),
    })
    this.lending = makeLending({
      ...settings,
      leases,
      endings,
      others,
      warmPool: this.#warmPool,
      seats: this.#seats,
      take: (row) => this.take(row, () => {}),
      takeOut,
      refill,
    })
  }

  /** Instances that belong to a session. */
  get sessions(): number {
    return this.#settings.registry.sessions
  }

  /**
   * A seat for a session that is about to be made; undefined when all `of` are taken. A caller who has just deleted one may get its seat. A seat is released once: by the code
   * that gives the session its instance, and by its maker in any case.
   */
  seat(of: number, signal: AbortSignal): Promise<(() => void) | undefined> {
    return this.#seats.reserve(of, signal)
  }

  /** Lets a caller in whose project may have another session. Call it before {@link seat}, and what it returns at the end. @throws NoSeat */
  enter(ownership: Ownership, signal: AbortSignal): Promise<() => void> {
    return this.#seats.enter(ownership, signal)
  }

  /** The endpoint of a running session's agent that this replica watches, without a database query. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.#settings.registry.endpointOf(id)
  }

  /** The project of a session that runs here, without a database query; undefined when only its row tells. */
  projectOf(id: string): string | undefined {
    return this.#settings.registry.projectOf(id)
  }

  /** Whether the tools of a session that runs here are closed to callers, as far as its project is known. */
  isClosed(id: string): boolean {
    return this.#settings.registry.isClosed(id)
  }

  /** Whether a session that runs here belongs to a pool. */
  isPooled(id: string): boolean {
    return this.#settings.registry.isPooled(id)
  }

  /** Which caller of its pool has a session that runs here; undefined when only its row tells. */
  leaseOf(id: string): number | undefined {
    return this.#leases.remembered(this.#settings.registry.leaseOf(id))
  }

  /** Records the project that a session's row names, and which caller of its pool has it. */
  belongs({ id, project_id: project, lease, auth_flow_id: flow }: Pick<BrowserRow, 'id' | 'project_id' | 'lease' | 'auth_flow_id'>): void {
    if (project !== null) this.#settings.registry.belongs(id, project, lease, flow !== null)
  }

  /** Whether the wanted number of ready instances is there, or the last attempt to start one succeeded. */
  get isWell(): boolean {
    return this.#warmPool.isWell
  }

  /** How a claimed instance was made ready. */
  readyState({ warm_kind }: Pick<BrowserRow, 'warm_kind'>): ReadyState {
    return readyState(this.#settings.kinds, warm_kind)
  }

  /** Which replica this one is. */
  get replica(): string {
    return this.#leases.replica
  }

  /** What the warm pool does now, for metrics. */
  get warmPool(): WarmPoolState {
    return this.#warmPool.state
  }

  /**
   * An instance for a session: a ready one, or the next boot that is ready, in the order of callers. Releases the seat when the session counts by itself. @throws NoSeat;
   * the signal's reason; the error of a boot
   */
  obtain(ownership: Ownership, leaveSeat: () => void, signal: AbortSignal): Promise<Obtained> {
    return this.#seats.waiting(ownership, () => this.#obtain(ownership, leaveSeat, signal), signal)
  }

  async #obtain(ownership: Ownership, leaveSeat: () => void, signal: AbortSignal): Promise<Obtained> {
    if (!this.#warmPool.serves(ownership)) return { id: await this.start(ownership, signal, leaveSeat), row: undefined, wasReady: false }
    let hasLooked = false
    const take = async (): Promise<BrowserRow | undefined> => {
      // One that an older version has booted may not have what its session will ask for. Not so after the first look: where agents come from, there is no newer one.
      const isGood = (row: BrowserRow) => this.take(row, () => {}) && (hasLooked || !this.endpointOf(row.id)?.older)
      for (let row = await this.claim(ownership); row; row = await this.claim(ownership)) {
        if (isGood(row)) return row
        await this.takeOut(row.id, 'lost')
      }
      hasLooked = true
      return undefined
    }
    const { taken: row, wasReady } = await this.#warmPool.wait(ownership, take, signal)
    leaveSeat()
    return { id: row.id, row, wasReady }
  }

  /**
   * Claims a ready instance for a session; undefined when none serves it. Call {@link take} next: the instance may have ended. @throws NoSeat
   */
  claim(ownership: Ownership): Promise<BrowserRow | undefined> {
    return this.#seats.take(ownership, (db) => this.#warmPool.claim(ownership, db))
  }

  /** Records that a ready instance has become a session; false when it has ended in the meantime, as far as this replica knows. */
  take({ id, replica }: Pick<BrowserRow, 'id' | 'replica'>, leaveSeat: () => void): boolean {
    const { registry } = this.#settings
    const runs = registry.claim(id) || registry.taken(id) !== undefined || replica !== this.#leases.replica
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
    void this.#endings.steps // two of one name end the start, and not the first session
    this.#lost = await this.#takeOver()
    await removeUnknown(this.#settings)
    // Before anybody asks for a seat: pools have theirs.
    await this.#warmPool.countPools()
  }

  #takeOver(): Promise<LiveRow[]> {
    const keep = (instance: Instance, standing: Standing) => this.#keepTaken(instance, standing)
    return takeOver({ ...this.#settings, leases: this.#leases, endings: this.#endings, keep })
  }

  /** One takeover at a time. Not awaited by a sweep: an agent that hangs must not keep it from noting which sessions are in use. */
  async #beginTakeOver(): Promise<boolean> {
    const { log } = this.#settings
    // The one under way may have read the rows before the last death.
    if (this.#taking) return false
    let isDone = false
    const take = async () => {
      const lost = await this.#takeOver()
      isDone = true
      await endLost(lost, { ...this.#settings, endings: this.#endings })
    }
    await (this.#taking = take()
      .catch((err: unknown) => log.error({ err }, 'taking over from dead replicas failed; the next sweep tries again'))
      .finally(() => (this.#taking = undefined)))
    return isDone
  }

  async #find(id: string, standing: Standing): Promise<boolean> {
    const { driver, registry, log } = this.#settings
    using _ = registry.taking(id)
    const instance = await driver.adopt(id)
    if (instance) {
      log.info({ browser: id }, 'found the instance of a browser again')
      this.#keepTaken(instance, standing)
    }
    return instance !== undefined
  }

  /** The second half of {@link reconcile}. */
  async endLost(): Promise<void> {
    await endLost(this.#lost ?? [], { ...this.#settings, endings: this.#endings })
    this.#lost = undefined
  }

  /** Boots an instance for a caller that no ready one serves. @throws NoSeat; when it does not come up; nothing is left then */
  start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    this.#warmPool.hurry()
    return this.#boots.session(ownership, signal, leaveSeat, (insert) => this.#seats.take(ownership, insert))
  }

  /**
   * Ends a browser: the steps of an end, then its row is closed. A second call has no further effect; false when there is no such browser, or it has
   * ended. When a step does not work now, this resolves after the first attempt: the browser is out of use, its row stays `stopping`, and the sweep
   * (or the next start) retries until nothing is left.
   */
  end(id: string, reason: EndReason): Promise<boolean> {
    return this.#end(id, reason, true)
  }

  /**
   * As {@link end}, but resolves when the browser is out of use: nobody reaches it, its processes are signalled, and its row says that it ends. The rest goes on behind, also
   * after a crash. Until nothing is left of it, it keeps its seat.
   */
  takeOut(id: string, reason: EndReason): Promise<boolean> {
    return this.#end(id, reason, false)
  }

  async #end(id: string, reason: EndReason, whole: boolean): Promise<boolean> {
    const { db, notifier, registry } = this.#settings
    await registry.taken(id)
    const isHere = registry.get(id) !== undefined || registry.isBooting(id)
    const watcher = isHere ? undefined : await watcherOf(db, id)
    if (notifier && watcher && watcher.replica !== this.#leases.replica) return endElsewhere({ db, notifier, leases: this.#leases }, id, reason, whole)
    return whole ? this.#endings.end(id, reason) : this.#endings.takeOut(id, reason)
  }

  /** Begins to end sessions whose timeout has passed, and continues ends that failed or were interrupted. Does not wait for any end. */
  async sweep(): Promise<void> {
    // A sweep that waits for the one under way serves all who ask meanwhile.
    if (this.#lost !== undefined || this.#isSweepQueued) return this.#sweeping
    this.#isSweepQueued = true
    this.#sweeping = this.#sweeping
      .catch(() => {})
      .then(() => {
        this.#isSweepQueued = false
        return this.#stop.signal.aborted ? undefined : this.#sweep()
      })
    return this.#sweeping
  }

  /** Starts keeping ready instances, until {@link stop}, here or where that is done. */
  refill(): void {
    if (this.#leases.holds('shelf')) this.#warmPool.fill()
    else this.#tell('look', warmPoolOf(this.#settings.scope))
  }

  /** Looks after what another replica tells of. */
  onNotice(text: string): void {
    const { scope } = this.#settings
    if (text === warmPoolOf(scope)) return this.#warmPool.fill()
    if (text === oneMoreIn(scope)) return this.#warmPool.lookAgain()
    const ends = endAskedOf(text, this.#leases.replica)
    if (ends !== undefined) return void this.#continueEnd(ends)
    const kind = kindAskedFor(text, scope)
    if (kind !== undefined) return this.#warmPool.asked(kind)
    if (text === this.#leases.replica) void this.sweep().catch((err: unknown) => this.#settings.log.warn({ err }, 'a sweep failed; the next one tries again'))
  }

  /** Another replica has moved a browser of ours to its end. */
  async #continueEnd(id: string): Promise<void> {
    const { db, registry, log } = this.#settings
    const { isAlive, replica } = this.#leases
    try {
      await registry.taken(id)
      const row = isAlive && this.#endings.isDue(id) ? await watcherOf(db, id) : undefined
      if (row?.state === 'stopping' && row.replica === replica) await this.#endings.resume(row, 'crashed')
    } catch (err) {
      log.warn({ err, browser: id }, 'a browser could not be ended yet; the next sweep tries again')
    }
  }

  /**
   * Ends every browser of this scope, even when the database is not available: the next start then finds them lost. What this replica hands over, it does not end: others
   * take it over, or the next start does.
   */
  async stop(): Promise<void> {
    const { db, scope, registry, log } = this.#settings
    this.#stop.abort(serviceStops())
    await this.#warmPool.settled()
    if (this.#leases.handsOver) {
      await this.#taking
      return this.#endings.settled()
    }
    try {
      const ids = (await watchedBrowsers(db, { scope, replica: this.#leases.replica })).map(({ id }) => id)
      await Promise.all(ids.map((id) => this.end(id, 'shutdown')))
      await this.#endings.settled()
    } catch (err) {
      log.error({ err }, 'the end of the sessions could not be recorded')
    }
    await Promise.all(registry.instances.map((instance) => letGo(instance, log)))
  }

  #keepTaken(instance: Instance, standing: Standing): void {
    this.#keep(instance, standing)
    if (standing.isPooled || !standing.isReady) this.#settings.onTaken?.(instance)
  }

  /** Registers an instance and watches for its end. */
  #keep(instance: Instance, standing: Standing): void {
    const { registry, log } = this.#settings
    const { id } = instance
    registry.add(instance, standing)
    const onExit = async ({ reason: whole, limit, cause }: Exit) => {
      const why = whole.slice(0, MAX_REASON)
      const reason = limit ? (`${limit}_limit` as const) : (cause ?? 'crashed')
      if (registry.isEnding(id) || !registry.get(id)) return
      registry.lost(id, { why, reason })
      // Another replica that has taken it over may have ended it.
      if ((await watcherOf(this.#settings.db, id))?.replica !== this.#leases.replica) return registry.handOver(id)
      log.error({ browser: id, reason: why }, 'a browser ended by itself')
      await this.#endings.crashed(id, why, reason)
      this.refill()
    }
    // The sweep tries again.
    void instance.exited.then(onExit).catch((err: unknown) => log.error({ err, browser: id }, 'cleaning up after a browser failed'))
  }
}

/** What a session gets. */
interface Obtained {
  id: string
  /** Its row; undefined when it was booted for this session alone. */
  row: BrowserRow | undefined
  /** It was ready before its caller asked, so it may have waited for long. */
  wasReady: boolean
}
