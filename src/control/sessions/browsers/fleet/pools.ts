// All pools: who claims from them, which boot comes next, and which instances are too many. Every boot ends in a pool, also one that a caller waits for.
import { availableParallelism } from 'node:os'
import { memoryNow, type Memory } from '../../../../base/memory.ts'
import { Notifier } from '../../../../base/notifier.ts'
import { Slots } from '../../../../base/slots.ts'
import { together } from '../../../../base/together.ts'
import { sleep } from '../../../../base/wait.ts'
import { fault } from '../../../../http/fault.ts'
import { countKept } from '../pooled-rows.ts'
import { claimWarm, endSurplus, type BrowserRow, type Ownership } from '../rows.ts'
import { Boots } from './boots.ts'
import { Pool, RETRY_FIRST_MS } from './pool.ts'
import type { PoolsState } from './settings.ts'
import type { Shared } from './shared.ts'
import type { Waited } from './wait-queue.ts'

/** On a full disk no instance is started that no caller waits for. This is the interval for checking the disk again. */
const NO_ROOM_MS = 2_000
/** The database has refused a browser for which there was room by our count, which is taken again after so long. */
const REFUSED_MS = 200

export class Pools {
  readonly boots: Boots
  readonly #shared: Shared
  readonly #starts: Slots
  readonly #now: () => number
  readonly #memory: () => Memory
  /** The service's own. */
  readonly #kinds: readonly Pool[]
  readonly #owned = new Map<string, Pool>()
  /** Boots under way for callers of pools that are gone. */
  readonly #last = new Set<Promise<void>>()
  /** Browsers that are left of pools that are gone. */
  #orphans = 0
  /** How many boots have ended so far. A count that one has ended during has its instance neither as idle nor as booting. */
  #endedBoots = 0
  #countedBoots = 0
  /** Whether the last attempt to count has succeeded. */
  #isCounted = true
  /** Filling the pools, from the first {@link fill} until the service stops. */
  #filling: Promise<void> | undefined
  /** There may be something to do for what fills the pools; notified then. */
  #isChanged = false
  readonly #changed = new Notifier()
  /** What fills the pools waits for boots that callers need. */
  #isBehindCallers = false
  readonly #refills = new Set<Promise<unknown>>()
  /** Whether an instance may be ended that is too many: one in each sweep. */
  #mayTrim = false
  /** When the newest boot began, and how long the last one of a kind took, in milliseconds. */
  #bootBeganAt = -Infinity
  #bootMs = 0
  /** Whether the last refill that had a choice was for an owned pool. */
  #wasOwned = false

  constructor(shared: Shared) {
    this.#shared = shared
    this.#now = shared.now ?? (() => performance.now())
    this.#memory = shared.memory ?? memoryNow
    this.#starts = new Slots(shared.bootsAtOnce ?? availableParallelism())
    this.boots = new Boots(shared, this.#starts)
    this.#kinds = shared.kinds.map((kind) => this.#pool(kind))
  }

  #pool(of: ConstructorParameters<typeof Pool>[0]): Pool {
    return new Pool(of, {
      boot: (pool, wanted, turn) => this.#boot(pool, wanted, turn),
      onEmpty: () => this.hurry(),
      onOver: () => this.fill(),
      starts: this.#starts,
      signal: this.#shared.signal,
      now: this.#now,
    })
  }

  get #all(): Pool[] {
    return [...this.#kinds, ...this.#owned.values()]
  }

  get #watched() {
    return { scope: this.#shared.scope, replica: this.#shared.leases.replica }
  }

  /** Whether the wanted number of every kind is there, or the last attempt to start one succeeded, or that is another replica's duty. Each owned pool says for itself whether it is well. */
  get isWell(): boolean {
    return !this.#shared.leases.holds('warm_pool') || (this.#isCounted && this.#kinds.every(({ isWell }) => isWell))
  }

  get state(): PoolsState {
    const memory = this.#memory()
    const { ready } = this.#shared.registry
    const owned = sum([...this.#owned.values()].map(({ size }) => size))
    return {
      waiting: sum(this.#all.map(({ queue }) => queue.waiting)),
      booting: this.#booting,
      wanted: { ...Object.fromEntries(this.#kinds.map((pool) => [pool.name, pool.wanted(ready, memory)])), ...(owned > 0 && { pools: owned }) },
    }
  }

  /** Seats that owned pools take, as far as this replica knows. */
  get seats(): number {
    return sum([...this.#owned.values()].map(({ seats }) => seats)) + this.#orphans
  }

  /** Whether a kind serves the caller. Otherwise it needs a boot of its own. */
  serves(ownership: Ownership): boolean {
    return this.#kinds.some(({ kind }) => kind!.serves(ownership))
  }

  /** Claims an instance of the first kind that serves the caller, and has it replaced; undefined when there is none. The instance may have ended. */
  async claim(ownership: Ownership, db = this.#shared.db): Promise<BrowserRow | undefined> {
    for (const { kind } of this.#kinds) {
      const row = kind!.serves(ownership) ? await claimWarm(db, this.#watched, kind!.name, ownership) : undefined
      if (row) this.#shared.refill()
      if (row) return row
    }
    return undefined
  }

  /** Waits for an instance of a kind that serves the caller, in the order of arrival; `take` claims one. As {@link WaitQueue.wait} otherwise. */
  async wait<T>(ownership: Ownership, take: () => Promise<T | undefined>, signal: AbortSignal): Promise<Waited<T>> {
    const { leases, notices } = this.#shared
    const pool = this.#kinds.find(({ kind }) => kind!.serves(ownership))!
    this.asked(pool.name)
    if (!leases.holds('warm_pool')) notices.tell(notices.asked(pool.name))
    return this.#waitIn(pool, take, signal)
  }

  /** The same for a browser of an owned pool, which `claim` lends to the caller; undefined when there is no such pool. */
  async waitForOwned(id: string, claim: () => Promise<BrowserRow | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<BrowserRow | undefined> {
    if (!this.#owned.has(id)) await this.count()
    const pool = this.#owned.get(id)
    return pool && (await this.#waitIn(pool, () => this.living(claim), signal, late)).taken
  }

  /** The first browser that `claim` finds and that has not ended; the others are taken out. */
  async living(claim: () => Promise<BrowserRow | undefined>, isGood: (row: BrowserRow) => boolean = () => true): Promise<BrowserRow | undefined> {
    const { registry, leases, endings } = this.#shared
    for (let row = await claim(); row; row = await claim()) {
      if ((registry.claim(row.id) || row.replica !== leases.replica) && isGood(row)) return row
      await endings.end(row.id, 'lost', false)
    }
    return undefined
  }

  async #waitIn<T>({ queue }: Pool, take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    const began = this.#now()
    try {
      const found = await queue.wait(take, signal, late)
      this.#shared.meter?.served(found.wasReady, (this.#now() - began) / 1000)
      return found
    } finally {
      this.#callerServed()
    }
  }

  /** A browser of an owned pool waits for a caller again. */
  isBack(id: string): void {
    const { notices } = this.#shared
    this.#owned.get(id)?.queue.lookAgain()
    notices.tell(notices.isReady)
  }

  /** A caller wants an instance of a kind, here or at another replica. */
  asked(name: string): void {
    this.#kinds.find((pool) => pool.name === name)?.demand.asked(this.#now())
  }

  /** A caller waits for a turn: the boots that have one must not leave the CPU to others. */
  hurry(): void {
    for (const { queue } of this.#all) queue.hurry()
  }

  /** There may be something for callers that was not booted here. */
  lookAgain(): void {
    for (const { queue } of this.#all) queue.lookAgain()
  }

  /** Looks how many instances each pool has, and which owned ones there are, after what the caller has changed. Callers get what there is room for now. */
  readonly count = together(() => this.#count())

  async #count(): Promise<void> {
    const before = this.#endedBoots
    const { ready, pools, orphans } = await countKept(this.#shared.db, this.#watched)
    this.#countedBoots = before
    for (const pool of this.#kinds) pool.update({ ...NO_POOL, id: pool.name, idle: ready.get(pool.name) ?? 0 })
    this.#orphans = orphans
    const gone = new Map(this.#owned)
    for (const count of this.#shared.pools ? pools : []) {
      gone.delete(count.id)
      const known = this.#owned.get(count.id)
      if (known) known.update(count)
      else this.#owned.set(count.id, this.#pool(count))
    }
    for (const [id, { queue }] of gone) {
      this.#owned.delete(id)
      queue.close(fault.notFound('browser pool', id))
      const last = queue.settled()
      this.#last.add(last)
      void last.finally(() => this.#last.delete(last))
    }
  }

  /** Fills the pools from now on, until the service stops, as long as that is the duty of this replica. */
  fill(): void {
    this.#wake()
    this.#filling ??= this.#fill()
  }

  #wake(): void {
    this.#isChanged = true
    this.#changed.notify()
  }

  /** A caller has an instance, or a boot for it has begun. */
  #callerServed(): void {
    if (this.#isBehindCallers) this.#wake()
  }

  /** Looks whether instances are missing, or too many, and what there is for callers that this replica was not told of. For the sweep. */
  async look(): Promise<void> {
    const memory = this.#memory()
    const wanted = sum(this.#kinds.map((pool) => pool.wanted(pool.idle, memory)))
    const { leases, registry, mostReady = Infinity } = this.#shared
    // Alone, this process knows how many are ready, and what changes that.
    if (leases.remembered(this.isUnowned && registry.ready === Math.min(wanted, mostReady))) return
    await this.count()
    this.#mayTrim = true
    this.#wake()
  }

  /** Whether nothing is left of owned pools, as far as this replica knows. */
  get isUnowned(): boolean {
    return this.#owned.size === 0 && this.#shared.registry.pooled === 0
  }

  /** Resolves when nothing is being started any more. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#filling
    await Promise.allSettled(this.#refills)
    for (const { queue } of this.#all) await queue.settled()
    await Promise.all(this.#last)
  }

  get #booting(): number {
    return sum(this.#all.map(({ queue }) => queue.booting))
  }

  /**
   * How long the next refill waits, in milliseconds. Boots that run beside each other are spread over the time that one takes: those that begin together are ready together, and a caller
   * who works without pause would wait for a whole boot each second time.
   */
  get #tooEarlyMs(): number {
    return this.#booting === 0 ? 0 : Math.max(0, this.#bootBeganAt + this.#bootMs / this.#starts.size - performance.now())
  }

  /** Whether there are callers for whom a boot has not begun. Those of a pool that has all its browsers wait for one of these. */
  get #hasPending(): boolean {
    const [waiting, booting] = [sum(this.#kinds.map(({ queue }) => queue.waiting)), sum(this.#kinds.map(({ queue }) => queue.booting))]
    return waiting > booting || [...this.#owned.values()].some(({ queue }) => queue.hopeful > queue.booting)
  }

  async #boot(pool: Pool, wanted: Promise<void>, turn: Disposable | undefined): Promise<boolean> {
    const { notices, meter, signal } = this.#shared
    meter?.booting(!turn)
    const beganAt = (this.#bootBeganAt = performance.now())
    this.#callerServed()
    try {
      if (!(await pool.begin(() => this.boots.pooled(pool, wanted, turn)))) {
        // Until the next boot is begun, what our count has not seen may have come to an end.
        await sleep(REFUSED_MS, signal).catch(() => {})
        return false
      }
      if (pool.kind) this.#bootMs = performance.now() - beganAt
      notices.tell(notices.isReady)
      // Callers of another queue may have use for it, when those of its own have not.
      if (pool.kind && pool.queue.waiting === 0) for (const other of this.#kinds) if (other !== pool) other.queue.lookAgain()
      return true
    } catch (error) {
      if (!signal.aborted) meter?.bootFailed(!turn)
      throw error
    } finally {
      this.#endedBoots++
    }
  }

  async #fill(): Promise<void> {
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

  /** Begins one boot for the pool that is most in need of it. Returns for how long there is nothing to do unless something changes. */
  async #fillOne(): Promise<number> {
    const { signal, hasRoom, log } = this.#shared
    // Callers come first: a refill must not take the turn of what they wait for.
    if ((this.#isBehindCallers = this.#hasPending)) return Infinity
    if (this.#tooEarlyMs > 0) return this.#tooEarlyMs
    using scope = new DisposableStack()
    scope.use(await this.#starts.enter(signal))
    if (this.#hasPending || this.#tooEarlyMs > 0) return 0
    this.#isChanged = false
    await this.count()
    if (this.#countedBoots !== this.#endedBoots) return 0
    this.#isCounted = true
    const now = this.#now()
    const short = this.#short(now)
    if (!short) {
      const pauses = this.#all.map((pool) => pool.pauseMs(now)).filter((ms) => ms > 0 && Number.isFinite(ms))
      if (await this.#trim()) return 0
      // One whose boots fail may be booting again just now.
      if (pauses.length === 0) for (const pool of this.#all) if (pool.queue.booting === 0) pool.isWell = true
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

  /** Begins the end of an instance of a kind that nobody is likely to need; false when there is none. */
  async #trim(): Promise<boolean> {
    const { db, scope, endings, log } = this.#shared
    if (!this.#mayTrim || this.#kinds.some(({ queue }) => queue.waiting > 0)) return false
    this.#mayTrim = false
    const surplus = this.#kinds.find((pool) => pool.idle > pool.wanted(pool.idle, this.#memory()))
    const row = surplus && (await endSurplus(db, scope, surplus.name))
    if (row) void endings.endRow(row).catch((err: unknown) => log.warn({ err, browser: row.id }, 'a surplus browser could not be ended yet'))
    return row !== undefined
  }

  /** Waits for so long, or until something has changed. */
  async #pause(ms: number): Promise<void> {
    if (ms === 0 || this.#isChanged) return
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#shared.signal])
    const waits = [this.#changed.next(signal), ...(Number.isFinite(ms) ? [sleep(ms, signal)] : [])]
    await Promise.race(waits).finally(() => over.abort())
  }

  /**
   * By the last count: the first kind that has fewer than its least, or else a kind of which callers ask for more, or the owned pool that has the smallest part of its browsers. When
   * there are both, they take turns. A pool that waits after a failed boot, or for its rate, is left out.
   */
  #short(now: number): Pool | undefined {
    const memory = this.#memory()
    const may = (pool: Pool) => pool.pauseMs(now) === 0
    const least = this.#kinds.find((pool) => may(pool) && pool.kept < pool.kind!.target)
    if (least) return least
    const isShort = (pool: Pool) => may(pool) && pool.kept < pool.wanted(pool.kept, memory)
    const isFull = sum(this.#kinds.map(({ kept }) => kept)) >= (this.#shared.mostReady ?? Infinity)
    const kind = isFull ? undefined : this.#kinds.find(isShort)
    const part = ({ kept, size }: Pool) => kept / size
    const owned = [...this.#owned.values()].filter(isShort).toSorted((a, b) => part(a) - part(b))[0]
    if (!kind || !owned) return kind ?? owned
    this.#wasOwned = !this.#wasOwned
    return this.#wasOwned ? owned : kind
  }
}

const NO_POOL = { size: 0, rate: 0, there: 0, discarded: 0 }
const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)
