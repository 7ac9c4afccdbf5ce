// Seats that several replicas count together: one caller at a time looks how many are taken, and takes one.
import { sql } from 'kysely'
import { Mutex } from '../base/mutex.ts'
import { Unavailable } from '../base/unavailable.ts'
import type { Db } from './db.ts'

/** How long one caller may hold the lock while it does nothing: a replica that is stopped in between would keep all others waiting. */
const IDLE_MS = 2_000
/** How long one waits for the lock. */
const LOCK_MS = 5_000
const RETRY_SECONDS = 2
/**
 * While many seats are free, a replica counts them once for several callers, without the lock: it lets in at most this part of what was free, and so many, and counts again after
 * {@link KNOWN_MS}. With up to sixteen replicas all of them together let in a tenth of what was free before they have seen each other's sessions.
 */
const PART = 1 / 160
const MOST_UNSEEN = 20
const KNOWN_MS = 1_000
/** The code of Postgres for a lock that was not free in time. */
const LOCK_NOT_AVAILABLE = '55P03'

/** All seats are taken. */
export class NoSeat extends Error {
  /** The limit that is reached, if it is a project's own one. */
  readonly projectLimit: number | undefined
  constructor(projectLimit?: number) {
    super('all seats are taken')
    this.projectLimit = projectLimit
  }
}

/** Seats that are counted together: those of a service, or of a project. */
export interface SeatCount {
  /** The same at all replicas: the name of the lock. */
  name: string
  /** How many there are, and how many of them are free: less than one when all are taken. */
  count: (db: Db) => Promise<{ of: number; free: number }>
}

/** The seats of a project that has a limit for them; undefined for the others. */
export type ProjectSeats = (project: string) => Promise<SeatCount | undefined>

/** Takes seats of one kind. Its callers wait for each other here, so that they hold one connection to the database and not all of them. */
export class SharedSeats {
  readonly #mutex = new Mutex()
  readonly #db: Db
  readonly #own: SeatCount | undefined
  /** Callers that the last count without the lock still lets in, negative when few seats were free; and until when that holds, by performance.now(). */
  #unseen = { left: 0, until: -Infinity }
  #counting: Promise<void> | undefined

  /** `own`: those of all callers; undefined when they are counted elsewhere. */
  constructor(db: Db, own: SeatCount | undefined) {
    this.#db = db
    this.#own = own
  }

  /**
   * Does `take` when `wanted` seats are free, also of `project` if that counts its own. It must use `tx` only, which is no transaction when nothing is counted here.
   * @throws NoSeat; Unavailable when another replica keeps the lock
   */
  async take<T>(project: SeatCount | undefined, take: (tx: Db) => Promise<T>, wanted = 1): Promise<T> {
    // The project's lock first, everywhere: callers of a full project then do not keep the others waiting.
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

  /** Lets one caller in without the lock, if so many seats are free that the number of replicas does not matter. */
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
