// Booting an instance, for a caller or for the warm pool: the row first, then the instance, then the row's new state.
import { sql } from 'kysely'
import { session, type Fit } from '../../../../agent/session/contract.ts'
import { newId } from '../../../../base/ids.ts'
import type { Log } from '../../../../base/log.ts'
import type { Slots } from '../../../../base/slots.ts'
import { RETRY_SECONDS, Unavailable } from '../../../../base/unavailable.ts'
import { call } from '../../../../http/client.ts'
import { letGo, NoRoom, type Driver, type Instance, type InstanceSpec } from '../../../../instances/driver.ts'
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import { moveBrowser } from '../lifecycle.ts'
import { insertPooled } from '../pooled-rows.ts'
import { insertStarting, watcherOf, type Ownership } from '../rows.ts'
import type { Endpoints } from '../../../../http/stored-endpoint.ts'
import type { EndReason } from '../end-step.ts'
import type { Endings } from './endings.ts'
import type { Kind } from './kinds.ts'
import type { PoolSource } from './pools.ts'
import type { Registry, Standing } from './registry.ts'

/** Limit on fitting a new instance: it takes some 30 ms, and seconds while several boot on a busy machine. */
const FIT_MS = 30_000

/** A browser did not come up. Nothing is left of it. */
export class BootFailed extends Unavailable {
  constructor(cause: unknown) {
    super('a browser could not be started just now; try again', RETRY_SECONDS, cause, true)
  }
}

/** What a program inside does, or an engine, is no bug of ours. */
const asBootFailed = (error: unknown): unknown =>
  error instanceof Unavailable || error instanceof NoRoom || error instanceof TypeError || error instanceof ReferenceError ? error : new BootFailed(error)

interface BootsSettings {
  db: Db
  driver: Driver
  scope: string
  leases: Leases
  /** Has the turns of all boots of this service. Boots for the warm pool have theirs already. */
  starts: Slots
  registry: Registry
  endings: Endings
  endpoints: Endpoints
  /** Where clients on this machine reach the API. Known once it listens. */
  apiPorts: () => number[]
  /** Registers an instance and watches for its end. */
  keep: (instance: Instance, standing: Standing) => void
  pools?: PoolSource | undefined
  log: Log
}

export class Boots {
  readonly #settings: BootsSettings

  constructor(settings: BootsSettings) {
    this.#settings = settings
  }

  /** Boots an instance for a caller that no kind of the warm pool serves. `seated` inserts its row if there is a seat. @throws what `seated` throws; when it does not come up; nothing is left then */
  async session(
    ownership: Ownership,
    signal: AbortSignal,
    leaveSeat: () => void,
    seated: (insert: (db: Db) => Promise<string>) => Promise<string>,
  ): Promise<string> {
    const id = newId()
    const { viewport, maxScreen } = ownership.options
    using _ = this.#settings.registry.booting(id)
    await seated(async (db) => {
      await this.#insert(db, id, null, ownership)
      return id
    })
    const instance = await this.#boot({ id, viewport, maxScreen }, signal, (work) => this.#settings.starts.run(work, signal, true))
    await this.#moved(instance, 'running', { created_at: sql`now()`, last_active_at: sql`now()` }, false, leaveSeat)
    return id
  }

  /** Boots an instance of a kind, for the warm pool. Nobody waits for it until `wanted` resolves. @throws when it does not come up; nothing is left then. */
  async ready(kind: Kind, wanted: Promise<void>, signal: AbortSignal): Promise<void> {
    const id = newId()
    using _ = this.#settings.registry.booting(id)
    await this.#insert(this.#settings.db, id, kind.name)
    const instance = await this.#boot({ id, ...kind.spec, wanted }, signal)
    if (kind.fit) await this.#fit(instance, kind.fit, signal)
    await this.#moved(instance, 'warm')
  }

  /**
   * Makes a browser for a pool; false when the pool has as many as it may, or was deleted. Nobody waits for it until `wanted` resolves.
   * `turn` is left when it has booted, and what is left to do takes long; without one, somebody waits for it from the beginning.
   * @throws when that does not work, or not with the pool's configuration; nothing is left then, or the sweep ends it
   */
  async pooled(pool: string, wanted: Promise<void>, turn: Disposable | undefined, signal: AbortSignal): Promise<boolean> {
    const { db, scope, leases, registry, endpoints, keep, pools, starts } = this.#settings
    const plan = await pools!.plan(pool)
    if (!plan) return false
    const { ownership, spec, configure } = plan
    const id = newId()
    using _ = registry.booting(id)
    const row = await insertPooled(db, id, { scope, replica: leases.replica }, ownership)
    if (!row) return false
    const instance = await this.#boot({ id, ...spec, wanted }, signal, turn ? undefined : (work) => starts.run(work, signal, true))
    // A profile or an extension that hangs must not keep other boots waiting.
    turn?.[Symbol.dispose]()
    try {
      await configure({ ...row, endpoint: endpoints.store(instance.agent, id) }, signal)
    } catch (error) {
      keep(instance, { isReady: true, isPooled: true })
      await this.#endPooled(instance, signal.aborted ? 'abandoned' : 'crashed')
      throw error
    }
    await this.#moved(instance, 'warm', {}, true)
    return true
  }

  #insert(db: Db, id: string, warmKind: string | null, ownership?: Ownership): Promise<void> {
    const { scope, leases } = this.#settings
    return insertStarting(db, id, { scope, replica: leases.replica }, warmKind, ownership)
  }

  /** `inTurn` does the boot when it is its turn. */
  async #boot(
    spec: Omit<InstanceSpec, 'apiPorts'>,
    signal: AbortSignal,
    inTurn = (work: () => Promise<Instance>): Promise<Instance> => work(),
  ): Promise<Instance> {
    const { driver, endings, apiPorts } = this.#settings
    try {
      return await inTurn(() => driver.start({ ...spec, apiPorts: apiPorts() }, signal))
    } catch (error) {
      await endings.close(spec.id, signal.aborted ? 'abandoned' : 'crashed')
      throw signal.aborted ? error : asBootFailed(error)
    }
  }

  /** Fits a booted instance that nobody has yet. @throws when it does not take that; nothing is left then */
  async #fit(instance: Instance, wanted: Fit, signal: AbortSignal): Promise<void> {
    const { endings, log } = this.#settings
    try {
      await call(instance.agent, session.fitSession, { body: wanted }, { signal: AbortSignal.any([signal, AbortSignal.timeout(FIT_MS)]) })
    } catch (error) {
      await letGo(instance, log)
      await endings.close(instance.id, signal.aborted ? 'abandoned' : 'crashed')
      throw signal.aborted ? error : asBootFailed(error)
    }
  }

  /** Ends a booted browser of a pool as a session: it may have a proxy and a profile by now. When its row was closed elsewhere, nobody else ends the instance. */
  async #endPooled(instance: Instance, reason: EndReason): Promise<void> {
    const { db, registry, endings, log } = this.#settings
    if ((await endings.end(instance.id, reason)) || (await watcherOf(db, instance.id))) return
    registry.remove(instance.id)
    await letGo(instance, log)
  }

  /** Moves a booted instance to its new state, or ends it when the row has moved elsewhere. */
  async #moved(instance: Instance, to: 'warm' | 'running', columns: Record<string, unknown> = {}, isPooled = false, leaveSeat = () => {}): Promise<void> {
    const { db, registry, endings, endpoints, keep, log } = this.#settings
    // Registered before it is in the table: a caller may claim a warm instance as soon as its row says so.
    leaveSeat()
    keep(instance, { isReady: to === 'warm', isPooled })
    const giveUp = async () => {
      // When the database is away, the sweep ends it.
      if (isPooled) return this.#endPooled(instance, 'abandoned').catch((err: unknown) => log.warn({ err, browser: instance.id }, 'not ended yet'))
      registry.remove(instance.id)
      await letGo(instance, log)
    }
    const set = { endpoint: JSON.stringify(endpoints.store(instance.agent, instance.id)), ...columns }
    const moved = await moveBrowser(db, instance.id, to, null, set).catch(async (error: unknown) => {
      await giveUp()
      throw error
    })
    if (moved) return
    await giveUp()
    if (!isPooled) await endings.close(instance.id, 'abandoned')
    throw new BootFailed(new Error(`browser ${instance.id} was ended while it started`))
  }
}
