// The instances that this process watches, and a copy of facts from their rows. The next start reads the rows again.
import type { Instance } from '../../../../instances/driver.ts'
import type { EndReason } from '../end-step.ts'
import type { BrowserRow } from '../rows.ts'

/** The owner of an instance. */
export interface Standing {
  /** The instance waits in the warm pool, or in its pool: no session has claimed it. */
  isReady: boolean
  isPooled: boolean
}

interface Known extends Standing {
  instance: Instance | undefined
  /** The project of its session, if known. A session never leaves its project. */
  project?: string
  /** The number of its acquisition from its pool, if known: the column of this name. */
  lease?: number
  /** Callers may not use its tools: it is the session of a login or health check. Known together with its project. */
  isClosed?: boolean
  isEnding?: boolean
  /** Set when the instance has ended by itself and is not removed yet. The database may be away. */
  gone?: { why: string; reason: EndReason }
}

/** A session whose agent answers, as far as this process knows. */
export type KnownSession = Pick<Known, 'project' | 'lease' | 'isClosed' | 'isPooled'> & { endpoint: Instance['agent'] }

export class Registry {
  readonly #known = new Map<string, Known>()
  /** Browsers that are being started here and have no instance yet. */
  readonly #booting = new Set<string>()
  /** Browsers that are being taken over from another replica. Each promise resolves when that has worked or failed. */
  readonly #taking = new Map<string, Promise<void>>()

  #count(which: (known: Known) => boolean): number {
    let count = 0
    for (const known of this.#known.values()) if (known.instance && which(known)) count++
    return count
  }

  /** Instances that belong to a session. Those of pools are not counted. */
  get sessions(): number {
    return this.#count(({ isReady, isPooled }) => !isReady && !isPooled)
  }

  /** Instances that wait in the warm pool, and have not ended. */
  get ready(): number {
    return this.#count(({ isReady, isPooled, isEnding, gone }) => isReady && !isPooled && !isEnding && !gone)
  }

  /** Instances that belong to pools. */
  get pooled(): number {
    return this.#count(({ isPooled }) => isPooled)
  }

  get instances(): Instance[] {
    return [...this.#known.values()].flatMap(({ instance }) => instance ?? [])
  }

  known(id: string): Known | undefined {
    return this.#known.get(id)
  }

  get(id: string): Instance | undefined {
    return this.#known.get(id)?.instance
  }

  /** Whether there is an instance that has not ended by itself. */
  runs(id: string): boolean {
    const known = this.#known.get(id)
    return known?.instance !== undefined && !known.gone
  }

  /** A running session. Needs no database query. */
  session(id: string): KnownSession | undefined {
    const known = this.#known.get(id)
    if (!known?.instance || known.isReady || known.isEnding || known.gone) return undefined
    return { ...known, endpoint: known.instance.agent }
  }

  /** The endpoint of a running session's agent. Needs no database query. */
  endpointOf(id: string): Instance['agent'] | undefined {
    return this.session(id)?.endpoint
  }

  /** The sessions that run here and are not ending, and the browsers that wait in pools (`isIdle`). */
  get reachable(): { id: string; endpoint: Instance['agent']; isIdle: boolean }[] {
    return [...this.#known].flatMap(([id, { instance, isReady, isPooled, isEnding, gone }]) =>
      !instance || (isReady && !isPooled) || isEnding || gone ? [] : [{ id, endpoint: instance.agent, isIdle: isReady }],
    )
  }

  /** Records what a session's row says: its project, the number of its acquisition, and whether its tools are closed to callers. */
  belongs({ id, project_id: project, lease, auth_flow_id: flow }: Pick<BrowserRow, 'id' | 'project_id' | 'lease' | 'auth_flow_id'>): void {
    const known = this.#known.get(id)
    if (!known?.instance || project === null) return
    known.project = project
    if (flow !== null) known.isClosed = true
    // Keep the larger number: the row may have been read before the next acquisition.
    if (known.isPooled && !known.isReady) known.lease = Math.max(lease, known.lease ?? 0)
  }

  add(instance: Instance, standing: Standing): void {
    this.#known.set(instance.id, { ...this.#known.get(instance.id), instance, ...standing })
  }

  /** Records that an instance of the warm pool has become a session; false when it has ended in the meantime. */
  claim(id: string): boolean {
    const known = this.#known.get(id)
    if (known) known.isReady = false
    return this.runs(id) || this.#taking.has(id)
  }

  /** Records that a caller has given the browser of a pool back. `lease`: the number of that acquisition; a later acquisition stays. */
  putBack(id: string, lease = Infinity): void {
    const known = this.#known.get(id)
    if (!known?.isPooled || (known.lease ?? 0) > lease) return
    known.isReady = true
    delete known.lease
  }

  /** Whether it waits in the warm pool or in its pool, as far as this process knows. */
  isReady(id: string): boolean {
    return this.#known.get(id)?.isReady ?? false
  }

  /** Records that a browser is being started, until it is disposed. */
  booting(id: string): Disposable {
    this.#booting.add(id)
    return { [Symbol.dispose]: () => void this.#booting.delete(id) }
  }

  /** Records that a browser is being taken over while `work` goes on. */
  taking<T>(id: string, work: () => Promise<T>): Promise<T> {
    const taken = work().finally(() => this.#taking.delete(id))
    const over = () => {}
    this.#taking.set(id, taken.then(over, over))
    return taken
  }

  /** Whether it is being started or taken over. */
  isComing(id: string): boolean {
    return this.#booting.has(id) || this.#taking.has(id)
  }

  /** Whether its instance is here or is being started here. Waits for a takeover that is under way. */
  async isHere(id: string): Promise<boolean> {
    await this.#taking.get(id)
    return this.get(id) !== undefined || this.#booting.has(id)
  }

  /** Marks a browser as ending: calls do not reach it any more. */
  beginEnd(id: string): void {
    this.#known.set(id, { instance: undefined, isReady: false, isPooled: false, ...this.#known.get(id), isEnding: true })
  }

  /** Forgets a browser that another replica watches now. */
  handOver(id: string): void {
    this.get(id)?.unwatch()
    this.remove(id)
  }

  /** Forgets a browser of which nothing is left. */
  remove(id: string): void {
    this.#known.delete(id)
  }
}
