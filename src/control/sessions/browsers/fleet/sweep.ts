// Compares instances with rows after a start and every second. Adopts instances that outlived their service. Ends instances without a row, rows without an
// instance, and sessions whose timeout has passed. Retries ends that have failed.
import { letGo, type Found } from '../../../../instances/driver.ts'
import { isDead, type Deaths } from '../../../../store/leases.ts'
import { liveIds, takeOverBrowsers, watchedBrowsers, watcherOf, withoutLinks, type LiveRow } from '../rows.ts'
import type { Shared } from './shared.ts'

/** Interval of the search for instances without a row: an engine may create one after its caller has stopped waiting. */
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

  /** Takes over the browsers of dead replicas (a service alone: of all earlier services) and adopts their instances. Returns the rows that must be ended. */
  async takeOver(): Promise<LiveRow[]> {
    const { db, scope, leases, registry, onLinksLost, log } = this.#shared
    const rows = await takeOverBrowsers(db, scope, leases)
    const taken = new Set(rows.map(({ id }) => id))
    for (const id of (await leases.catchUp(() => withoutLinks(db, scope, leases))) ?? []) {
      const instance = registry.get(id)
      if (instance && !taken.has(id)) onLinksLost?.(instance)
    }
    const tried = rows.map((row) =>
      this.#recover(row.id).catch((err: unknown) => {
        log.error({ err, browser: row.id }, 'a browser could not be taken over yet; the sweep tries again')
        return undefined
      }),
    )
    return (await Promise.all(tried)).filter((row) => row !== undefined)
  }

  /** Ends browsers that {@link takeOver} has returned. Resolves after one attempt at each; later sweeps retry. */
  async endLost(rows: readonly LiveRow[]): Promise<void> {
    const { endings, log } = this.#shared
    await Promise.all(
      rows.map((row) => {
        log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
        return endings.resume(row, 'lost')
      }),
    )
  }

  /** Removes instances without a row, but not the prepared sandboxes of living replicas. */
  async removeUnknown(): Promise<void> {
    const { db, driver, scope, leases, log } = this.#shared
    // Read the instances first: a row is inserted before its instance starts.
    const found = await driver.found()
    const known = new Set(await liveIds(db, scope))
    const remove = async ({ id, replica, isPrepared }: Found) => {
      if (isPrepared && replica !== undefined && !(await isDead(db, leases, replica))) return
      const instance = await driver.adopt(id)
      if (instance) await letGo(instance, log)
    }
    await Promise.all(found.filter(({ id }) => !known.has(id)).map(remove))
  }

  /** Resolves when no takeover is under way. */
  async settled(): Promise<void> {
    await this.#taking
  }

  /** Does not wait for any end that it begins. */
  async run(): Promise<void> {
    const { db, leases, registry, endings, log } = this.#shared
    // Another replica may have taken over our browsers. The next renewal of the leases shows it.
    if (!leases.isAlive) return
    if (this.#deaths.isLookDue()) this.#beginTakeOver()
    // Read before the rows: each of these instances already has its row.
    const known = registry.instances.map(({ id }) => id)
    const rows = await watchedBrowsers(db, this.#watched)
    leases.catchUp(() => this.#agree(known, rows))
    // After an outage of the database, other replicas must first record their uses. Until this replica may take over, no session times out.
    for (const { id, state, isLate } of rows) if (isLate && leases.mayTakeOver) this.#begin(id, endings.end(id, state === 'releasing' ? 'released' : 'timeout'))
    for (const row of rows)
      if ((row.state === 'stopping' || row.state === 'failed') && endings.isDue(row.id)) this.#begin(row.id, endings.resume(row, 'crashed'))
    // A row without an instance in one sweep may be about to change its state. After two sweeps, its instance has ended unnoticed, or its failed boot could not
    // be recorded.
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

  /** One takeover at a time. The sweep does not wait for it, because an agent may hang. */
  #beginTakeOver(): void {
    const { log } = this.#shared
    // The running takeover may have read the rows before the latest death of a replica.
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

  /**
   * Adopts the instance of our row that this process does not know. Returns the row when it must be ended: it has no instance, was ending, or had not come up.
   */
  #recover(id: string): Promise<LiveRow | undefined> {
    return this.#shared.registry.taking(id, () => this.#recoverNow(id))
  }

  async #recoverNow(id: string): Promise<LiveRow | undefined> {
    const { db, driver, registry, endings, onTaken, log } = this.#shared
    const known = registry.known(id)
    const instance = known?.instance ?? (await driver.adopt(id))
    // A caller may have claimed or ended it meanwhile.
    const row = await watcherOf(db, id)
    if (!row) {
      if (instance && !known?.isEnding) await letGo(instance, log)
      return undefined
    }
    if (!instance || known?.gone) return row
    const standing = { isReady: row.state === 'warm', isPooled: row.pool_id !== null }
    // A ready instance of an older version is replaced: its row does not say that it is older.
    if (row.state === 'running' || (row.state === 'warm' && !instance.agent.older)) {
      // A replica that was only slow lost the browser and found it again.
      if (known?.instance) return undefined
      log.info({ browser: id, state: row.state }, 'adopted a browser that outlived its service')
      endings.keep(instance, standing)
      if (standing.isPooled || !standing.isReady) onTaken?.(instance)
      return undefined
    }
    registry.add(instance, { ...standing, isReady: false })
    // If the end has begun, no call may reach the agent: a finished step may have closed it.
    if (row.ended_steps.length > 0) registry.beginEnd(id)
    return row
  }

  /** Brings the registry in line with the rows, which other replicas change, too. */
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

  /** Leaves a browser to the replica that has taken it over. If its row is closed, no other replica ends the instance, so this one does. */
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
