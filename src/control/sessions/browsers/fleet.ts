// The instances of sessions. Connects the parts in fleet/. Knows nothing of requests.
import { newId } from '../../../base/ids.ts'
import { together } from '../../../base/together.ts'
import { serviceStops } from '../../../base/unavailable.ts'
import { letGo } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { alone, teller, type Leases } from '../../../store/leases.ts'
import type { EndReason } from './end-step.ts'
import { Endings } from './fleet/endings.ts'
import { readyState, type ReadyState } from './fleet/kinds.ts'
import { Lending } from './fleet/lending.ts'
import { endAskedOf, noticesOf, type Notices } from './fleet/notices.ts'
import { Pools } from './fleet/pools.ts'
import type { KnownSession } from './fleet/registry.ts'
import { SessionSeats } from './fleet/session-seats.ts'
import type { FleetSettings, PoolsState } from './fleet/settings.ts'
import { Sweep } from './fleet/sweep.ts'
import { watchedBrowsers, type BrowserRow, type LiveRow, type Ownership } from './rows.ts'

export class Fleet {
  readonly #settings: FleetSettings
  readonly #leases: Leases
  readonly #notices: Notices
  readonly #seats: SessionSeats
  readonly #endings: Endings
  readonly #pools: Pools
  /** Browsers of owned pools: lent to callers, given back, ended. */
  readonly lending: Lending
  readonly #sweep: Sweep
  readonly #stop = new AbortController()
  /** Rows that the last service left, between {@link adopt} and {@link endLost}. */
  #lost: LiveRow[] | undefined

  constructor(settings: FleetSettings) {
    this.#settings = settings
    const leases = settings.leases ?? alone(newId())
    const tell = teller(leases, settings.log)
    const notices = noticesOf(settings.scope, (text) => tell('look', text))
    const refill = () => this.refill()
    const onEnded = (isKept: boolean) => {
      // There is room for another one.
      if (isKept) this.refill()
    }
    const endings = new Endings({ ...settings, leases, onEnded })
    const shared = { ...settings, leases, notices, endings, refill, signal: this.#stop.signal }
    this.#leases = leases
    this.#notices = notices
    this.#endings = endings
    this.#pools = new Pools(shared)
    this.#seats = new SessionSeats(shared, this.#pools)
    this.#sweep = new Sweep(shared)
    this.lending = new Lending(shared, this.#pools)
  }

  /** Instances that belong to a session. */
  get sessions(): number {
    return this.#settings.registry.sessions
  }

  /** Does `work`, which gives an owned pool `wanted` more seats. @throws NoSeat */
  seatPool<T>(project: string, wanted: number, work: (db: Db) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#seats.forPool(project, wanted, work, signal)
  }

  /** A session that this replica watches, without a database query. `lease`: which caller of its pool has it, if this replica knows that. */
  session(id: string): KnownSession | undefined {
    const known = this.#settings.registry.session(id)
    return known && { ...known, lease: known.isPooled ? this.#leases.remembered(known.lease) : 0 }
  }

  /** The endpoint of a running session's agent that this replica watches, without a database query. */
  endpointOf(id: string): KnownSession['endpoint'] | undefined {
    return this.#settings.registry.endpointOf(id)
  }

  /** Records whom a session belongs to, by its row. */
  belongs(row: Pick<BrowserRow, 'id' | 'project_id' | 'lease' | 'auth_flow_id'>): void {
    this.#settings.registry.belongs(row)
  }

  /** Whether the wanted number of ready instances is there, or the last attempt to start one succeeded. */
  get isWell(): boolean {
    return this.#pools.isWell
  }

  /** How a claimed instance was made ready. */
  readyState({ warm_kind }: Pick<BrowserRow, 'warm_kind'>): ReadyState {
    return readyState(this.#settings.kinds, warm_kind)
  }

  /** Which replica this one is. */
  get replica(): string {
    return this.#leases.replica
  }

  /** What the pools do now, for metrics. */
  get warmPool(): PoolsState {
    return this.#pools.state
  }

  /** An instance for a session: a ready one, or the next boot that is ready, in the order of callers. @throws NoSeat; the signal's reason; the error of a boot */
  obtain(ownership: Ownership, signal: AbortSignal): Promise<Obtained> {
    return this.#seats.seated(ownership, (leaveSeat) => this.#obtain(ownership, leaveSeat, signal), signal)
  }

  async #obtain(ownership: Ownership, leaveSeat: () => void, signal: AbortSignal): Promise<Obtained> {
    if (!this.#pools.serves(ownership)) return { id: await this.start(ownership, signal, leaveSeat), row: undefined, wasReady: false }
    let hasLooked = false
    // One that an older version has booted may not have what its session will ask for. Not so after the first look: where agents come from, there is no newer one.
    const isGood = ({ id }: BrowserRow) => hasLooked || !this.endpointOf(id)?.older
    const take = () => this.#pools.living(() => this.claim(ownership), isGood).finally(() => (hasLooked = true))
    const { taken: row, wasReady } = await this.#pools.wait(ownership, take, signal)
    leaveSeat()
    return { id: row.id, row, wasReady }
  }

  /** Claims a ready instance for a session; undefined when none serves it. It may have ended in the meantime. @throws NoSeat */
  claim(ownership: Ownership): Promise<BrowserRow | undefined> {
    return this.#seats.take(ownership, (db) => this.#pools.claim(ownership, db))
  }

  /** Boots an instance for a caller that no ready one serves. @throws NoSeat; when it does not come up; nothing is left then */
  start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    this.#pools.hurry()
    return this.#pools.boots.session(ownership, signal, leaveSeat, (insert) => this.#seats.take(ownership, insert))
  }

  /**
   * After a start: adopts the instances that outlived the last service. What has no counterpart ends by {@link endLost}: until then it is still reachable, for parts that continue work of
   * the last service.
   */
  async adopt(): Promise<void> {
    void this.#endings.steps // two of one name end the start, and not the first session
    this.#lost = await this.#sweep.takeOver()
    await this.#sweep.removeUnknown()
    // Before anybody asks for a seat: pools have theirs.
    await this.#pools.count()
  }

  /** Ends every browser that {@link adopt} has found without its counterpart. */
  async endLost(): Promise<void> {
    await this.#sweep.endLost(this.#lost ?? [])
    this.#lost = undefined
  }

  /** Ends a browser, as {@link Endings.end}. */
  end(id: string, reason: EndReason): Promise<boolean> {
    return this.#endings.end(id, reason)
  }

  /** As {@link end}, but resolves when the browser is out of use. Until nothing is left of it, it keeps its seat. */
  takeOut(id: string, reason: EndReason): Promise<boolean> {
    return this.#endings.end(id, reason, false)
  }

  /** Begins to end sessions whose timeout has passed, and continues ends that failed or were interrupted. Does not wait for any end. */
  readonly sweep = together(async () => {
    if (this.#lost !== undefined || this.#stop.signal.aborted) return
    await this.#sweep.run()
    this.lending.trim()
    await this.#pools.look()
  })

  /** Starts keeping ready instances, until {@link stop}, here or where that is done. */
  refill(): void {
    this.#pools.fill()
    if (!this.#leases.holds('warm_pool')) this.#notices.tell(this.#notices.fill)
  }

  /** Looks after what another replica tells of. */
  onNotice(text: string): void {
    const { kinds, log } = this.#settings
    const { fill, isReady, asked } = this.#notices
    if (text === fill) return this.#pools.fill()
    if (text === isReady) return this.#pools.lookAgain()
    const kind = kinds.find(({ name }) => text === asked(name))
    if (kind) return this.#pools.asked(kind.name)
    const ends = endAskedOf(text, this.replica)
    const work = ends !== undefined ? this.#endings.continue(ends) : text === this.replica ? this.sweep() : undefined
    void work?.catch((err: unknown) => log.warn({ err }, 'what another replica has asked for failed; the next sweep tries again'))
  }

  /**
   * Ends every browser of this scope, even when the database is not available: the next start then finds them lost. What this replica hands over, it does not end: others
   * take it over, or the next start does.
   */
  async stop(): Promise<void> {
    const { db, scope, registry, log } = this.#settings
    this.#stop.abort(serviceStops())
    await this.#pools.settled()
    await this.lending.settled()
    if (this.#leases.handsOver) {
      await this.#sweep.settled()
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
}

/** What a session gets. */
interface Obtained {
  id: string
  /** Its row; undefined when it was booted for this session alone. */
  row: BrowserRow | undefined
  /** It was ready before its caller asked, so it may have waited for long. */
  wasReady: boolean
}
