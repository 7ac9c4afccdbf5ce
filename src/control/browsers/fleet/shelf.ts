// The shelf: booted instances of several kinds that no session has claimed yet. Every boot ends here, also one that a caller waits for.
import type { Log } from '../../../base/log.ts'
import { memoryNow, type Memory } from '../../../base/memory.ts'
import type { Slots } from '../../../base/slots.ts'
import { Bell } from '../../../base/bell.ts'
import { sleep } from '../../../base/wait.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { claimWarm, endSurplus, readyInScope, type BrowserRow, type Ownership } from '../rows.ts'
import type { Boots } from './boots.ts'
import { Demand, wanted } from './demand.ts'
import type { Endings } from './endings.ts'
import type { Kind } from './kinds.ts'
import { Line } from './line.ts'
import type { Registry } from './registry.ts'

/** Retries after a failed boot: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000
/** On a full disk no warm browser is started. This is the interval for checking the disk again. */
const NO_ROOM_MS = 2_000

/** Gets what the shelf does, for metrics. */
export interface ShelfMeter {
  /** A caller got an instance: one that was ready when it asked, or one that it waited for. */
  served(wasReady: boolean, seconds: number): void
  booting(isAwaited: boolean): void
  bootFailed(isAwaited: boolean): void
}

/** The shelf as it is now. */
export interface ShelfState {
  /** Callers who wait for a boot, or for their turn to look. */
  waiting: number
  /** Boots under way. */
  booting: number
  /** How many of each kind should be ready. */
  wanted: Record<string, number>
}

/** What other replicas are told, if there are any. */
export interface OtherShelves {
  /** A caller wants an instance of a kind. */
  asked(kind: string): void
  /** There is one more on the shelf. */
  isReady(): void
  /** A row says that a replica has to end its instance. */
  end(replica: string): void
}

interface ShelfSettings {
  db: Db
  scope: string
  leases: Leases
  kinds: readonly Kind[]
  /** Most ready instances of all kinds together, beyond the least of each; no limit unless given. */
  mostReady?: number | undefined
  boots: Boots
  starts: Slots
  registry: Registry
  endings: Endings
  /** Has the shelf filled by the replica whose duty that is. */
  refill: () => void
  others: OtherShelves
  /** Whether the disk has room for another instance. */
  hasRoom: () => boolean
  memory?: (() => Memory) | undefined
  /** In milliseconds. */
  now?: (() => number) | undefined
  meter?: ShelfMeter | undefined
  log: Log
  signal: AbortSignal
}

/** What is kept for each kind. */
interface Keeping {
  kind: Kind
  line: Line
  demand: Demand
  /** After a failed boot: when the next refill may begin, and how long the wait after another failure is. */
  retryAt: number
  retryMs: number
  /** Whether its last boot has come up, or it has enough. */
  isWell: boolean
}

export class Shelf {
  readonly #settings: ShelfSettings
  readonly #now: () => number
  readonly #memory: () => Memory
  readonly #keeping: readonly Keeping[]
  /** Rings when a caller has stopped waiting. */
  readonly #served = new Bell()
  #filling: Promise<void> | undefined
  #isFilling = false
  /** Whether something has changed since the fill under way has counted. */
  #isChanged = false
  readonly #refills = new Set<Promise<unknown>>()
  /** Rings when the shelf has to be counted again. */
  readonly #changed = new Bell()
  #trimming: Promise<void> | undefined
  /** When the newest boot began, and how long the last one took, in milliseconds. */
  #bootBeganAt = -Infinity
  #bootMs = 0
  /** Whether the last attempt to count the shelf has succeeded. */
  #isCounted = true

  constructor(settings: ShelfSettings) {
    this.#settings = settings
    this.#now = settings.now ?? (() => performance.now())
    this.#memory = settings.memory ?? memoryNow
    const { starts, signal, kinds } = settings
    this.#keeping = kinds.map((kind) => {
      const demand = new Demand()
      const boot = (isAwaited: boolean, wanted: Promise<void>) => this.#boot(keeping, isAwaited, wanted)
      const line = new Line({ boot, onSleep: () => this.hurry(), onOver: () => this.fill(), starts, signal })
      const keeping: Keeping = { kind, demand, line, retryAt: 0, retryMs: RETRY_FIRST_MS, isWell: true }
      return keeping
    })
  }

  /** Whether the wanted number of every kind is there, or the last attempt to start one succeeded, or that is another replica's duty. */
  get isWell(): boolean {
    return !this.#settings.leases.holds('shelf') || (this.#isCounted && this.#keeping.every(({ isWell }) => isWell))
  }

  get state(): ShelfState {
    const memory = this.#memory()
    const count = (of: (line: Line) => number) => this.#keeping.reduce((sum, { line }) => sum + of(line), 0)
    return {
      waiting: this.#waiting,
      booting: count(({ booting }) => booting),
      wanted: Object.fromEntries(
        this.#keeping.map(({ kind, demand }) => [kind.name, wanted(kind, demand.level(this.#now()), this.#settings.registry.ready, memory)]),
      ),
    }
  }

  get #booting(): number {
    return this.#keeping.reduce((sum, { line }) => sum + line.booting, 0)
  }

  /**
   * How long the next refill waits, in milliseconds. Boots that run beside each other are spread over the time that one takes: those that begin together are ready together, and a caller
   * who works without pause would wait for a whole boot each second time.
   */
  get #tooEarlyMs(): number {
    return this.#booting === 0 ? 0 : this.#bootBeganAt + this.#bootMs / this.#settings.starts.size - performance.now()
  }

  get #waiting(): number {
    return this.#keeping.reduce((sum, { line }) => sum + line.waiting, 0)
  }

  /** Whether a kind serves the caller. Otherwise it needs a boot of its own. */
  serves(ownership: Ownership): boolean {
    return this.#keeping.some(({ kind }) => kind.serves(ownership))
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
   * ready before the caller asked. @throws as {@link Line.wait}
   */
  async wait<T>(ownership: Ownership, take: () => Promise<T | undefined>, signal: AbortSignal): Promise<{ taken: T; wasReady: boolean }> {
    const { kind, line } = this.#keeping.find((one) => one.kind.serves(ownership))!
    const began = this.#now()
    this.asked(kind.name)
    if (!this.#settings.leases.holds('shelf')) this.#settings.others.asked(kind.name)
    try {
      const found = await line.wait(take, signal)
      this.#settings.meter?.served(found.wasReady, (this.#now() - began) / 1000)
      return found
    } finally {
      this.#served.ring()
    }
  }

  /** A caller wants an instance of a kind, here or at another replica. */
  asked(name: string): void {
    this.#keeping.find(({ kind }) => kind.name === name)?.demand.asked(this.#now())
  }

  /** A caller waits for a turn: the boots that have one must not leave the CPU to others. */
  hurry(): void {
    for (const { line } of this.#keeping) line.hurry()
  }

  /** Another replica has put something on the shelf. */
  lookAgain(): void {
    for (const { line } of this.#keeping) line.lookAgain()
  }

  /** Begins to fill the shelf, until it is full, the signal aborts, or it is another replica's duty. */
  fill(): void {
    if (!this.#settings.leases.holds('shelf')) return
    this.#isChanged = true
    this.#changed.ring()
    if (this.#isFilling) return
    this.#isFilling = true
    this.#filling = this.#fill()
  }

  /** Ends one instance that nobody is likely to need, if there is one. For the sweep. */
  trim(): void {
    const { leases, registry, signal, log } = this.#settings
    if (signal.aborted || this.#trimming || !leases.holds('shelf') || this.#waiting > 0) return
    const least = this.#keeping.reduce((sum, { kind }) => sum + kind.target, 0)
    if (leases.isAlone && registry.ready <= least) {
      // Memory that was short may have come back.
      const sum = this.#keeping.reduce((all, keeping) => all + this.#wanted(keeping, registry.ready), 0)
      if (Math.min(sum, this.#settings.mostReady ?? Infinity) > registry.ready) this.fill()
      return
    }
    this.#trimming = this.#trim()
      .catch((err: unknown) => log.warn({ err }, 'a surplus warm browser could not be ended; the next sweep tries again'))
      .finally(() => (this.#trimming = undefined))
  }

  /** Resolves when nothing is being started any more. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#filling
    await Promise.allSettled(this.#refills)
    for (const { line } of this.#keeping) await line.settled()
    await this.#trimming
  }

  async #boot(keeping: Keeping, isAwaited: boolean, wanted: Promise<void>): Promise<void> {
    const { boots, others, meter, signal } = this.#settings
    const began = this.#now()
    meter?.booting(isAwaited)
    const beganAt = (this.#bootBeganAt = performance.now())
    this.#served.ring()
    try {
      await boots.ready(keeping.kind, wanted, signal)
      keeping.demand.booted(this.#now() - began)
      this.#bootMs = performance.now() - beganAt
      keeping.retryAt = 0
      keeping.retryMs = RETRY_FIRST_MS
      keeping.isWell = true
      others.isReady()
      // Callers of another line may have use for it, when those of its own have not.
      if (keeping.line.waiting === 0) for (const other of this.#keeping) if (other !== keeping) other.line.lookAgain()
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
        if (this.#waiting > this.#booting) {
          await this.#served.heard(signal)
          continue
        }
        const early = this.#tooEarlyMs
        if (early > 0) {
          await this.#pause(early)
          continue
        }
        using scope = new DisposableStack()
        scope.use(await starts.enter(signal))
        if (this.#waiting > this.#booting || this.#tooEarlyMs > 0) continue
        this.#isChanged = false
        const short = await this.#shortKind()
        this.#isCounted = true
        if (!short) {
          if (this.#isChanged) continue
          const pauses = this.#keeping.map(({ retryAt }) => retryAt - this.#now()).filter((ms) => ms > 0)
          if (pauses.length === 0) {
            this.#isCounted = true
            // One whose boots fail may be booting again just now.
            for (const keeping of this.#keeping) if (keeping.line.booting === 0) keeping.isWell = true
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
        const refill = this.#refill(short).finally(() => turn.dispose())
        this.#refills.add(refill)
        void refill.finally(() => this.#refills.delete(refill))
      } catch (err) {
        if (signal.aborted) continue
        this.#isCounted = false
        this.#settings.log.error({ err }, 'the shelf could not be counted')
        await sleep(RETRY_FIRST_MS, signal).catch(() => {})
      }
    }
    this.#isFilling = false
  }

  async #refill(keeping: Keeping): Promise<void> {
    try {
      await keeping.line.refill()
    } catch (err) {
      if (this.#settings.signal.aborted) return
      this.#failed(keeping, err)
    }
    this.fill()
  }

  #failed(keeping: Keeping, err: unknown): void {
    const { kind, retryMs } = keeping
    keeping.isWell = false
    this.#settings.log.error({ err, kind: kind.name, retryMs }, 'a warm browser did not start')
    keeping.retryAt = this.#now() + retryMs
    keeping.retryMs = Math.min(RETRY_LAST_MS, retryMs * 2)
  }

  /** Waits for so long, or until the shelf has to be counted again. */
  async #pause(ms: number): Promise<void> {
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#settings.signal])
    await Promise.race([sleep(ms, signal), this.#changed.heard(signal)]).finally(() => over.abort())
  }

  /** The first kind of which there are too few, those counted that are booting. One that waits after a failed boot is left out. */
  async #shortKind(): Promise<Keeping | undefined> {
    const { db, scope, leases, registry, endings } = this.#settings
    // Before the rows: what comes up meanwhile counts twice rather than not at all, and has the shelf counted again.
    const booting = this.#keeping.map(({ line }) => line.booting)
    const rows = await readyInScope(db, scope)
    // A ready instance is ours before its row says so. Without an instance the row was written, but the database's answer was lost.
    const isHere = (row: { id: string; replica: string | null }) => row.replica !== leases.replica || registry.runs(row.id)
    for (const { id } of rows.filter((row) => row.replica === leases.replica && !registry.get(row.id) && !registry.isComing(row.id)))
      await endings.crashed(id, 'lost', 'lost')
    const kept = this.#keeping.map(({ kind }, index) => rows.filter((row) => row.warm_kind === kind.name && isHere(row)).length + booting[index]!)
    const may = ({ retryAt }: Keeping) => retryAt <= this.#now()
    const least = this.#keeping.find((keeping, index) => may(keeping) && kept[index]! < keeping.kind.target)
    if (least || kept.reduce((sum, count) => sum + count, 0) >= (this.#settings.mostReady ?? Infinity)) return least
    return this.#keeping.find((keeping, index) => may(keeping) && kept[index]! < this.#wanted(keeping, kept[index]!))
  }

  #wanted({ kind, demand }: Keeping, kept: number): number {
    return wanted(kind, demand.level(this.#now()), kept, this.#memory())
  }

  async #trim(): Promise<void> {
    const { db, scope, leases, registry, endings, others } = this.#settings
    const rows = await readyInScope(db, scope)
    for (const keeping of this.#keeping) {
      const kept = rows.filter((row) => row.warm_kind === keeping.kind.name).length
      const needed = this.#wanted(keeping, kept)
      // A notice of another replica may be lost.
      if (kept < needed) this.fill()
      if (kept <= needed) continue
      const ended = await endSurplus(db, scope, keeping.kind.name)
      // A caller may have claimed another one since they were counted.
      this.fill()
      if (!ended) continue
      if (ended.replica === leases.replica) {
        await registry.taken(ended.id)
        await endings.resume(ended, 'surplus')
      } else if (ended.replica !== null) others.end(ended.replica)
      return
    }
  }
}
