// Seats for runs: counted in this process, and also in the database when replicas share the seats.
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
  /** The limits of projects. No project has one unless given. */
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
    // When this process counts as exactly as the rows do, the database counts only the projects.
    this.#counted = new SharedSeats(db, leases.remembered(this.#own) ? undefined : ofScope)
  }

  /** Reserves a seat for a new run; undefined when the limit is reached. */
  reserve(): (() => void) | undefined {
    return this.#own.reserve(this.#settings.maxInvocations)
  }

  /** Runs `insert` when a seat of this service, of the scope and of the project is free. Call `leave` after the run has started. @throws NoSeat */
  async take<T>(project: string, insert: (db: Db) => Promise<T>): Promise<{ made: T; leave: () => void }> {
    const ofProject = await this.#settings.projectSeats?.(project)
    // A caller of a limited project reserves later: the limit may be reached at its turn. Until then it takes no seat from callers of other projects.
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
