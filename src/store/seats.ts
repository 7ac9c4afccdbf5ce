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
/** The code of Postgres for a lock that was not free in time. */
const LOCK_NOT_AVAILABLE = '55P03'

/** All seats are taken. */
export class NoSeat extends Error {}

/** Takes seats of one kind. Its callers wait for each other here, so that they hold one connection to the database and not all of them. */
export class SharedSeats {
  readonly #mutex = new Mutex()
  readonly #db: Db
  readonly #name: string
  readonly #isFree: (tx: Db) => Promise<boolean>

  /** `name` is the same at all replicas; `isFree` counts. */
  constructor(db: Db, name: string, isFree: (tx: Db) => Promise<boolean>) {
    this.#db = db
    this.#name = name
    this.#isFree = isFree
  }

  /** Does `take` when a seat is free. It must use `tx` only. @throws NoSeat; Unavailable when another replica keeps the lock */
  async take<T>(take: (tx: Db) => Promise<T>): Promise<T> {
    const work = async (tx: Db): Promise<T> => {
      await sql`select set_config('idle_in_transaction_session_timeout', ${`${IDLE_MS}ms`}, true), set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`.execute(
        tx,
      )
      await sql`select pg_advisory_xact_lock(hashtextextended(${`cob:seats:${this.#name}`}, 0))`.execute(tx)
      if (!(await this.#isFree(tx))) throw new NoSeat()
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
}
