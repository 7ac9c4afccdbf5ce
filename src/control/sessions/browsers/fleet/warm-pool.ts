// The warm pool: booted instances that no session has claimed yet, in one pool for each kind, and those of the browser pools of callers. Every boot ends here, also one that a caller waits for.
import { Notifier } from '../../../../base/notifier.ts'
import type { Log } from '../../../../base/log.ts'
import { memoryNow, type Memory } from '../../../../base/memory.ts'
import type { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import { claimWarm, endSurplus, readyInScope, type BrowserRow, type Ownership } from '../rows.ts'
import type { Boots } from './boots.ts'
import { wanted } from './demand.ts'
import type { Endings } from './endings.ts'
import { InstancePool, RETRY_FIRST_MS } from './instance-pool.ts'
import type { Kind } from './kinds.ts'
import type { WaitQueue, Waited } from './wait-queue.ts'
import type { PoolSource } from './pools.ts'
import { OwnedPools } from './owned-pools.ts'
import type { Registry } from './registry.ts'
import type { OtherReplicas, WarmPoolMeter, WarmPoolState } from './warm-pool-state.ts'
import { endRow, endUnwantedOnes, type TakeOut } from './surplus.ts'

/** On a full disk no warm browser is started. This is the interval for checking the disk again. */
const NO_ROOM_MS = 2_000

interface WarmPoolSettings {
  db: Db
  scope: string
  leases: Leases
  kinds: readonly Kind[]
  /** Most ready instances of all kinds together, beyond the least of each; no limit unless given. */
  mostReady?: number | undefined
  pools?: PoolSource | undefined
  boots: Boots
  starts: Slots
  registry: Registry
  endings: Endings
  /** Has the warm pool filled by the replica whose duty that is. */
  refill: () => void
  others: OtherReplicas
  takeOut: TakeOut
  /** Whether the disk has room for another instance. */
  hasRoom: () => boolean
  memory?: (() => Memory) | undefined
  /** In milliseconds. */
  now?: (() => number) | undefined
  meter?: WarmPoolMeter | undefined
  log: Log
  signal: AbortSignal
}

/** The database has refused a browser for which there was room by our count, which is taken again after so long. */
const REFUSED_MS = 200

export class WarmPool {
  readonly #settings: WarmPoolSettings
  readonly #now: () => number
  readonly #memory: () => Memory
  readonly #kinds: readonly InstancePool[]
  readonly #owned: OwnedPools
  /** Notifies when a caller has stopped waiting. */
  readonly #served = new Notifier()
  #filling: Promise<void> | undefined
  #isFilling = false
  /** Whether the service has come so far that it can boot. */
  #hasBegun = false
  /** Whether something has changed since the fill under way has counted. */
  #isChanged = false
  readonly #refills = new Set<Promise<unknown>>()
  /** Notifies when the warm pool has to be counted again. */
  readonly #changed = new Notifier()
  #trimming: Promise<void> | undefined
  /** When the newest boot began, and how long the last one took, in milliseconds. */
  #bootBeganAt = -Infinity
  #bootMs = 0
  /** Whether the last attempt to count the warm pool has succeeded. */
  #isCounted = true
  /** Of the refill that is just being begun. */
  #turn: Disposable | undefined
  /** Whether the last refill that had a choice was for a pool. */
  #wasPool = false

  constructor(settings: WarmPoolSettings) {
    this.#settings = settings
    this.#now = settings.now ?? (() => performance.now())
    this.#memory = settings.memory ?? memoryNow
    const { starts, signal, kinds } = settings
    const shared = {
      boot: (pool: InstancePool, isAwaited: boolean, wanted: Promise<void>) => this.#boot(pool, isAwaited, wanted),
      onSleep: () => this.hurry(),
      onOver: () => this.fill(),
      starts,
      signal,
    }
    this.#kinds = kinds.map((kind) => new InstancePool({ kind }, shared))
    this.#owned = new OwnedPools(settings.pools, shared, this.#now)
  }

  get #all(): InstancePool[] {
    return [...this.#kinds, ...this.#owned.all]
  }

  /** Whether the wanted number of every kind is there, or the last attempt to start one succeeded, or that is another replica's duty. Each pool says for itself whether it is well. */
  get isWell(): boolean {
    return !this.#settings.leases.holds('shelf') || (this.#isCounted && this.#kinds.every(({ isWell }) => isWell))
  }

  get state(): WarmPoolState {
    const memory = this.#memory()
    const { ready } = this.#settings.registry
    const kinds = this.#kinds.map(({ kind, demand }) => [kind!.name, wanted(kind!, demand.level(this.#now()), ready, memory)])
    const pools = this.#owned.all.reduce((sum, { share }) => sum + share!.size, 0)
    return {
      waiting: this.#all.reduce((sum, { queue }) => sum + queue.waiting, 0),
      booting: this.#booting,
      wanted: { ...Object.fromEntries(kinds), ...(pools > 0 && { pools }) },
    }
  }

  /** Seats that pools take, as far as this replica knows. */
  get pooledSeats(): number {
    return this.#owned.seats
  }

  get #booting(): number {
    return this.#all.reduce((sum, { queue }) => sum + queue.booting, 0)
  }

  /**
   * How long the next refill waits, in milliseconds. Boots that run beside each other are spread over the time that one takes: those that begin together are ready together, and a caller
   * who works without pause would wait for a whole boot each second time.
   */
  get #tooEarlyMs(): number {
    return this.#booting === 0 ? 0 : this.#bootBeganAt + this.#bootMs / this.#settings.starts.size - performance.now()
  }

  /** Whether there are callers for whom a boot has not begun. Those of a pool that has all its browsers wait for one of these. */
  get #hasPending(): boolean {
    const sum = (of: (queue: WaitQueue) => number) => this.#kinds.reduce((all, { queue }) => all + of(queue), 0)
    return sum(({ waiting }) => waiting) > sum(({ booting }) => booting) || this.#owned.all.some(({ queue }) => queue.hopeful > queue.booting)
  }

  /** Whether a kind serves the caller. Otherwise it needs a boot of its own. */
  serves(ownership: Ownership): boolean {
    return this.#kinds.some(({ kind }) => kind!.serves(ownership))
  }

  /** Claims an instance of the first kind that serves the caller, and has it replaced; undefined when there is none. The instance may have ended. */
  async claim(ownership: Ownership, db = this.#settings.db): Promise<BrowserRow | undefined> {
    const { scope, leases, kinds } = this.#settings
    for (const kind of kinds.filter((one) => one.serves(ownership))) {
      const row = await claimWarm(db, { scope, replica: leases.replica }, kind.name, ownership)
      if (!row) continue
      this.#settings.refill()
      return row
    }
    return undefined
  }

  /**
   * Waits for an instance of a kind that serves the caller, in the order of arrival; `take` claims one, or returns undefined when there is none. `wasReady`: it was
   * ready before the caller asked. @throws as {@link WaitQueue.wait}
   */
  async wait<T>(ownership: Ownership, take: () => Promise<T | undefined>, signal: AbortSignal): Promise<Waited<T>> {
    const pool = this.#kinds.find(({ kind }) => kind!.serves(ownership))!
    this.asked(pool.name)
    if (!this.#settings.leases.holds('shelf')) this.#settings.others.asked(pool.name)
    return this.#waitIn(pool, take, signal)
  }

  /** The same for a browser of a pool, until `late` as {@link WaitQueue.wait} means it; undefined when there is no such pool. */
  async waitInPool<T>(id: string, take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<T | undefined> {
    if (!this.#owned.get(id)) await this.countPools()
    const pool = this.#owned.get(id)
    return pool && (await this.#waitIn(pool, take, signal, late)).taken
  }

  async #waitIn<T>({ queue }: InstancePool, take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    const began = this.#now()
    try {
      const found = await queue.wait(take, signal, late)
      this.#settings.meter?.served(found.wasReady, (this.#now() - began) / 1000)
      return found
    } finally {
      this.#served.notify()
    }
  }

  /** A caller wants an instance of a kind, here or at another replica. */
  asked(name: string): void {
    this.#kinds.find((pool) => pool.name === name)?.demand.asked(this.#now())
  }

  /** A caller waits for a turn: the boots that have one must not leave the CPU to others. */
  hurry(): void {
    for (const { queue } of this.#all) queue.hurry()
  }

  /** Another replica has put something in the warm pool. */
  lookAgain(): void {
    for (const { queue } of this.#all) queue.lookAgain()
  }

  /** A browser of a pool waits for a caller again. */
  isBack(id: string): void {
    this.#owned.get(id)?.queue.lookAgain()
    this.#settings.others.isReady()
  }

  /** Looks which pools there are, and how many browsers each has. Callers who wait for one that there is room for now get it. */
  countPools(): Promise<void> {
    return this.#owned.count()
  }

  /** Begins to fill the warm pool, until it is full, the signal aborts, or it is another replica's duty. */
  fill(): void {
    this.#hasBegun = true
    if (!this.#settings.leases.holds('shelf')) return
    this.#isChanged = true
    this.#changed.notify()
    if (this.#isFilling) return
    this.#isFilling = true
    this.#filling = this.#fill()
  }

  /** Ends instances that nobody is likely to need, or that their pool does not want any more. For the sweep. */
  trim(): void {
    const { signal, log } = this.#settings
    if (signal.aborted || this.#trimming || !this.#hasBegun) return
    this.#trimming = this.#trimAll()
      .catch((err: unknown) => log.warn({ err }, 'surplus warm browsers could not be ended; the next sweep tries again'))
      .finally(() => (this.#trimming = undefined))
  }

  /** Resolves when nothing is being started any more. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#filling
    await Promise.allSettled(this.#refills)
    for (const { queue } of this.#all) await queue.settled()
    await this.#owned.settled()
    await this.#trimming
  }

  async #boot(pool: InstancePool, isAwaited: boolean, wanted: Promise<void>): Promise<boolean> {
    const { boots, others, meter, signal } = this.#settings
    const began = this.#now()
    // A boot for a caller of a pool takes a turn when it is planned.
    const turn = isAwaited ? undefined : this.#turn
    meter?.booting(isAwaited)
    const beganAt = (this.#bootBeganAt = performance.now())
    this.#served.notify()
    try {
      if (pool.kind) await boots.ready(pool.kind, wanted, signal)
      else if (!(await this.#owned.boot(pool, () => boots.pooled(pool.name, wanted, turn, signal)))) {
        // Until the next boot is begun, what our count has not seen may have come to an end.
        await sleep(REFUSED_MS, signal).catch(() => {})
        return false
      }
      pool.booted(this.#now() - began)
      if (pool.kind) this.#bootMs = performance.now() - beganAt
      others.isReady()
      // Callers of another queue may have use for it, when those of its own have not.
      if (pool.kind && pool.queue.waiting === 0) for (const other of this.#kinds) if (other !== pool) other.queue.lookAgain()
      return true
    } catch (error) {
      if (!signal.aborted) meter?.bootFailed(isAwaited)
      throw error
    }
  }

  async #fill(): Promise<void> {
    const { signal, leases, starts } = this.#settings
    while (!signal.aborted && leases.holds('shelf')) {
      try {
        // Callers come first: a refill must not take the turn of what they wait for.
        if (this.#hasPending) {
          await this.#served.next(signal)
          continue
        }
        const early = this.#tooEarlyMs
        if (early > 0) {
          await this.#pause(early)
          continue
        }
        using scope = new DisposableStack()
        scope.use(await starts.enter(signal))
        if (this.#hasPending || this.#tooEarlyMs > 0) continue
        this.#isChanged = false
        const now = this.#now() // before the count: a kind that waits then is looked at again, also when its wait is over after the count
        const short = await this.#shortOne()
        this.#isCounted = true
        if (!short) {
          if (this.#isChanged) continue
          const pauses = [...this.#all.map(({ retryAt }) => retryAt - now), this.#owned.pauseMs].filter((ms) => ms > 0)
          if (pauses.length === 0) {
            // One whose boots fail may be booting again just now.
            for (const pool of this.#all) if (pool.queue.booting === 0) pool.isWell = true
            break
          }
          scope.dispose()
          await this.#pause(Math.min(...pauses))
          continue
        }
        if (!this.#settings.hasRoom()) {
          scope.dispose()
          await sleep(NO_ROOM_MS, signal)
          continue
        }
        const turn = scope.move()
        this.#turn = turn
        const refill = this.#refill(short).finally(() => turn.dispose())
        this.#refills.add(refill)
        void refill.finally(() => this.#refills.delete(refill))
      } catch (err) {
        if (signal.aborted) continue
        this.#isCounted = false
        this.#settings.log.error({ err }, 'the warm pool could not be counted')
        await sleep(RETRY_FIRST_MS, signal).catch(() => {})
      }
    }
    this.#isFilling = false
  }

  async #refill(pool: InstancePool): Promise<void> {
    try {
      await pool.queue.refill()
    } catch (err) {
      if (this.#settings.signal.aborted) return
      this.#settings.log.error({ err, kind: pool.name, retryMs: pool.failed(this.#now()) }, 'a warm browser did not start')
    }
    this.fill()
  }

  /** Waits for so long, or until the warm pool has to be counted again. */
  async #pause(ms: number): Promise<void> {
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#settings.signal])
    await Promise.race([sleep(ms, signal), this.#changed.next(signal)]).finally(() => over.abort())
  }

  /**
   * The first kind of which there are too few, those counted that are booting, or a pool. One that waits after a failed boot is left out. When a pool and what demand asks for are
   * both short, they take turns.
   */
  async #shortOne(): Promise<InstancePool | undefined> {
    const { db, scope, leases, registry, endings } = this.#settings
    // Before the rows: what comes up meanwhile counts twice rather than not at all, and has the warm pool counted again.
    const booting = this.#kinds.map(({ queue }) => queue.booting)
    const rows = await readyInScope(db, scope)
    await this.countPools()
    // A ready instance is ours before its row says so. Without an instance the row was written, but the database's answer was lost.
    const isHere = (row: { id: string; replica: string | null }) => row.replica !== leases.replica || registry.runs(row.id)
    for (const { id } of rows.filter((row) => row.replica === leases.replica && !registry.get(row.id) && !registry.isComing(row.id)))
      await endings.crashed(id, 'lost', 'lost')
    const kept = this.#kinds.map(({ name }, index) => rows.filter((row) => row.warm_kind === name && isHere(row)).length + booting[index]!)
    const may = ({ retryAt }: InstancePool) => retryAt <= this.#now()
    const least = this.#kinds.find((pool, index) => may(pool) && kept[index]! < pool.kind!.target)
    if (least) return least
    const isFull = kept.reduce((sum, count) => sum + count, 0) >= (this.#settings.mostReady ?? Infinity)
    const wished = isFull ? undefined : this.#kinds.find((pool, index) => may(pool) && kept[index]! < this.#wanted(pool, kept[index]!))
    const pooled = this.#owned.short(this.#memory())
    if (!wished || !pooled) return wished ?? pooled
    this.#wasPool = !this.#wasPool
    return this.#wasPool ? pooled : wished
  }

  #wanted({ kind, demand }: InstancePool, kept: number): number {
    return wanted(kind!, demand.level(this.#now()), kept, this.#memory())
  }

  async #trimAll(): Promise<void> {
    const { leases, registry, pools } = this.#settings
    if (pools && !leases.remembered(this.#owned.isNone && registry.pooled === 0)) {
      await endUnwantedOnes(this.#settings)
      await this.countPools()
      if (this.#owned.short(this.#memory())) this.fill()
    }
    if (!leases.holds('shelf') || this.#kinds.some(({ queue }) => queue.waiting > 0)) return
    const ready = leases.remembered(registry.ready)
    if (ready === undefined || ready > this.#kinds.reduce((sum, { kind }) => sum + kind!.target, 0)) return this.#trimKinds()
    // Memory that was short may have come back.
    const sum = this.#kinds.reduce((all, pool) => all + this.#wanted(pool, ready), 0)
    if (Math.min(sum, this.#settings.mostReady ?? Infinity) > ready) this.fill()
  }

  async #trimKinds(): Promise<void> {
    const { db, scope } = this.#settings
    const rows = await readyInScope(db, scope)
    for (const pool of this.#kinds) {
      const kept = rows.filter((row) => row.warm_kind === pool.name).length
      const needed = this.#wanted(pool, kept)
      // A notice of another replica may be lost.
      if (kept < needed) this.fill()
      if (kept <= needed) continue
      const ended = await endSurplus(db, scope, pool.name)
      // A caller may have claimed another one since they were counted.
      this.fill()
      if (ended) return endRow(ended, this.#settings)
    }
  }
}
