// Brings instances and rows together: after a start, and each second. Adopts what outlived its service, and ends what has no counterpart, what has timed out, and what did not end before.
import { letGo } from '../../../../instances/driver.ts'
import type { Deaths } from '../../../../store/leases.ts'
import { liveIds, takeOverBrowsers, watchedBrowsers, watcherOf, type LiveRow } from '../rows.ts'
import type { Shared } from './shared.ts'

/** How often instances are looked for that no row knows: those that an engine has made after the call for them was given up. */
const UNKNOWN_MS = 5 * 60_000

export class Sweep {
  readonly #shared: Shared
  readonly #deaths: Deaths
  /** Rows that had no instance at the last sweep. */
  #missing = new Set<string>()
  #unknownAt = performance.now()
  /** A takeover from dead replicas that is under way. */
  #taking: Promise<void> | undefined

  constructor(shared: Shared) {
    this.#shared = shared
    this.#deaths = shared.leases.deaths()
  }

  get #watched() {
    return { scope: this.#shared.scope, replica: this.#shared.leases.replica }
  }

  /**
   * Makes this replica the one that watches the browsers of dead ones (alone: of all earlier services), and adopts their instances. Returns the rows that must be ended.
   */
  async takeOver(): Promise<LiveRow[]> {
    const { db, scope, leases, log } = this.#shared
    const rows = await takeOverBrowsers(db, scope, leases)
    const tried = rows.map((row) =>
      this.#recover(row.id).catch((err: unknown) => {
        log.error({ err, browser: row.id }, 'a browser could not be taken over yet; the sweep tries again')
        return undefined
      }),
    )
    return (await Promise.all(tried)).filter((row) => row !== undefined)
  }

  /** Ends browsers that have lost their instances or cannot go on. Resolves after one attempt at each; later sweeps retry. */
  async endLost(rows: readonly LiveRow[]): Promise<void> {
    const { endings, log } = this.#shared
    await Promise.all(
      rows.map((row) => {
        log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
        return endings.resume(row, 'lost')
      }),
    )
  }

  /** Removes instances that no row knows. */
  async removeUnknown(): Promise<void> {
    const { db, driver, scope, log } = this.#shared
    // In this order: a row is there before its instance.
    const found = await driver.found()
    const known = new Set(await liveIds(db, scope))
    const remove = async (id: string) => {
      const instance = await driver.adopt(id)
      if (instance) await letGo(instance, log)
    }
    await Promise.all(found.filter(({ id }) => !known.has(id)).map(({ id }) => remove(id)))
  }

  /** Resolves when no takeover is under way. */
  async settled(): Promise<void> {
    await this.#taking
  }

  /** Does not wait for any end that it begins. */
  async run(): Promise<void> {
    const { db, leases, registry, endings, log } = this.#shared
    // What is ours may belong to another replica by now. The next renewal shows it.
    if (!leases.isAlive) return
    if (this.#deaths.isLookDue()) this.#beginTakeOver()
    // Before the rows are read: what comes later has its row by then.
    const known = registry.instances.map(({ id }) => id)
    const rows = await watchedBrowsers(db, this.#watched)
    leases.catchUp(() => this.#agree(known, rows))
    // After a time without a database, uses at other replicas have to be recorded first.
    for (const { id, state, isLate } of rows) if (isLate && leases.mayTakeOver) this.#begin(id, endings.end(id, state === 'releasing' ? 'released' : 'timeout'))
    for (const row of rows)
      if ((row.state === 'stopping' || row.state === 'failed') && endings.isDue(row.id)) this.#begin(row.id, endings.resume(row, 'crashed'))
    // A row that is seen once without an instance may be in a move. When it is seen twice, its instance has ended unnoticed, or the database has not taken the end of its start.
    const missing = rows.filter((row) => this.#isMissing(row)).map(({ id }) => id)
    for (const id of missing) if (this.#missing.has(id)) this.#begin(id, this.#endMissing(id))
    this.#missing = new Set(missing)
    if (leases.holds('warm_pool') && performance.now() - this.#unknownAt > UNKNOWN_MS) {
      this.#unknownAt = performance.now()
      void this.removeUnknown().catch((err: unknown) => log.warn({ err }, 'instances that no row knows could not be removed; it is tried again later'))
    }
  }

  #begin(id: string, work: Promise<unknown>): void {
    void work.catch((err: unknown) => this.#shared.log.error({ err, browser: id }, 'a browser could not be ended yet; the next sweep tries again'))
  }

  /** One at a time. A sweep does not wait for it: an agent that hangs must not keep it from recording which sessions are in use. */
  #beginTakeOver(): void {
    const { log } = this.#shared
    // The one under way may have read the rows before the last death.
    if (this.#taking) return this.#deaths.lookAgain()
    this.#taking = this.takeOver()
      .then((lost) => this.endLost(lost))
      .catch((err: unknown) => {
        log.error({ err }, 'taking over from dead replicas failed; the next sweep tries again')
        this.#deaths.lookAgain()
      })
      .finally(() => (this.#taking = undefined))
  }

  #isMissing({ id, state }: LiveRow): boolean {
    const { registry } = this.#shared
    return !registry.isComing(id) && (state === 'starting' || (['running', 'releasing', 'warm'].includes(state) && !registry.runs(id)))
  }

  async #endMissing(id: string): Promise<void> {
    const { endings, refill } = this.#shared
    const row = await this.#recover(id)
    if (!row) return
    await endings.resume(row, 'crashed')
    refill()
  }

  /** Adopts the instance of a row of ours that this process does not know. Returns the row when it must be ended: it has no instance, was ending, or had not come up. */
  #recover(id: string): Promise<LiveRow | undefined> {
    return this.#shared.registry.taking(id, () => this.#recoverNow(id))
  }

  async #recoverNow(id: string): Promise<LiveRow | undefined> {
    const { db, driver, registry, endings, onTaken, log } = this.#shared
    const known = registry.known(id)
    const instance = known?.instance ?? (await driver.adopt(id))
    // Somebody may have claimed or ended it meanwhile.
    const row = await watcherOf(db, id)
    if (!row) {
      if (instance && !known?.isEnding) await letGo(instance, log)
      return undefined
    }
    if (!instance || known?.gone) return row
    const standing = { isReady: row.state === 'warm', isPooled: row.pool_id !== null }
    // A ready one of an older version is replaced: its row does not say that it is older.
    if (row.state === 'running' || (row.state === 'warm' && !instance.agent.older)) {
      // A replica that was only slow has lost it and found it again.
      if (known?.instance) return undefined
      log.info({ browser: id, state: row.state }, 'adopted a browser that outlived its service')
      endings.keep(instance, standing)
      if (standing.isPooled || !standing.isReady) onTaken?.(instance)
      return undefined
    }
    registry.add(instance, { ...standing, isReady: false })
    // Steps that are done may have been the last ones to need its agent.
    if (row.ended_steps.length > 0) registry.beginEnd(id)
    return row
  }

  /** Brings what this process knows in line with the rows, which other replicas change, too. */
  #agree(known: readonly string[], rows: readonly LiveRow[]): void {
    const { registry } = this.#shared
    const ours = new Set(rows.map(({ id }) => id))
    for (const { id, state } of rows) {
      if (state === 'running' && registry.isReady(id)) registry.claim(id)
      if (state === 'warm' || state === 'releasing') registry.putBack(id)
    }
    for (const id of known) if (!ours.has(id) && this.#isLeft(id)) this.#begin(id, this.#giveAway(id))
  }

  #isLeft(id: string): boolean {
    const { registry } = this.#shared
    const known = registry.known(id)
    return known?.instance !== undefined && !known.isEnding && !registry.isComing(id)
  }

  /** Leaves a browser that is not ours any more to the replica that watches it. When its row was closed meanwhile, nobody else ends the instance. */
  async #giveAway(id: string): Promise<void> {
    const { db, registry, leases, log } = this.#shared
    const row = await watcherOf(db, id)
    const instance = registry.get(id)
    if (!instance || !this.#isLeft(id) || row?.replica === leases.replica) return
    if (row) {
      log.warn({ browser: id }, 'another replica has taken over a browser')
      return registry.handOver(id)
    }
    log.warn({ browser: id }, 'a browser whose row was closed elsewhere is ended')
    registry.remove(id)
    await letGo(instance, log)
  }
}
