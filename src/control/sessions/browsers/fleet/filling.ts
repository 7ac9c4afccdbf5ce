// Fills the pools: decides which boot comes next, when it begins, and which ready instance is surplus.
import { availableParallelism } from 'node:os'
import { Notifier } from '../../../../base/notifier.ts'
import { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import { endSurplus } from '../rows.ts'
import { Boots } from './boots.ts'
import { RETRY_FIRST_MS, type Pool } from './pool.ts'
import { Pools, sum } from './pools.ts'
import type { Shared } from './shared.ts'

/** When the disk is full, no instance is started unless a caller waits for it. Interval of checking the disk again. */
const NO_ROOM_MS = 2_000
/** The database refused a browser although our count had room for it. The count is repeated after this time. */
const REFUSED_MS = 200

export class Filling {
  readonly boots: Boots
  /** Made here, because each pool boots through this class. */
  readonly pools: Pools
  readonly #shared: Shared
  readonly #starts: Slots
  /** Whether the last attempt to count has succeeded. */
  #isCounted = true
  /** The loop that fills the pools: from the first {@link begin} until the service stops. */
  #loop: Promise<void> | undefined
  /** Whether something has changed since the loop last looked. */
  #isChanged = false
  readonly #changed = new Notifier()
  /** Whether the loop waits until callers have their boots. */
  #isBehindCallers = false
  readonly #refills = new Set<Promise<unknown>>()
  /** Whether a surplus instance may be ended: one in each sweep. */
  #mayEndSurplus = false
  /** Start of the newest boot, and the duration of the last boot for a kind, in milliseconds. */
  #bootBeganAt = -Infinity
  #bootMs = 0
  /** Whether the last refill that had a choice was for an owned pool. */
  #wasOwned = false

  constructor(shared: Shared) {
    this.#shared = shared
    this.#starts = new Slots(shared.bootsAtOnce ?? availableParallelism())
    this.boots = new Boots(shared, this.#starts)
    this.pools = new Pools(shared, {
      boot: (pool, wanted, turn) => this.#boot(pool, wanted, turn),
      onLeave: () => this.#callerServed(),
      onOver: () => this.begin(),
      starts: this.#starts,
    })
  }

  /**
   * Whether each kind has its wanted number, or its last boot has worked. Always true at a replica that does not have this duty. Owned pools do not count: each
   * shows its own error to its owner.
   */
  get isWell(): boolean {
    return !this.#shared.leases.holds('warm_pool') || (this.#isCounted && this.pools.kinds.every(({ isWell }) => isWell))
  }

  /** Fills the pools from now on, until the service stops, while that is the duty of this replica. */
  begin(): void {
    this.#wake()
    this.#loop ??= this.#run()
  }

  #wake(): void {
    this.#isChanged = true
    this.#changed.notify()
  }

  /** A caller got an instance or left the queue, or a boot for it has begun. */
  #callerServed(): void {
    if (this.#isBehindCallers) this.#wake()
  }

  /** For the sweep: looks for missing and surplus instances, and for instances of other replicas whose notice was lost. */
  async look(): Promise<void> {
    const memory = this.pools.memory()
    const wanted = sum(this.pools.kinds.map((pool) => pool.wanted(pool.idle, memory)))
    const { leases, registry, mostReady = Infinity } = this.#shared
    // A service alone knows how many instances are ready and every change of that number, so it needs no query.
    if (leases.remembered(this.pools.isUnowned && registry.ready === Math.min(wanted, mostReady))) return
    await this.pools.count()
    this.#mayEndSurplus = true
    this.#wake()
  }

  /** Resolves when no boot is under way any more. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#loop
    await Promise.allSettled(this.#refills)
    await this.pools.settled()
  }

  /**
   * How long the next refill waits, in milliseconds. Concurrent boots start at even intervals within the time of one boot. If they all started together, they
   * would all be ready together, and a caller that works without pause would wait for a whole boot every second time.
   */
  get #tooEarlyMs(): number {
    return this.pools.booting === 0 ? 0 : Math.max(0, this.#bootBeganAt + this.#bootMs / this.#starts.size - performance.now())
  }

  /** Whether there are callers for whom a boot has not begun. Callers of a full pool do not count: they wait until another caller gives its browser back. */
  get #hasPending(): boolean {
    const queues = this.pools.kinds.map(({ queue }) => queue)
    const [waiting, booting] = [sum(queues.map((queue) => queue.waiting)), sum(queues.map((queue) => queue.booting))]
    return waiting > booting || this.pools.owned.some(({ queue }) => queue.hopeful > queue.booting)
  }

  /** Boots an instance for a pool: for a caller, or, with a `turn`, as a refill. False when the database has no room for it. */
  async #boot(pool: Pool, wanted: Promise<void>, turn: Disposable | undefined): Promise<boolean> {
    const { notices, meter, signal } = this.#shared
    meter?.booting(!turn)
    const beganAt = (this.#bootBeganAt = performance.now())
    this.#callerServed()
    try {
      if (!(await pool.begin(() => this.boots.pooled(pool, wanted, turn)))) {
        // The browser that took the last seat may have ended after this time.
        await sleep(REFUSED_MS, signal).catch(() => {})
        return false
      }
      if (pool.kind) this.#bootMs = performance.now() - beganAt
      notices.tell(notices.isReady)
      // No caller waits in this queue, but callers in the queue of another kind may be able to use the instance.
      if (pool.kind && pool.queue.waiting === 0) for (const other of this.pools.kinds) if (other !== pool) other.queue.lookAgain()
      return true
    } catch (error) {
      if (!signal.aborted) meter?.bootFailed(!turn)
      throw error
    }
  }

  async #run(): Promise<void> {
    const { signal, leases, log } = this.#shared
    while (!signal.aborted) {
      this.#isChanged = false
      try {
        await this.#pause(leases.holds('warm_pool') ? await this.#fillOne() : Infinity)
      } catch (err) {
        if (signal.aborted) return
        this.#isCounted = false
        log.error({ err }, 'the warm pool could not be counted')
        await sleep(RETRY_FIRST_MS, signal).catch(() => {})
      }
    }
  }

  /** Waits `ms` milliseconds, or until something changes. */
  async #pause(ms: number): Promise<void> {
    if (ms === 0 || this.#isChanged) return
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#shared.signal])
    const waits = [this.#changed.next(signal), ...(Number.isFinite(ms) ? [sleep(ms, signal)] : [])]
    await Promise.race(waits).finally(() => over.abort())
  }

  /** Starts one boot for the pool that needs it most. Returns how long no other boot can start unless something changes, in milliseconds. */
  async #fillOne(): Promise<number> {
    const { pools } = this
    const { signal, hasRoom, log } = this.#shared
    // Callers come first: a refill must not take the turn of a boot that they wait for.
    if ((this.#isBehindCallers = this.#hasPending)) return Infinity
    if (this.#tooEarlyMs > 0) return this.#tooEarlyMs
    using scope = new DisposableStack()
    scope.use(await this.#starts.enter(signal))
    if (this.#hasPending || this.#tooEarlyMs > 0) return 0
    this.#isChanged = false
    await pools.count()
    if (!pools.isExact) return 0
    this.#isCounted = true
    const now = pools.now()
    const short = this.#short(now)
    if (!short) {
      const pauses = pools.all.map((pool) => pool.pauseMs(now)).filter((ms) => ms > 0 && Number.isFinite(ms))
      if (await this.#endSurplus()) return 0
      // A pool whose boots fail may be booting again just now: it is not well before that boot has worked.
      if (pauses.length === 0) for (const pool of pools.all) if (pool.queue.booting === 0) pool.isWell = true
      return Math.min(...pauses)
    }
    if (hasRoom?.() === false) {
      scope.dispose()
      await sleep(NO_ROOM_MS, signal)
      return 0
    }
    const turn = scope.move()
    const refill = short.queue
      .refill(turn)
      .catch((err: unknown) => {
        if (!signal.aborted) log.error({ err, kind: short.name, retryMs: short.failed() }, 'a warm browser did not start')
      })
      .finally(() => {
        this.#refills.delete(refill)
        turn.dispose()
        this.#wake()
      })
    this.#refills.add(refill)
    return 0
  }

  /**
   * The pool whose boot comes next, by the last count. First comes a kind below its minimum. Then comes a kind whose demand exceeds its instances, or the owned
   * pool that has the smallest part of its browsers; if there are both, they alternate. Pools that wait after a failed boot, or for their fill rate, are
   * skipped.
   */
  #short(now: number): Pool | undefined {
    const { kinds, owned } = this.pools
    const memory = this.pools.memory()
    const may = (pool: Pool) => pool.pauseMs(now) === 0
    const least = kinds.find((pool) => may(pool) && pool.kept < pool.kind!.target)
    if (least) return least
    const isShort = (pool: Pool) => may(pool) && pool.kept < pool.wanted(pool.kept, memory)
    const isFull = sum(kinds.map(({ kept }) => kept)) >= (this.#shared.mostReady ?? Infinity)
    const kind = isFull ? undefined : kinds.find(isShort)
    const part = ({ kept, size }: Pool) => kept / size
    const pool = owned.filter(isShort).toSorted((a, b) => part(a) - part(b))[0]
    if (!kind || !pool) return kind ?? pool
    this.#wasOwned = !this.#wasOwned
    return this.#wasOwned ? pool : kind
  }

  /** Starts to end an instance of a kind that has more than its demand; false when there is none. */
  async #endSurplus(): Promise<boolean> {
    const { db, scope, endings, log } = this.#shared
    const { kinds } = this.pools
    if (!this.#mayEndSurplus || kinds.some(({ queue }) => queue.waiting > 0)) return false
    this.#mayEndSurplus = false
    const surplus = kinds.find((pool) => pool.idle > pool.wanted(pool.idle, this.pools.memory()))
    const row = surplus && (await endSurplus(db, scope, surplus.name))
    if (row) void endings.endRow(row).catch((err: unknown) => log.warn({ err, browser: row.id }, 'a surplus browser could not be ended yet'))
    return row !== undefined
  }
}
