// Room for runs: counted in this process, and in the database as well when other replicas take the same seats.
import { Seats } from '../../../base/seats.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { NoSeat, SharedSeats, type ProjectSeats } from '../../../store/seats.ts'
import { countUnfinished } from './rows.ts'

export interface RunSeatsSettings {
  db: Db
  scope: string
  leases: Leases
  maxInvocations: number
  /** Of projects that have a limit of their own. None has one, unless given. */
  projectSeats?: ProjectSeats
  /** How many runs this process follows. */
  running: () => number
}

export class RunSeats {
  readonly #settings: RunSeatsSettings
  readonly #own: Seats
  readonly #counted: SharedSeats

  constructor(settings: RunSeatsSettings) {
    this.#settings = settings
    const { db, scope, leases, maxInvocations: of, running } = settings
    this.#own = new Seats(running)
    const ofScope = { name: `runs of ${scope}`, count: async (tx: Db) => ({ of, free: of - (await countUnfinished(tx, { scope })) }) }
    // Where our own count is as good as the rows, the database counts for projects only.
    this.#counted = new SharedSeats(db, leases.remembered(this.#own) ? undefined : ofScope)
  }

  /** A seat for a run that is about to be made; undefined when the limit is reached. */
  reserve(): (() => void) | undefined {
    return this.#own.reserve(this.#settings.maxInvocations)
  }

  /** Does `insert` when a seat of this service, of the scope and of the project is free. Call `leave` after the run has begun. @throws NoSeat */
  async take<T>(project: string, insert: (db: Db) => Promise<T>): Promise<{ made: T; leave: () => void }> {
    const ofProject = await this.#settings.projectSeats?.(project)
    // Callers whose project has a limit may find it reached when it is their turn. Until then they take no seat from callers of other projects.
    let leave = ofProject ? undefined : this.#mustReserve()
    const work = (db: Db): Promise<T> => {
      leave ??= this.#mustReserve()
      return insert(db)
    }
    try {
      return { made: await this.#counted.take(ofProject, work), leave: () => leave?.() }
    } catch (error) {
      leave?.()
      throw error
    }
  }

  #mustReserve(): () => void {
    const leave = this.reserve()
    if (!leave) throw new NoSeat()
    return leave
  }
}
