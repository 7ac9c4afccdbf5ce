// Seats that several replicas count together: one caller at a time counts the taken ones, and takes one.
import { sql } from 'kysely'
import { Mutex } from '../base/mutex.ts'
import { Unavailable } from '../base/unavailable.ts'
import type { Db } from './db.ts'

/** How long one caller may hold the lock while idle: a stopped replica would otherwise make all others wait. */
const IDLE_MS = 2_000
/** How long a caller waits for the lock. */
const LOCK_MS = 5_000
const RETRY_SECONDS = 2
/**
 * While many seats are free, a replica counts them once for several callers and without the lock. It then admits at most this part of the free seats, and at
 * most {@link MOST_UNSEEN} callers, and counts again after {@link KNOWN_MS}. Up to sixteen replicas together admit a tenth of the free seats before they see
 * each other's sessions.
 */
const PART = 1 / 160
const MOST_UNSEEN = 20
const KNOWN_MS = 1_000
/** Postgres' error code for a lock that was not free in time. */
const LOCK_NOT_AVAILABLE = '55P03'

/** All seats are taken. */
export class NoSeat extends Error {
  /** The reached limit, if it is a project's own limit. */
  readonly projectLimit: number | undefined
  constructor(projectLimit?: number) {
    super('all seats are taken')
    this.projectLimit = projectLimit
  }
}

/** Seats that are counted together: those of a service, or of a project. */
export interface SeatCount {
  /** The name of the lock, the same at all replicas. */
  name: string
  /** The number of seats, and the number of free ones: less than one when all are taken. */
  count: (db: Db) => Promise<{ of: number; free: number }>
}

/** The seats of a project with a limit of its own; undefined for other projects. */
export type ProjectSeats = (project: string) => Promise<SeatCount | undefined>

/** Takes seats of one kind. Its callers wait for each other here, so that they use one connection to the database and not all of them. */
export class SharedSeats {
  readonly #mutex = new Mutex()
  readonly #db: Db
  readonly #own: SeatCount | undefined
  /**
   * The number of callers that the last count still admits without the lock, negative when few seats were free; and until when it is valid, by
   * performance.now().
   */
  #unseen = { left: 0, until: -Infinity }
  #counting: Promise<void> | undefined

  /** `own`: the seats of all callers; undefined when they are counted elsewhere. */
  constructor(db: Db, own: SeatCount | undefined) {
    this.#db = db
    this.#own = own
  }

  /**
   * Runs `take` when `wanted` seats are free, also in `project` if it has its own limit. `take` must use `tx` only, which is no transaction when nothing is
   * counted here.
   * @throws NoSeat; Unavailable when another replica holds the lock
   */
  async take<T>(project: SeatCount | undefined, take: (tx: Db) => Promise<T>, wanted = 1): Promise<T> {
    // The project's lock always comes first: so callers of a full project do not make the others wait.
    const counts = [project, this.#own].filter((count) => count !== undefined)
    if (counts.length === 0) return take(this.#db)
    if (!project && wanted === 1 && (await this.#hasMany())) return take(this.#db)
    const work = async (tx: Db): Promise<T> => {
      await sql`select set_config('idle_in_transaction_session_timeout', ${`${IDLE_MS}ms`}, true), set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`.execute(
        tx,
      )
      for (const seats of counts) {
        await sql`select pg_advisory_xact_lock(hashtextextended(${`cob:seats:${seats.name}`}, 0))`.execute(tx)
        const { of, free } = await seats.count(tx)
        if (free < wanted) throw new NoSeat(seats === project ? of : undefined)
      }
      return take(tx)
    }
    return this.#mutex.run(() =>
      this.#db
        .transaction()
        .execute(work)
        .catch((error: unknown) => {
          throw (error as { code?: string }).code === LOCK_NOT_AVAILABLE
            ? new Unavailable('the seats are being counted by another replica', RETRY_SECONDS)
            : error
        }),
    )
  }

  /** Admits one caller without the lock, if so many seats are free that the number of replicas does not matter. */
  async #hasMany(): Promise<boolean> {
    while (performance.now() >= this.#unseen.until || this.#unseen.left === 0)
      await (this.#counting ??= this.#count().finally(() => (this.#counting = undefined)))
    if (this.#unseen.left < 0) return false
    this.#unseen.left--
    return true
  }

  async #count(): Promise<void> {
    const { free } = await this.#own!.count(this.#db)
    const left = Math.min(MOST_UNSEEN, Math.floor(free * PART))
    this.#unseen = { left: left > 0 ? left : -1, until: performance.now() + KNOWN_MS }
  }
}
