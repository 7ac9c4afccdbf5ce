// The shelf: booted instances of several kinds that no session has claimed yet, kept at the number that each kind wants.
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { claimWarm, readyInScope, type BrowserRow, type Ownership } from '../rows.ts'
import type { Boots } from './boots.ts'
import type { Endings } from './endings.ts'
import type { Kind } from './kinds.ts'
import type { Registry } from './registry.ts'

/** A boot takes a second of CPU time. It waits until the caller that took the warm browser has most likely started its work. */
const REFILL_AFTER_MS = 250
/** Retries after a failed boot: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000
/** On a full disk no warm browser is started. This is the interval for checking the disk again. */
const NO_ROOM_MS = 2_000

interface ShelfSettings {
  db: Db
  scope: string
  leases: Leases
  kinds: readonly Kind[]
  boots: Boots
  registry: Registry
  endings: Endings
  /** Has the shelf filled by the replica whose duty that is. */
  refill: () => void
  /** Whether the disk has room for another instance. */
  hasRoom: () => boolean
  log: Log
  signal: AbortSignal
}

export class Shelf {
  readonly #settings: ShelfSettings
  #filling: Promise<void> | undefined
  #fillAt = 0
  #well = true

  constructor(settings: ShelfSettings) {
    this.#settings = settings
  }

  /** Whether the wanted number of every kind is there, or the last attempt to start one succeeded. */
  get isWell(): boolean {
    return this.#well
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

  /** Begins to fill the shelf, until it is full, the signal aborts, or it is another replica's duty. */
  fill(): void {
    if (!this.#settings.leases.holds('shelf')) return
    this.#fillAt = performance.now() + REFILL_AFTER_MS
    this.#filling ??= this.#fill().finally(() => (this.#filling = undefined))
  }

  /** Resolves when nothing is being started any more. For use after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#filling
  }

  async #fill(): Promise<void> {
    const { signal, leases, log } = this.#settings
    let retryMs = RETRY_FIRST_MS
    while (!signal.aborted && leases.holds('shelf')) {
      const wait = this.#fillAt - performance.now()
      if (wait > 0) {
        await sleep(wait, signal).catch(() => {})
        continue
      }
      try {
        const kind = await this.#shortKind()
        if (!kind) {
          this.#well = true
          return
        }
        if (!this.#settings.hasRoom()) {
          await sleep(NO_ROOM_MS, signal).catch(() => {})
          continue
        }
        await this.#settings.boots.ready(kind, signal)
        retryMs = RETRY_FIRST_MS
        this.#well = true
      } catch (err) {
        if (signal.aborted) return
        this.#well = false
        log.error({ err, retryMs }, 'a warm browser did not start')
        await sleep(retryMs, signal).catch(() => {})
        retryMs = Math.min(RETRY_LAST_MS, retryMs * 2)
      }
    }
  }

  /** The first kind of which there are too few. */
  async #shortKind(): Promise<Kind | undefined> {
    const { db, scope, leases, kinds, registry, endings } = this.#settings
    const rows = await readyInScope(db, scope)
    // A ready instance is ours before its row says so. Without an instance the row was written, but the database's answer was lost.
    const isHere = (row: { id: string; replica: string | null }) => row.replica !== leases.replica || registry.runs(row.id)
    for (const { id } of rows.filter((row) => row.replica === leases.replica && !registry.get(row.id) && !registry.isComing(row.id)))
      await endings.crashed(id, 'lost', 'lost')
    return kinds.find(({ name, target }) => rows.filter((row) => row.warm_kind === name && isHere(row)).length < target)
  }
}
