// The instances behind the sessions: started, kept warm, adopted after a crash, ended. Knows nothing of requests.
import { sql } from 'kysely'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Viewport } from '../../agent/session/contract.ts'
import { letGo, USUAL_MAX_SCREEN, type Driver, type Exit, type Instance, type InstanceSpec } from '../../instances/driver.ts'
import type { Db } from '../../store/db.ts'
import { moveBrowser } from './lifecycle.ts'
import { insertStarting, liveOnHost, timedOut, type LiveRow, type Ownership } from './rows.ts'

/** How warm browsers are booted. A session that needs something else is changed while it runs. */
export const WARM_VIEWPORT: Viewport = { width: 1920, height: 1080, refresh_rate: 60 }
export const WARM_KIND = 'usual'

/** A boot takes a second of CPU time. It waits until the caller that took the warm browser has most likely started its work. */
const REFILL_AFTER_MS = 250
/** Retries after a failed boot or end: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000

/** On a full disk no warm browser is started. This is the interval for checking the disk again. */
const NO_ROOM_MS = 2_000

/** Limit on the text of why an instance ended, in the log and in the database: an agent may have written it. */
const MAX_REASON = 500

/** Why a session ended. Clients whose sockets are closed by it get it as well. */
export type EndReason = 'deleted' | 'timeout' | 'crashed' | 'abandoned' | 'shutdown' | 'lost' | 'disk_limit' | 'memory_limit'

/** An end in progress. Its state is in the row: `stopping` or `failed` until nothing is left, also across a restart. */
interface Ending {
  reason: EndReason
  /** The present attempt. Resolves with true when nothing is left. */
  attempt: Promise<boolean> | undefined
  /** When the sweep retries, by performance.now(). */
  retryAt: number
  retryMs: number
}

interface FleetSettings {
  db: Db
  driver: Driver
  host: string
  warmTarget: number
  /** Whether the disk has room for another warm browser. */
  hasRoom?: () => boolean
  log: Log
  /** Called before an instance is killed, so that its clients get the reason. */
  onEnding: (id: string, reason: EndReason) => void
  /** Ends the recordings of a session, within a short timeout of their own; undefined when there are none. */
  endRecordings: (id: string) => Promise<void> | undefined
  /** Where clients on this host reach the API. Known once it listens. */
  apiPorts: () => number[]
}

export class Fleet {
  readonly #settings: FleetSettings
  readonly #instances = new Map<string, Instance>()
  /** Instances that are not claimed by a session yet. */
  readonly #warm = new Set<string>()
  readonly #ending = new Map<string, Ending>()
  readonly #stop = new AbortController()
  #refilling: Promise<void> | undefined
  /** Reserved seats of sessions that have no instance yet. */
  #seats = 0
  /** Browsers whose row says `starting`, and that are being started here. */
  readonly #booting = new Set<string>()
  /** Browsers that have ended by themselves and are not removed yet. The database may have been away when they did. */
  readonly #exits = new Map<string, { why: string; reason: EndReason }>()
  /** Rows that had nothing behind them at the last sweep. */
  #missing = new Set<string>()
  #refillAt = 0
  #well = true

  constructor(settings: FleetSettings) {
    this.#settings = settings
  }

  /** Instances that belong to a session. */
  get sessions(): number {
    return this.#instances.size - this.#warm.size
  }

  /**
   * A seat for a session that is about to be made; undefined when all `of` are taken. It is released once: by the code that gives the session its
   * instance, and by its maker in any case.
   */
  seat(of: number): (() => void) | undefined {
    if (this.sessions + this.#seats >= of) return undefined
    this.#seats++
    let held = true
    return () => {
      if (held) this.#seats--
      held = false
    }
  }

  /** The endpoint of a running session's agent on this host, without a database query. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.#warm.has(id) || this.#ending.has(id) || this.#exits.has(id) ? undefined : this.#instances.get(id)?.agent
  }

  /** Whether the configured number of warm browsers is there, or the last attempt to start one succeeded. */
  get isWell(): boolean {
    return this.#well
  }

  /** Records that a warm instance has become a session; false when it has ended in the meantime. */
  take(id: string, leaveSeat: () => void): boolean {
    this.#warm.delete(id)
    leaveSeat()
    return this.#runs(id)
  }

  #runs(id: string): boolean {
    return this.#instances.has(id) && !this.#exits.has(id)
  }

  /** After a start: adopts the instances that outlived the last service, and ends every instance or row that has no counterpart. */
  async reconcile(): Promise<void> {
    const { db, driver, host, log } = this.#settings
    const [instances, rows] = await Promise.all([driver.list(), liveOnHost(db, host)])
    const running = new Map(instances.map((instance) => [instance.id, instance]))
    for (const row of rows) {
      const instance = running.get(row.id)
      if (instance && (row.state === 'running' || row.state === 'warm')) {
        log.info({ browser: row.id, state: row.state }, 'adopted a browser that outlived the last service')
        this.#adopt(instance, row.state === 'warm')
        running.delete(row.id)
      } else if (instance) {
        // It was ending, or had not come up. It is ended now, or later by the sweep.
        this.#instances.set(row.id, instance)
        running.delete(row.id)
      }
    }
    await db
      .updateTable('browsers')
      .set({ last_active_at: sql`now()` })
      .where('host', '=', host)
      .where('state', '=', 'running')
      .execute()
    await Promise.all([...running.values()].map((instance) => letGo(instance, log)))
    const adopted = (row: LiveRow) => this.#instances.has(row.id) && (row.state === 'running' || row.state === 'warm')
    for (const row of rows.filter((one) => !adopted(one))) {
      log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
      const reason = reasonOf(row, 'lost')
      if (row.state !== 'stopping') await moveBrowser(db, row.id, 'failed', reason, { end_reason: reason })
      await this.#finish(row.id, reason)
    }
  }

  /** Boots an instance for a caller. @throws when it does not come up; nothing is left then. */
  async start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    const id = newId()
    const { viewport } = ownership.options
    this.#booting.add(id)
    try {
      await insertStarting(this.#settings.db, id, this.#settings.host, null, ownership)
      const instance = await this.#boot(id, { id, viewport, maxScreen: ownership.options.maxScreen }, signal)
      const times = { created_at: sql`now()`, last_active_at: sql`now()` }
      await this.#moved(instance, 'running', { endpoint: JSON.stringify(instance.agent), ...times }, leaveSeat)
    } finally {
      this.#booting.delete(id)
    }
    return id
  }

  /**
   * Ends a browser: clients are told, the instance is removed, the row is closed. A second call has no further effect; false when there is no
   * such browser, or it has ended. When the instance cannot be removed now, this resolves after the first attempt: the browser is out of use, its
   * row stays `stopping`, and the sweep (or the next start) retries until nothing is left.
   */
  async end(id: string, reason: EndReason): Promise<boolean> {
    const isUnderWay = () => this.#ending.has(id)
    if (!isUnderWay() && (await moveBrowser(this.#settings.db, id, 'stopping', reason, { end_reason: reason })) === undefined && !isUnderWay()) return false
    await this.#finish(id, reason)
    return true
  }

  /** Begins to end sessions whose timeout has passed, and continues ends that failed or were interrupted. Does not wait for any end. */
  async sweep(): Promise<void> {
    const { db, host, log } = this.#settings
    const begin = (id: string, work: Promise<unknown>) =>
      void work.catch((err: unknown) => log.error({ err, browser: id }, 'a browser could not be ended yet; the next sweep tries again'))
    for (const id of await timedOut(db, host)) begin(id, this.end(id, 'timeout'))
    const rows = await liveOnHost(db, host)
    const now = performance.now()
    for (const row of rows) {
      if (row.state !== 'stopping' && row.state !== 'failed') continue
      const known = this.#ending.get(row.id)
      if (!known || (!known.attempt && known.retryAt <= now)) begin(row.id, this.#finish(row.id, reasonOf(row, 'crashed')))
    }
    const isMissing = ({ id, state }: LiveRow) => (state === 'starting' ? !this.#booting.has(id) : (state === 'running' || state === 'warm') && !this.#runs(id))
    const missing = rows.filter(isMissing).map(({ id }) => id)
    // A row that is seen once without an instance may be in a move. When it is seen twice, its instance has ended unnoticed, or the database has not
    // taken the end of its start.
    for (const id of missing.filter((row) => this.#missing.has(row))) {
      const { why, reason } = this.#exits.get(id) ?? { why: 'crashed', reason: 'crashed' }
      begin(
        id,
        this.#crashed(id, why, reason).then(() => this.refill()),
      )
    }
    this.#missing = new Set(missing)
  }

  /** Starts keeping warm browsers, until {@link stop}. */
  refill(): void {
    this.#refillAt = performance.now() + REFILL_AFTER_MS
    this.#refilling ??= this.#fill().finally(() => (this.#refilling = undefined))
  }

  /** Ends every browser of this host, even when the database is not available: the next start then finds them lost. */
  async stop(): Promise<void> {
    const { db, host, log } = this.#settings
    this.#stop.abort(new Error('the service stops'))
    await this.#refilling
    try {
      const ids = (await liveOnHost(db, host)).map(({ id }) => id)
      await Promise.all(ids.map((id) => this.end(id, 'shutdown')))
      await Promise.all([...this.#ending.values()].map(async ({ attempt }) => attempt))
    } catch (err) {
      log.error({ err }, 'the end of the sessions could not be recorded')
    }
    await Promise.all([...this.#instances.values()].map((instance) => letGo(instance, log)))
  }

  async #fill(): Promise<void> {
    const { db, host, warmTarget, log } = this.#settings
    let retryMs = RETRY_FIRST_MS
    const { signal } = this.#stop
    while (!signal.aborted) {
      const wait = this.#refillAt - performance.now()
      if (wait > 0) {
        await sleep(wait, signal).catch(() => {})
        continue
      }
      try {
        const warm = await db.selectFrom('browsers').select('id').where('host', '=', host).where('state', '=', 'warm').execute()
        // A warm browser is ours before its row says so. Without an instance the row was written, but the database's answer was lost.
        for (const { id } of warm.filter((row) => !this.#instances.has(row.id))) await this.#crashed(id, 'lost', 'lost')
        if (warm.filter(({ id }) => this.#runs(id)).length >= warmTarget) {
          this.#well = true
          return
        }
        if (this.#settings.hasRoom?.() === false) {
          await sleep(NO_ROOM_MS, signal).catch(() => {})
          continue
        }
        await this.#startWarm(signal)
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

  async #startWarm(signal: AbortSignal): Promise<void> {
    const id = newId()
    this.#booting.add(id)
    try {
      await insertStarting(this.#settings.db, id, this.#settings.host, WARM_KIND)
      const instance = await this.#boot(id, { id, viewport: WARM_VIEWPORT, maxScreen: USUAL_MAX_SCREEN }, signal)
      await this.#moved(instance, 'warm', { endpoint: JSON.stringify(instance.agent) })
    } finally {
      this.#booting.delete(id)
    }
  }

  async #boot(id: string, spec: Omit<InstanceSpec, 'apiPorts'>, signal: AbortSignal): Promise<Instance> {
    try {
      return await this.#settings.driver.start({ ...spec, apiPorts: this.#settings.apiPorts() }, signal)
    } catch (error) {
      await this.#close(id, signal.aborted ? 'abandoned' : 'crashed')
      throw error
    }
  }

  /** Moves a booted instance to its new state, or ends it when the row has moved elsewhere. */
  async #moved(instance: Instance, to: 'warm' | 'running', columns: Record<string, unknown>, leaveSeat = () => {}): Promise<void> {
    // Added here before it is in the table: a caller may claim a warm instance as soon as its row says so.
    leaveSeat()
    this.#adopt(instance, to === 'warm')
    const giveUp = () => {
      this.#instances.delete(instance.id)
      this.#warm.delete(instance.id)
      this.#exits.delete(instance.id)
      return letGo(instance, this.#settings.log)
    }
    const moved = await moveBrowser(this.#settings.db, instance.id, to, null, columns).catch(async (error: unknown) => {
      await giveUp()
      throw error
    })
    if (moved) return
    await giveUp()
    await this.#close(instance.id, 'abandoned')
    throw new Error(`browser ${instance.id} was ended while it started`)
  }

  #adopt(instance: Instance, isWarm: boolean): void {
    const { log } = this.#settings
    this.#instances.set(instance.id, instance)
    if (isWarm) this.#warm.add(instance.id)
    const onExit = async ({ reason: whole, limit }: Exit) => {
      const why = whole.slice(0, MAX_REASON)
      const reason = limit ? (`${limit}_limit` as const) : 'crashed'
      if (this.#ending.has(instance.id) || !this.#instances.has(instance.id)) return
      this.#exits.set(instance.id, { why, reason })
      log.error({ browser: instance.id, reason: why }, 'a browser ended by itself')
      await this.#crashed(instance.id, why, reason)
      this.refill()
    }
    // The sweep tries again.
    void instance.exited.then(onExit).catch((err: unknown) => log.error({ err, browser: instance.id }, 'cleaning up after a browser failed'))
  }

  async #crashed(id: string, why: string, reason: EndReason = 'crashed'): Promise<void> {
    if (await moveBrowser(this.#settings.db, id, 'failed', why, { end_reason: reason })) await this.#finish(id, reason)
  }

  /** One attempt to end a browser whose row says so. Resolves with true when nothing is left; otherwise the sweep retries. */
  #finish(id: string, reason: EndReason): Promise<boolean> {
    const ending = this.#ending.get(id) ?? { reason, attempt: undefined, retryAt: 0, retryMs: RETRY_FIRST_MS }
    this.#ending.set(id, ending)
    return (ending.attempt ??= this.#tryToEnd(id, ending).finally(() => (ending.attempt = undefined)))
  }

  /** Every step may run twice: an earlier attempt may have done it and failed at a later one. */
  async #tryToEnd(id: string, ending: Ending): Promise<boolean> {
    const { db, log, onEnding, endRecordings } = this.#settings
    const { reason } = ending
    try {
      onEnding(id, reason)
      // A recording that could not be finished must not keep the instance alive.
      await endRecordings(id)?.catch((err: unknown) => log.error({ err, browser: id }, 'the recordings of a session could not be finished'))
      await this.#instances.get(id)?.[Symbol.asyncDispose]()
      await moveBrowser(db, id, 'deleted', reason, { deleted_at: new Date(), end_reason: reason })
    } catch (err) {
      log.error({ err, browser: id, retryMs: ending.retryMs }, 'a browser could not be ended yet')
      ending.retryAt = performance.now() + ending.retryMs
      ending.retryMs = Math.min(RETRY_LAST_MS, ending.retryMs * 2)
      return false
    }
    this.#instances.delete(id)
    this.#warm.delete(id)
    this.#ending.delete(id)
    this.#exits.delete(id)
    return true
  }

  /** Closes the row of a browser whose instance is gone, or that never had one. */
  async #close(id: string, reason: EndReason): Promise<void> {
    const { db } = this.#settings
    await moveBrowser(db, id, 'failed', reason, { end_reason: reason })
    await moveBrowser(db, id, 'deleted', reason, { deleted_at: new Date(), end_reason: reason })
  }
}

/** Why a browser ends, by its row; `otherwise` for one that ended by itself. */
const reasonOf = ({ state, end_reason }: LiveRow, otherwise: EndReason): EndReason =>
  (end_reason as EndReason | null) ?? (state === 'stopping' ? 'deleted' : otherwise)
