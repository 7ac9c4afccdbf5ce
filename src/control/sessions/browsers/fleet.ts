// The instances of sessions. Connects the parts in fleet/. Knows nothing of requests.
import { newId } from '../../../base/ids.ts'
import { together } from '../../../base/together.ts'
import { serviceStops } from '../../../base/unavailable.ts'
import { letGo } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { alone, teller, type Leases } from '../../../store/leases.ts'
import type { EndReason } from './end-step.ts'
import { Discards } from './fleet/discards.ts'
import { Endings } from './fleet/endings.ts'
import { Filling } from './fleet/filling.ts'
import { readyState, type ReadyState } from './fleet/kinds.ts'
import { Lending } from './fleet/lending.ts'
import { endAskedOf, noticesOf, type Notices } from './fleet/notices.ts'
import type { Pools } from './fleet/pools.ts'
import type { KnownSession, Registry } from './fleet/registry.ts'
import { SessionSeats } from './fleet/session-seats.ts'
import type { FleetSettings } from './fleet/settings.ts'
import { Sweep } from './fleet/sweep.ts'
import { watchedBrowsers, type BrowserRow, type LiveRow, type Ownership } from './rows.ts'

export class Fleet {
  readonly #settings: FleetSettings
  readonly #leases: Leases
  readonly #notices: Notices
  readonly #seats: SessionSeats
  readonly #endings: Endings
  readonly #sweep: Sweep
  readonly registry: Registry
  readonly pools: Pools
  readonly filling: Filling
  readonly lending: Lending
  readonly discards: Discards
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
      // A seat became free.
      if (isKept) this.refill()
    }
    const endings = new Endings({ ...settings, leases, onEnded })
    const shared = { ...settings, leases, notices, endings, refill, signal: this.#stop.signal }
    this.#leases = leases
    this.#notices = notices
    this.#endings = endings
    this.registry = settings.registry
    this.filling = new Filling(shared)
    this.pools = this.filling.pools
    this.lending = new Lending(shared, this.pools)
    this.discards = new Discards(shared, this.pools)
    this.#seats = new SessionSeats(shared, this.pools)
    this.#sweep = new Sweep(shared)
  }

  /** Runs `work`, which gives an owned pool `wanted` more seats. @throws NoSeat */
  seatPool<T>(project: string, wanted: number, work: (db: Db) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#seats.forPool(project, wanted, work, signal)
  }

  /** A session that this replica watches, found without a database query. `lease`: the number of its acquisition, if this replica knows it. */
  session(id: string): KnownSession | undefined {
    const known = this.registry.session(id)
    return known && { ...known, lease: known.isPooled ? this.#leases.remembered(known.lease) : 0 }
  }

  /** The state in which a claimed instance was kept ready. */
  readyState({ warm_kind }: Pick<BrowserRow, 'warm_kind'>): ReadyState {
    return readyState(this.#settings.kinds, warm_kind)
  }

  /** The id of this replica. */
  get replica(): string {
    return this.#leases.replica
  }

  /** An instance for a session: a ready one, or the next one that boots, in the order of callers. @throws NoSeat; the signal's reason; the error of a boot */
  obtain(ownership: Ownership, signal: AbortSignal): Promise<Obtained> {
    return this.#seats.seated(ownership, (leaveSeat) => this.#obtain(ownership, leaveSeat, signal), signal)
  }

  async #obtain(ownership: Ownership, leaveSeat: () => void, signal: AbortSignal): Promise<Obtained> {
    const pool = this.pools.kindFor(ownership)
    if (!pool) return { id: await this.start(ownership, signal, leaveSeat), row: undefined, wasReady: false }
    let hasLooked = false
    // An agent of an older version may lack a setting that the session needs, so the first look skips its browser. Later looks take it: there may be no newer
    // one.
    const isGood = ({ id }: BrowserRow) => hasLooked || !this.registry.endpointOf(id)?.older
    const take = () => this.lending.living(() => this.claim(ownership), isGood).finally(() => (hasLooked = true))
    const { taken: row, wasReady } = await this.lending.wait(pool, take, signal)
    leaveSeat()
    return { id: row.id, row, wasReady }
  }

  /** Claims a ready instance for a session; undefined when none serves it. It may have ended in the meantime. @throws NoSeat */
  claim(ownership: Ownership): Promise<BrowserRow | undefined> {
    return this.#seats.take(ownership, (db) => this.lending.claim(ownership, db))
  }

  /** Boots an instance for a caller that no ready one serves. @throws NoSeat; when it does not come up; nothing is left then */
  start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    this.pools.hurry()
    return this.filling.boots.session(ownership, signal, leaveSeat, (insert) => this.#seats.take(ownership, insert))
  }

  /**
   * After a start: adopts the instances that outlived the last service, and removes those without a row. Browsers that cannot continue end in {@link endLost};
   * until then, parts that continue work of the last service can reach them.
   */
  async adopt(): Promise<void> {
    void this.#endings.steps // two steps with the same name fail here, at the start, and not at the first end of a session
    this.#lost = await this.#sweep.takeOver()
    await this.#sweep.removeUnknown()
    // Before the first caller asks for a seat: owned pools hold seats.
    await this.pools.count()
  }

  /** Ends every browser that {@link adopt} found without an instance, half started or half ended. */
  async endLost(): Promise<void> {
    await this.#sweep.endLost(this.#lost ?? [])
    this.#lost = undefined
  }

  /** Ends a browser, as {@link Endings.end}. */
  end(id: string, reason: EndReason): Promise<boolean> {
    return this.#endings.end(id, reason)
  }

  /** As {@link end}, but resolves when callers cannot reach the browser any more. It keeps its seat until nothing is left of it. */
  takeOut(id: string, reason: EndReason): Promise<boolean> {
    return this.#endings.end(id, reason, false)
  }

  /** Begins to end sessions whose timeout has passed, and continues ends that failed or were interrupted. Does not wait for any end. */
  readonly sweep = together(async () => {
    if (this.#lost !== undefined || this.#stop.signal.aborted) return
    await this.#sweep.run()
    this.discards.begin()
    await this.filling.look()
  })

  /** Starts to fill the pools, here or at the replica that has this duty, until {@link stop}. */
  refill(): void {
    this.filling.begin()
    if (!this.#leases.holds('warm_pool')) this.#notices.tell(this.#notices.fill)
  }

  /** Handles a notice of another replica. */
  onNotice(text: string): void {
    const { kinds, log } = this.#settings
    const { fill, isReady, asked } = this.#notices
    if (text === fill) return this.filling.begin()
    if (text === isReady) return this.pools.lookAgain()
    const kind = kinds.find(({ name }) => text === asked(name))
    if (kind) return this.pools.asked(kind.name)
    const ends = endAskedOf(text, this.replica)
    const work = ends !== undefined ? this.#endings.continue(ends) : text === this.replica ? this.sweep() : undefined
    void work?.catch((err: unknown) => log.warn({ err }, 'what another replica has asked for failed; the next sweep tries again'))
  }

  /**
   * Ends every browser of this replica, also when the database is not available: the next start then finds them lost. A replica that hands over ends none:
   * other replicas, or its next start, adopt them.
   */
  async stop(): Promise<void> {
    const { db, scope, log } = this.#settings
    this.#stop.abort(serviceStops())
    await this.filling.settled()
    await this.discards.settled()
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
    await Promise.all(this.registry.instances.map((instance) => letGo(instance, log)))
  }
}

/** The result of {@link obtain}. */
interface Obtained {
  id: string
  /** The browser's row; undefined when it was booted for this session alone. */
  row: BrowserRow | undefined
  /** The browser was ready before its caller asked, so it may have been idle for long. */
  wasReady: boolean
}
