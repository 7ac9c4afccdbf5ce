// The instances that this process watches, and what it knows about each. The rows are the truth; this is found again after a crash.
import type { Instance } from '../../../../instances/driver.ts'
import type { EndReason } from '../end-step.ts'

/** Why an instance has ended by itself. */
export interface Gone {
  why: string
  reason: EndReason
}

/** Whom an instance belongs to. */
export interface Standing {
  /** It waits in the warm pool, or in its pool: no session has claimed it. */
  isReady: boolean
  isPooled: boolean
}

export class Registry {
  readonly #instances = new Map<string, Instance>()
  /** The projects of sessions, as far as they are known. A session never leaves its project. */
  readonly #projects = new Map<string, string>()
  /** Which caller of its pool has an instance, as far as it is known. */
  readonly #leases = new Map<string, number>()
  /** Sessions of logins and health checks. */
  readonly #closed = new Set<string>()
  /** Instances that are not claimed by a session yet. */
  readonly #ready = new Set<string>()
  /** Instances of pools: those that wait for a caller, and those that callers have. */
  readonly #idle = new Set<string>()
  readonly #lent = new Set<string>()
  /** Browsers that are being started here: their instance comes in a moment. */
  readonly #booting = new Set<string>()
  /** Browsers that are being taken over from another service; each resolves when that has worked or failed. */
  readonly #taking = new Map<string, Promise<void>>()
  /** Browsers that are being ended here. */
  readonly #ending = new Set<string>()
  /** Browsers that have ended by themselves and are not removed yet. The database may have been away when they did. */
  readonly #gone = new Map<string, Gone>()

  /** Instances that belong to a session. Those of pools are not counted. */
  get sessions(): number {
    return this.#instances.size - this.#ready.size - this.pooled
  }

  /** Instances that wait in the warm pool. */
  get ready(): number {
    return this.#ready.size
  }

  /** Instances that belong to pools. */
  get pooled(): number {
    return this.#idle.size + this.#lent.size
  }

  get instances(): Instance[] {
    return [...this.#instances.values()]
  }

  get(id: string): Instance | undefined {
    return this.#instances.get(id)
  }

  /** Whether there is an instance that has not ended by itself. */
  runs(id: string): boolean {
    return this.#instances.has(id) && !this.#gone.has(id)
  }

  /** The endpoint of a running session's agent, without a database query. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.isReady(id) || this.#ending.has(id) || this.#gone.has(id) ? undefined : this.#instances.get(id)?.agent
  }

  /** The sessions that run here and are not being ended, and the browsers that wait in pools (`isIdle`). */
  get reachable(): { id: string; endpoint: Instance['agent']; isIdle: boolean }[] {
    return [...this.#instances].flatMap(([id, { agent }]) => {
      const isIdle = this.#idle.has(id)
      return this.#ready.has(id) || this.#ending.has(id) || this.#gone.has(id) ? [] : [{ id, endpoint: agent, isIdle }]
    })
  }

  /** The project of a session that runs here; undefined when only its row tells. */
  projectOf(id: string): string | undefined {
    return this.#projects.get(id)
  }

  /** Which caller of its pool has a session that runs here; undefined when only its row tells. */
  leaseOf(id: string): number | undefined {
    return this.#leases.get(id)
  }

  /** Whether the tools of a session that runs here are closed to callers. Known together with its project. */
  isClosed(id: string): boolean {
    return this.#closed.has(id)
  }

  /** Records the project of a session, which caller of its pool has it, and whether its tools are closed to callers. */
  belongs(id: string, project: string, lease: number, isClosed: boolean): void {
    if (!this.#instances.has(id)) return
    if (isClosed) this.#closed.add(id)
    this.#projects.set(id, project)
    // A row may have been read before the next caller got it.
    if (this.#lent.has(id)) this.#leases.set(id, Math.max(lease, this.#leases.get(id) ?? 0))
  }

  add(instance: Instance, { isReady, isPooled }: Standing): void {
    this.#instances.set(instance.id, instance)
    if (isPooled) (isReady ? this.#idle : this.#lent).add(instance.id)
    else if (isReady) this.#ready.add(instance.id)
  }

  /** Records that an instance of the warm pool has become a session; false when it has ended in the meantime. */
  claim(id: string): boolean {
    this.#ready.delete(id)
    if (this.#idle.delete(id)) this.#lent.add(id)
    return this.runs(id)
  }

  /** Records that the browser of a pool does not belong to its caller any more; `lease`: unless another one has it by now. */
  putBack(id: string, lease = Infinity): void {
    if ((this.#leases.get(id) ?? 0) > lease) return
    if (this.#lent.delete(id)) this.#idle.add(id)
    this.#leases.delete(id)
  }

  /** Whether it belongs to a pool, as far as this process knows. */
  isPooled(id: string): boolean {
    return this.#idle.has(id) || this.#lent.has(id)
  }

  /** Records that a browser is being started, until it is disposed. */
  booting(id: string): Disposable {
    this.#booting.add(id)
    return { [Symbol.dispose]: () => void this.#booting.delete(id) }
  }

  isBooting(id: string): boolean {
    return this.#booting.has(id)
  }

  /** Records that a browser is being taken over, until it is disposed. */
  taking(id: string): Disposable {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#taking.set(id, promise)
    return {
      [Symbol.dispose]: () => {
        this.#taking.delete(id)
        resolve()
      },
    }
  }

  /** Whether its instance comes in a moment. */
  isComing(id: string): boolean {
    return this.#booting.has(id) || this.#taking.has(id)
  }

  /** Resolves when it is not being taken over any more; undefined when it is not. */
  taken(id: string): Promise<void> | undefined {
    return this.#taking.get(id)
  }

  /** Takes a browser out of use: its end has begun. */
  beginEnd(id: string): void {
    this.#ending.add(id)
  }

  isEnding(id: string): boolean {
    return this.#ending.has(id)
  }

  /** Records that an instance has ended by itself. */
  lost(id: string, gone: Gone): void {
    this.#gone.set(id, gone)
  }

  whyGone(id: string): Gone | undefined {
    return this.#gone.get(id)
  }

  /** Whether it waits in the warm pool, as far as this process knows. */
  isReady(id: string): boolean {
    return this.#ready.has(id) || this.#idle.has(id)
  }

  /** Another replica watches it. */
  handOver(id: string): void {
    this.#instances.get(id)?.unwatch()
    this.remove(id)
  }

  /** Nothing is left of it. */
  remove(id: string): void {
    this.#instances.delete(id)
    this.#projects.delete(id)
    this.#leases.delete(id)
    for (const marks of [this.#closed, this.#ready, this.#idle, this.#lent, this.#ending, this.#gone]) marks.delete(id)
  }
}
