// Lends instances of pools to callers, and takes them back.
import { beginRelease, endRelease, lendFirst, type Acquisition } from '../pooled-rows.ts'
import { claimWarm, type BrowserRow, type Ownership } from '../rows.ts'
import type { Pool } from './pool.ts'
import type { Pools } from './pools.ts'
import type { Shared } from './shared.ts'
import type { Waited } from './wait-queue.ts'

export class Lending {
  readonly #shared: Shared
  readonly #pools: Pools

  constructor(shared: Shared, pools: Pools) {
    this.#shared = shared
    this.#pools = pools
  }

  get #watched() {
    return { scope: this.#shared.scope, replica: this.#shared.leases.replica }
  }

  /**
   * Claims an instance of the first kind that serves the caller and has one, and has it replaced; undefined when there is none. The instance may already have
   * ended.
   */
  async claim(ownership: Ownership, db = this.#shared.db): Promise<BrowserRow | undefined> {
    for (const { kind } of this.#pools.kinds) {
      const row = kind!.serves(ownership) ? await claimWarm(db, this.#watched, kind!.name, ownership) : undefined
      if (row) this.#shared.refill()
      if (row) return row
    }
    return undefined
  }

  /** Waits in the queue of a kind; `take` claims an instance. Otherwise like {@link WaitQueue.wait}. */
  async wait<T>(pool: Pool, take: () => Promise<T | undefined>, signal: AbortSignal): Promise<Waited<T>> {
    const { leases, notices } = this.#shared
    this.#pools.asked(pool.name)
    if (!leases.holds('warm_pool')) notices.tell(notices.asked(pool.name))
    return this.#waitIn(pool, take, signal)
  }

  /**
   * Lends the browser of an owned pool that has been idle longest, or the next one that comes, in the order of callers; undefined when there is no such pool.
   * When `late` aborts, the caller still gets a browser that is ready by then. @throws the reasons of both signals; the reason why no browser can be made
   */
  async lend(id: string, acquisition: Acquisition, signal: AbortSignal, late?: AbortSignal): Promise<BrowserRow | undefined> {
    if (!this.#pools.get(id)) await this.#pools.count()
    const pool = this.#pools.get(id)
    const take = () => this.living(() => lendFirst(this.#shared.db, this.#watched, id, acquisition))
    return pool && (await this.#waitIn(pool, take, signal, late)).taken
  }

  async #waitIn<T>({ queue }: Pool, take: () => Promise<T | undefined>, signal: AbortSignal, late?: AbortSignal): Promise<Waited<T>> {
    const began = this.#pools.now()
    const found = await queue.wait(take, signal, late)
    this.#shared.meter?.served(found.wasReady, (this.#pools.now() - began) / 1000)
    return found
  }

  /** The first claimed browser that runs and is good. Ends the others. @throws the reason why the service stops, when the stop ends its browsers */
  async living(claim: () => Promise<BrowserRow | undefined>, isGood: (row: BrowserRow) => boolean = () => true): Promise<BrowserRow | undefined> {
    const { registry, leases, endings, signal } = this.#shared
    for (let row = await claim(); row; row = await claim()) {
      if (!leases.handsOver) signal.throwIfAborted()
      if ((registry.claim(row.id) || row.replica !== leases.replica) && isGood(row)) return row
      await endings.end(row.id, 'lost', false)
    }
    return undefined
  }

  /**
   * Takes a browser of an owned pool from its caller: no call of the caller reaches it after this. Returns its row; undefined when this caller does not have it
   * any more.
   */
  async takeBack(session: Pick<BrowserRow, 'id' | 'lease'>): Promise<BrowserRow | undefined> {
    const row = await beginRelease(this.#shared.db, session)
    if (row) this.#shared.registry.putBack(row.id)
    return row
  }

  /** Returns a browser that was taken back to the queue of its pool. It must be in the state in which the pool made it. False when it has ended. */
  async putBack({ id, pool_id: pool }: Pick<BrowserRow, 'id' | 'pool_id'>): Promise<boolean> {
    const { db, notices } = this.#shared
    if (!(await endRelease(db, id))) return false
    this.#pools.get(pool!)?.queue.lookAgain()
    notices.tell(notices.isReady)
    return true
  }
}
