// Room for runs: counted in this process, and with other replicas in the database as well.
import { Seats } from '../../base/seats.ts'
import type { Db } from '../../store/db.ts'
import type { Leases } from '../../store/leases.ts'
import { SharedSeats } from '../../store/seats.ts'
import { countUnfinished } from './rows.ts'

interface RunSeatsSettings {
  db: Db
  scope: string
  leases: Leases
  maxInvocations: number
  /** How many runs this process follows. */
  running: () => number
}

export class RunSeats {
  readonly #settings: RunSeatsSettings
  readonly #own: Seats
  readonly #shared: SharedSeats | undefined

  constructor(settings: RunSeatsSettings) {
    this.#settings = settings
    const { db, scope, leases, maxInvocations, running } = settings
    this.#own = new Seats(running)
    if (!leases.isAlone) this.#shared = new SharedSeats(db, `runs of ${scope}`, async (tx) => (await countUnfinished(tx, scope)) < maxInvocations)
  }

  /** A seat for a run that is about to be made; undefined when the limit is reached. Release it after the run has begun. */
  reserve(): (() => void) | undefined {
    return this.#own.reserve(this.#settings.maxInvocations)
  }

  /** Does `insert` when a seat of the scope is free. Alone, {@link reserve} has said so. @throws NoSeat */
  take<T>(insert: (db: Db) => Promise<T>): Promise<T> {
    return this.#shared ? this.#shared.take(insert) : insert(this.#settings.db)
  }
}
