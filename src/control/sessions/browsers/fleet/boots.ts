// Boots an instance for a caller or for a pool: inserts the row, starts the instance, then moves the row to its new state.
import { sql } from 'kysely'
import { session } from '../../../../agent/session/contract.ts'
import { newId } from '../../../../base/ids.ts'
import type { Slots } from '../../../../base/slots.ts'
import { RETRY_SECONDS, Unavailable } from '../../../../base/unavailable.ts'
import { call } from '../../../../http/client.ts'
import { letGo, NoRoom, type Instance, type InstanceSpec } from '../../../../instances/driver.ts'
import type { Db } from '../../../../store/db.ts'
import type { EndReason } from '../end-step.ts'
import { moveBrowser } from '../lifecycle.ts'
import { insertPooled } from '../pooled-rows.ts'
import { insertStarting, watcherOf, type BrowserRow, type Ownership } from '../rows.ts'
import type { Kind } from './kinds.ts'
import type { Pool } from './pool.ts'
import type { Shared } from './shared.ts'

/** Limit on fitting a new instance: it takes some 30 ms, and seconds while several boot on a busy machine. */
const FIT_MS = 30_000

/** A browser did not come up. Nothing is left of it. */
export class BootFailed extends Unavailable {
  constructor(cause: unknown) {
    super('a browser could not be started just now; try again', RETRY_SECONDS, cause, true)
  }
}

/** A browser of an owned pool could not be made. The cause says why. It may have details that callers must not see: `problemOf` (acquisitions.ts) makes the text for them. */
export class PoolBootFailed extends Error {
  override name = 'PoolBootFailed'
}

/** Errors of the engine, or of programs in the instance, become BootFailed. TypeError and ReferenceError stay as they are: they are bugs of this service. */
const asBootFailed = (error: unknown): unknown =>
  error instanceof Unavailable || error instanceof NoRoom || error instanceof TypeError || error instanceof ReferenceError ? error : new BootFailed(error)

interface Boot {
  spec: Pick<InstanceSpec, 'viewport' | 'maxScreen' | 'lean' | 'wanted'>
  /** Inserts its row; undefined when there is no room for it. */
  insert: (id: string) => Promise<BrowserRow | undefined>
  /** Whether the caller of the boot holds a slot for it. Otherwise the boot takes one after its row is inserted. */
  hasTurn: boolean
  /** Makes it ready before a caller may have it. */
  prepare?: (instance: Instance, row: BrowserRow) => Promise<void>
  to: 'warm' | 'running'
  isPooled: boolean
  columns?: Record<string, unknown>
  leaveSeat?: () => void
}

export class Boots {
  readonly #shared: Shared
  /** Boot slots of this service. */
  readonly #starts: Slots

  constructor(shared: Shared, starts: Slots) {
    this.#shared = shared
    this.#starts = starts
  }

  get #watched() {
    return { scope: this.#shared.scope, replica: this.#shared.leases.replica }
  }

  /**
   * Boots an instance for a caller that no kind serves. `seated` inserts its row if there is a seat. @throws the errors of `seated`; BootFailed. After an
   * error, nothing is left
   */
  async session(
    ownership: Ownership,
    signal: AbortSignal,
    leaveSeat: () => void,
    seated: (insert: (db: Db) => Promise<BrowserRow>) => Promise<BrowserRow>,
  ): Promise<string> {
    const insert = (id: string) => seated((db) => insertStarting(db, id, this.#watched, null, ownership))
    const times = { created_at: sql`now()`, last_active_at: sql`now()` }
    return (await this.#boot({ spec: ownership.options, insert, hasTurn: false, to: 'running', isPooled: false, columns: times, leaveSeat }, signal))!
  }

  /**
   * Boots an instance for a pool; false when an owned pool is full or was deleted. `wanted` resolves when a caller waits for it. `turn`: the slot of a boot for
   * which no caller waits at first. @throws the error of the boot. After an error nothing is left, or the sweep ends what is left
   */
  async pooled({ kind, name }: Pool, wanted: Promise<void>, turn: Disposable | undefined): Promise<boolean> {
    return kind ? this.#ofKind(kind, wanted) : this.#owned(name, wanted, turn)
  }

  async #ofKind(kind: Kind, wanted: Promise<void>): Promise<boolean> {
    const { db, signal } = this.#shared
    const prepare = async ({ agent }: Instance) => {
      if (kind.fit) await call(agent, session.fitSession, { body: kind.fit }, { signal: AbortSignal.any([signal, AbortSignal.timeout(FIT_MS)]) })
    }
    const insert = (id: string) => insertStarting(db, id, this.#watched, kind.name)
    const boot = this.#boot({ spec: { ...kind.spec, wanted }, insert, hasTurn: true, prepare, to: 'warm', isPooled: false }, signal)
    await boot.catch((error: unknown) => {
      throw signal.aborted ? error : asBootFailed(error)
    })
    return true
  }

  async #owned(pool: string, wanted: Promise<void>, turn: Disposable | undefined): Promise<boolean> {
    const { db, endpoints, pools, signal } = this.#shared
    try {
      const plan = await pools!.plan(pool)
      if (!plan) return false
      const { ownership, spec, configure } = plan
      const made = await this.#boot(
        {
          spec: { ...spec, wanted },
          insert: (id) => insertPooled(db, id, this.#watched, ownership),
          hasTurn: turn !== undefined,
          async prepare({ agent, id }, row) {
            // Free the slot now: a profile or an extension that hangs must not block other boots.
            turn?.[Symbol.dispose]()
            await configure({ ...row, endpoint: endpoints.store(agent, id) }, signal)
          },
          to: 'warm',
          isPooled: true,
        },
        signal,
      )
      if (made) pools!.made(pool, undefined)
      return made !== undefined
    } catch (error) {
      if (signal.aborted) throw error
      pools!.made(pool, error)
      throw new PoolBootFailed('a browser of a pool could not be made', { cause: error })
    }
  }

  /** Resolves with its id; undefined when there is no room for it. */
  async #boot({ spec, insert, hasTurn, prepare, to, isPooled, columns, leaveSeat }: Boot, signal: AbortSignal): Promise<string | undefined> {
    const { db, driver, registry, endings, endpoints, apiPorts } = this.#shared
    const { viewport, maxScreen, lean, wanted } = spec
    const form = { viewport, maxScreen, apiPorts: apiPorts(), ...(lean && { lean }) }
    using reserved = driver.reserve?.(form)
    const id = reserved?.id ?? newId()
    using _ = registry.booting(id)
    const row = await insert(id)
    if (row === undefined) return undefined
    const start = () => driver.start({ id, ...form, ...(wanted && { wanted }) }, signal)
    const instance = await (hasTurn ? start() : this.#starts.run(start, signal, true)).catch(async (error: unknown) => {
      await endings.close(id, signal.aborted ? 'abandoned' : 'crashed')
      throw signal.aborted ? error : asBootFailed(error)
    })
    let reason: EndReason = 'crashed'
    try {
      await prepare?.(instance, row)
      reason = 'abandoned'
      // The registry gets the instance before the table does: a caller may claim a warm instance as soon as its row says so.
      leaveSeat?.()
      endings.keep(instance, { isReady: to === 'warm', isPooled })
      const set = { endpoint: JSON.stringify(endpoints.store(instance.agent, id)), ...columns }
      if ((await moveBrowser(db, id, to, null, set)) !== undefined) return id
      throw new BootFailed(new Error(`browser ${id} was ended while it started`))
    } catch (error) {
      await this.#giveUp(instance, isPooled, signal.aborted ? 'abandoned' : reason)
      throw error
    }
  }

  /**
   * Ends a booted instance as a session, because it may have a proxy and a profile by now. If another replica has closed its row, only this replica can end the
   * instance.
   */
  async #giveUp(instance: Instance, isPooled: boolean, reason: EndReason): Promise<void> {
    const { db, registry, endings, log } = this.#shared
    const { id } = instance
    if (!registry.get(id)) endings.keep(instance, { isReady: true, isPooled })
    try {
      if ((await endings.end(id, reason)) || (await watcherOf(db, id))) return
      registry.remove(id)
      await letGo(instance, log)
    } catch (err) {
      log.warn({ err, browser: id }, 'a browser could not be ended yet; the sweep tries again')
    }
  }
}
