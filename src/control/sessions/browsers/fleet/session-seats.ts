// Seats of sessions, counted in three limits: of this service, of its scope when replicas share it, and of a project that has a limit.
import { Mutexes } from '../../../../base/mutex.ts'
import { Seats } from '../../../../base/seats.ts'
import { sleep } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import { NoSeat, SharedSeats } from '../../../../store/seats.ts'
import { countSeats, isEndUnderWay, type Ownership } from '../rows.ts'
import type { Pools } from './pools.ts'
import type { Shared } from './shared.ts'

/** How long a create waits for the seat of a session that is being ended. An end takes a tenth of a second, on a busy machine a second. */
const SEAT_MS = 3_000
/** Interval of asking the database again for a seat. */
const LOOK_FOR_SEAT_MS = 50

export class SessionSeats {
  readonly #settings: Shared
  readonly #pools: Pick<Pools, 'seats' | 'count'>
  readonly #own: Seats
  readonly #counted: SharedSeats
  readonly #turns = new Mutexes()
  /** By project: callers who may make a session that has no row yet. */
  readonly #entered = new Map<string, Set<Ownership>>()

  constructor(settings: Shared, pools: Pick<Pools, 'seats' | 'count'>) {
    this.#settings = settings
    this.#pools = pools
    const { db, scope, leases, maxSessions: of, registry } = settings
    this.#own = new Seats(() => registry.sessions + pools.seats)
    const ofScope = { name: `sessions of ${scope}`, count: async (tx: Db) => ({ of: of!, free: of! - (await countSeats(tx, { scope })) }) }
    // When this process counts as exactly as the rows do, the database counts only the projects.
    this.#counted = new SharedSeats(db, leases.remembered(this.#own) || of === undefined ? undefined : ofScope)
  }

  /**
   * Reserves a seat of this service and runs `work`, which makes a session and calls `leaveSeat` when the registry counts it. If the database has no seat but a
   * session is ending, `work` is run again for up to {@link SEAT_MS}. @throws NoSeat; errors of `work`; the signal's reason
   */
  async seated<T>(ownership: Ownership, work: (leaveSeat: () => void) => Promise<T>, signal: AbortSignal): Promise<T> {
    const { db, scope } = this.#settings
    using opened = new DisposableStack()
    opened.defer(await this.#enter(ownership, signal))
    const leaveSeat = await this.#reserve(signal)
    opened.defer(leaveSeat)
    const until = performance.now() + SEAT_MS
    for (;;)
      try {
        return await work(leaveSeat)
      } catch (error) {
        // A caller without a seat waits here and leaves the pool's queue. Callers after it may need another kind of seat and can go first.
        if (!(error instanceof NoSeat) || performance.now() >= until) throw error
        if (!(await isEndUnderWay(db, error.projectLimit === undefined ? { scope } : { project: ownership.project }))) throw error
        await sleep(LOOK_FOR_SEAT_MS, AbortSignal.any([signal, this.#settings.signal]))
      }
  }

  /** Runs `work`, which gives a pool `wanted` more seats. @throws NoSeat */
  async forPool<T>(project: string, wanted: number, work: (db: Db) => Promise<T>, signal: AbortSignal): Promise<T> {
    const leave = wanted > 0 ? await this.#reserve(signal, wanted) : () => {}
    try {
      const made = await (wanted > 0 ? this.#counted.take(await this.#settings.projectSeats?.(project), work, wanted) : work(this.#settings.db))
      // Ignore an error: the seats are taken, and the sweep counts again.
      await this.#pools.count().catch(() => {})
      return made
    } finally {
      leave()
    }
  }

  /**
   * Reserves seats of this service. While sessions are ending, waits up to {@link SEAT_MS} for their seats, so that a caller that deletes a session can create
   * another one at once. @throws NoSeat
   */
  async #reserve(signal: AbortSignal, wanted = 1): Promise<() => void> {
    const { endings, maxSessions = Infinity } = this.#settings
    const limit = AbortSignal.timeout(SEAT_MS)
    for (;;) {
      const seat = this.#own.reserve(maxSessions, wanted)
      if (seat) return seat
      if (endings.underWay === 0 || limit.aborted) throw new NoSeat()
      await endings.over(AbortSignal.any([signal, limit])).catch(() => {})
      signal.throwIfAborted()
    }
  }

  /**
   * Admits as many callers of a limited project as it has free seats. The others wait here: they take no seat from other projects, and no boot begins for them.
   * The database checks again in {@link take}. Returns the undo. @throws NoSeat when the project uses all its sessions and none is ending
   */
  async #enter(ownership: Ownership, signal: AbortSignal): Promise<() => void> {
    const { db, projectSeats } = this.#settings
    const { project } = ownership
    const until = performance.now() + SEAT_MS
    const seats = await projectSeats?.(project)
    if (!seats) return () => {}
    const stopped = AbortSignal.any([signal, this.#settings.signal])
    const letIn = async () => {
      for (;;) {
        const { of, free } = await seats.count(db)
        const entered = this.#entered.get(project)?.size ?? 0
        if (free > entered) break
        if (free <= 0 && !(performance.now() < until && (await isEndUnderWay(db, { project })))) throw new NoSeat(of)
        // An admitted caller may have failed and freed its seat.
        await sleep(LOOK_FOR_SEAT_MS, stopped)
      }
      this.#entered.set(project, (this.#entered.get(project) ?? new Set()).add(ownership))
    }
    await this.#turns.run(project, letIn, stopped)
    return () => this.#left(ownership)
  }

  /** Runs `work`, which gives a session its row, when the database has a seat for it. @throws NoSeat */
  async take<T>(ownership: Ownership, work: (db: Db) => Promise<T>): Promise<T> {
    const made = await this.#counted.take(await this.#settings.projectSeats?.(ownership.project), work)
    // From now on the database counts the row.
    if (made !== undefined) this.#left(ownership)
    return made
  }

  #left(ownership: Ownership): void {
    const entered = this.#entered.get(ownership.project)
    entered?.delete(ownership)
    if (entered?.size === 0) this.#entered.delete(ownership.project)
  }
}
