// The instances behind the sessions: started, kept warm, adopted after a crash, ended. Knows nothing of requests.
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Viewport } from '../../agent/session/contract.ts'
import { USUAL_MAX_SCREEN, type Driver, type Exit, type Instance } from '../../instances/driver.ts'
import type { Db } from '../../store/db.ts'
import { moveBrowser } from './lifecycle.ts'
import { insertStarting, liveOnHost, timedOut, type Ownership } from './rows.ts'

/** What warm browsers are booted as; a session that wants something else is fitted live. */
export const WARM_VIEWPORT: Viewport = { width: 1920, height: 1080, refresh_rate: 60 }
export const WARM_KIND = 'usual'

/** A boot takes a CPU second; it waits until the caller that emptied the shelf has most likely got under way. */
const REFILL_AFTER_MS = 250
/** After a failed boot: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 30_000

/** On a full disk no browser is started in reserve; whether it still is full is looked at this often. */
const NO_ROOM_MS = 2_000

/** Of the words in which an instance's end is told, in the log and in the database: an agent may have put them. */
const MAX_REASON = 500

/** Why a session ended; also told to clients whose sockets are closed by it. */
export type EndReason = 'deleted' | 'timeout' | 'crashed' | 'abandoned' | 'shutdown' | 'lost' | 'disk_limit' | 'memory_limit'

interface FleetSettings {
  db: Db
  driver: Driver
  host: string
  warmTarget: number
  /** Whether the disk has room for another browser in reserve. */
  hasRoom?: () => boolean
  log: Log
  /** Told before an instance is killed, so that its clients can be told why. */
  onEnding: (id: string, reason: EndReason) => void
  /** Ends what records a session, within a short time of its own; undefined when nothing does. */
  endRecordings: (id: string) => Promise<void> | undefined
}

export class Fleet {
  readonly #settings: FleetSettings
  readonly #instances = new Map<string, Instance>()
  /** Those of them that nobody owns. */
  readonly #warm = new Set<string>()
  readonly #ending = new Map<string, Promise<void>>()
  readonly #stop = new AbortController()
  #refilling: Promise<void> | undefined
  /** Seats given out for sessions that have no instance yet. */
  #seats = 0
  /** Rows that had no instance at the last sweep. */
  #missing = new Set<string>()
  #refillAt = 0
  #well = true

  constructor(settings: FleetSettings) {
    this.#settings = settings
  }

  /** Instances that are somebody's session. */
  get sessions(): number {
    return this.#instances.size - this.#warm.size
  }

  /**
   * A seat for a session that is about to be made; undefined when all `of` are taken. It is given back, once, by whoever
   * gets the session its instance, and by its maker in any case.
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

  /** Where the agent of a running session of ours is reached, without asking the database. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.#warm.has(id) || this.#ending.has(id) ? undefined : this.#instances.get(id)?.agent
  }

  /** Whether the last attempt to keep a warm browser worked. */
  get isWell(): boolean {
    return this.#well
  }

  /** Notes that a warm instance has become a session; false when it has ended in the meantime. */
  take(id: string, leaveSeat: () => void): boolean {
    this.#warm.delete(id)
    leaveSeat()
    return this.#instances.has(id)
  }

  /** After a start: adopts the instances that outlived the last service, and ends whatever has no counterpart. */
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
      }
    }
    await db.updateTable('browsers').set({ last_active_at: new Date() }).where('host', '=', host).where('state', '=', 'running').execute()
    await Promise.all([...running.values()].map((instance) => instance[Symbol.asyncDispose]()))
    for (const row of rows.filter(({ id }) => !this.#instances.has(id))) {
      log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
      await this.#close(row.id, row.state === 'stopping' ? 'deleted' : 'lost')
    }
  }

  /** Boots an instance for a caller. @throws when it does not come up; nothing is left then. */
  async start(ownership: Ownership, signal: AbortSignal, leaveSeat = () => {}): Promise<string> {
    const id = newId()
    const { viewport } = ownership.options
    await insertStarting(this.#settings.db, id, this.#settings.host, null, ownership)
    const instance = await this.#boot(id, { id, viewport, maxScreen: ownership.options.maxScreen }, signal)
    const now = new Date()
    await this.#moved(instance, 'running', { endpoint: JSON.stringify(instance.agent), created_at: now, last_active_at: now }, leaveSeat)
    return id
  }

  /** Ends a browser: clients are told, the instance is removed, the row is closed. Twice is once. */
  async end(id: string, reason: EndReason): Promise<boolean> {
    const under = this.#ending.get(id)
    if (under) {
      await under
      return true
    }
    if ((await moveBrowser(this.#settings.db, id, 'stopping', reason)) !== undefined) await this.#finish(id, reason)
    else if (this.#ending.has(id)) await this.#ending.get(id)
    else return false
    return true
  }

  /** Ends sessions whose timeout has passed, and finishes what an error (the database was away) had interrupted. */
  async sweep(): Promise<void> {
    const { db, host } = this.#settings
    for (const id of await timedOut(db, host)) await this.end(id, 'timeout')
    const rows = (await liveOnHost(db, host)).filter(({ id }) => !this.#ending.has(id))
    for (const { id, state } of rows) if (state === 'stopping' || state === 'failed') await this.#finish(id, state === 'failed' ? 'crashed' : 'deleted')
    const missing = rows.filter(({ id, state }) => (state === 'running' || state === 'warm') && !this.#instances.has(id)).map(({ id }) => id)
    // Once may be a row that is just being moved; twice is one whose instance has ended unheard.
    for (const id of missing.filter((row) => this.#missing.has(row))) if (await moveBrowser(db, id, 'failed', 'crashed')) await this.#finish(id, 'crashed')
    this.#missing = new Set(missing)
  }

  /** Starts keeping warm browsers, and goes on until {@link stop}. */
  refill(): void {
    this.#refillAt = performance.now() + REFILL_AFTER_MS
    this.#refilling ??= this.#fill().finally(() => (this.#refilling = undefined))
  }

  /** Ends every browser of this host, also when the database cannot be told: the next start then finds them lost. */
  async stop(): Promise<void> {
    const { db, host, log } = this.#settings
    this.#stop.abort(new Error('the service stops'))
    await this.#refilling
    try {
      const ids = (await liveOnHost(db, host)).map(({ id }) => id)
      await Promise.all(ids.map((id) => this.end(id, 'shutdown')))
      await Promise.all(this.#ending.values())
    } catch (err) {
      log.error({ err }, 'the end of the sessions could not be written down')
    }
    await Promise.all([...this.#instances.values()].map((instance) => instance[Symbol.asyncDispose]()))
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
        if (warm.length >= warmTarget) return
        if (this.#settings.hasRoom?.() === false) {
          await sleep(NO_ROOM_MS, signal).catch(() => {})
          continue
        }
        const id = newId()
        await insertStarting(db, id, host, WARM_KIND)
        const instance = await this.#boot(id, { id, viewport: WARM_VIEWPORT, maxScreen: USUAL_MAX_SCREEN }, signal)
        await this.#moved(instance, 'warm', { endpoint: JSON.stringify(instance.agent) })
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

  async #boot(id: string, spec: Parameters<Driver['start']>[0], signal: AbortSignal): Promise<Instance> {
    try {
      return await this.#settings.driver.start(spec, signal)
    } catch (error) {
      await this.#close(id, signal.aborted ? 'abandoned' : 'crashed')
      throw error
    }
  }

  /** Enters a booted instance into its new state, or ends it when the row has gone another way. */
  async #moved(instance: Instance, to: 'warm' | 'running', columns: Record<string, unknown>, leaveSeat = () => {}): Promise<void> {
    // Known here before it is in the table: a caller may claim a warm one the moment it is there.
    leaveSeat()
    this.#adopt(instance, to === 'warm')
    const giveUp = () => {
      this.#instances.delete(instance.id)
      this.#warm.delete(instance.id)
      return instance[Symbol.asyncDispose]()
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
    const { log, db } = this.#settings
    this.#instances.set(instance.id, instance)
    if (isWarm) this.#warm.add(instance.id)
    const onExit = async ({ reason: whole, limit }: Exit) => {
      const reason = whole.slice(0, MAX_REASON)
      if (this.#ending.has(instance.id) || !this.#instances.has(instance.id)) return
      log.error({ browser: instance.id, reason }, 'a browser ended by itself')
      if (await moveBrowser(db, instance.id, 'failed', reason)) await this.#finish(instance.id, limit ? `${limit}_limit` : 'crashed')
      this.refill()
    }
    void instance.exited.then(onExit).catch((err: unknown) => log.error({ err, browser: instance.id }, 'cleaning up after a browser failed'))
  }

  #finish(id: string, reason: EndReason): Promise<void> {
    const finishing = (async () => {
      this.#settings.onEnding(id, reason)
      await this.#settings.endRecordings(id)
      await this.#instances.get(id)?.[Symbol.asyncDispose]()
      await moveBrowser(this.#settings.db, id, 'deleted', reason, { deleted_at: new Date(), end_reason: reason })
    })()
    this.#ending.set(id, finishing)
    return finishing.finally(() => {
      this.#instances.delete(id)
      this.#warm.delete(id)
      this.#ending.delete(id)
    })
  }

  /** Closes the row of a browser that has no instance (any more). */
  async #close(id: string, reason: EndReason): Promise<void> {
    const { db } = this.#settings
    await moveBrowser(db, id, 'failed', reason)
    await moveBrowser(db, id, 'deleted', reason, { deleted_at: new Date(), end_reason: reason })
  }
}
