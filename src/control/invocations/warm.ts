// Warm sandboxes: one per deployment in use, its app loaded, waiting for a run. In memory only: after a crash of the service they belong to no
// run and are ended.
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { letGo, type AppSandbox } from '../../instances/driver.ts'
import { runnerClient } from '../apps/runner-client.ts'

/** How long one is kept after the last use of its deployment. */
export const KEEP_MS = 10 * 60_000
/** Most warm sandboxes at the same time. The least recently used is ended first. */
export const MAX_WARM = 8
/** Loading timeout: an app that takes longer to load does not profit from a warm sandbox. */
const READY_MS = 60_000
/** Retries after one that did not come up: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 60_000

interface WarmSettings {
  /** Starts a sandbox for a run of a deployment, after the starts that callers wait for. Calls `onBegin` when it begins. */
  start: (deployment: string, signal: AbortSignal, onBegin: () => void) => Promise<AppSandbox>
  /** Those of `deployments` that new runs use. */
  inUse: (deployments: readonly string[]) => Promise<Set<string>>
  log: Log
}

interface Starting {
  /** Its start has begun: a run that needs a sandbox gets this one sooner than a new one. */
  isUnderWay: boolean
  isTaken: boolean
  instance: Promise<AppSandbox | undefined>
}

/** A deployment's entry. */
interface Place {
  deployment: string
  usedAt: number
  /** Aborts when the entry is given up. */
  stop: AbortController
  instance: AppSandbox | undefined
  starting: Starting | undefined
  retryAt: number
  retryMs: number
}

export class WarmRunners {
  readonly #settings: WarmSettings
  readonly #places = new Map<string, Place>()
  /** Starts and ends in progress. */
  readonly #work = new Set<Promise<unknown>>()
  #isStopping = false

  constructor(settings: WarmSettings) {
    this.#settings = settings
  }

  /** Sandboxes that wait or are being started. */
  get count(): number {
    return [...this.#places.values()].filter(({ instance, starting }) => instance ?? starting).length
  }

  /** Takes the warm sandbox of a deployment, or the one that is being started for it; undefined when there is none. The caller owns it then. */
  async take(deployment: string): Promise<AppSandbox | undefined> {
    const place = this.#places.get(deployment)
    if (!place) return undefined
    place.usedAt = performance.now()
    const { instance, starting } = place
    if (instance) {
      place.instance = undefined
      return instance
    }
    if (!starting?.isUnderWay || starting.isTaken) return undefined
    starting.isTaken = true
    place.starting = undefined
    return starting.instance
  }

  /** Starts a warm sandbox for a deployment that is in use now, unless it has one. */
  fill(deployment: string): void {
    if (this.#isStopping) return
    const known = this.#places.get(deployment)
    const place = known ?? { deployment, usedAt: 0, stop: new AbortController(), instance: undefined, starting: undefined, retryAt: 0, retryMs: RETRY_FIRST_MS }
    place.usedAt = performance.now()
    this.#places.set(deployment, place)
    if (this.#places.size > MAX_WARM) {
      const idle = [...this.#places.values()].reduce((least, other) => (other.usedAt < least.usedAt ? other : least))
      void this.drop(idle.deployment)
    }
    this.#fill(place)
  }

  /** Ends the warm sandbox of a deployment. */
  async drop(deployment: string): Promise<void> {
    const place = this.#places.get(deployment)
    if (!place) return
    this.#places.delete(deployment)
    place.stop.abort(new Error('the warm sandbox is not needed any more'))
    const { instance, starting } = place
    place.instance = undefined
    await this.#follow(Promise.all([instance, starting?.isTaken ? undefined : starting?.instance].map(async (held) => this.#end(await held))))
  }

  /** Ends warm sandboxes that have not been used for long or will not be used again, and retries failed starts. */
  async sweep(): Promise<void> {
    const places = [...this.#places.values()]
    const inUse = await this.#settings.inUse(places.map(({ deployment }) => deployment))
    for (const place of places)
      if (performance.now() - place.usedAt > KEEP_MS || !inUse.has(place.deployment)) await this.drop(place.deployment)
      else this.#fill(place)
  }

  /** Ends all of them. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all([...this.#places.keys()].map((deployment) => this.drop(deployment)))
    await Promise.all(this.#work)
  }

  #fill(place: Place): void {
    if (place.instance || place.starting || place.retryAt > performance.now() || place.stop.signal.aborted) return
    const starting: Starting = { isUnderWay: false, isTaken: false, instance: Promise.resolve(undefined) }
    place.starting = starting
    starting.instance = this.#follow(
      this.#start(place, starting).then((instance) => {
        if (place.starting === starting) place.starting = undefined
        if (!instance || starting.isTaken || place.stop.signal.aborted) return instance
        place.instance = instance
        this.#watch(place, instance)
        return instance
      }),
    )
  }

  async #start(place: Place, starting: Starting): Promise<AppSandbox | undefined> {
    const { deployment } = place
    try {
      // When another deployment has taken over during a run, the old one is not used again.
      if (!(await this.#settings.inUse([deployment])).has(deployment)) {
        if (this.#places.get(deployment) === place) this.#places.delete(deployment)
        return undefined
      }
      return await this.#settings.start(deployment, place.stop.signal, () => (starting.isUnderWay = true))
    } catch (err) {
      if (!place.stop.signal.aborted) this.#failed(place, { err }, 'a sandbox in reserve did not start')
      return undefined
    }
  }

  /** Ends a waiting sandbox whose app does not load or that ends by itself. */
  #watch(place: Place, instance: AppSandbox): void {
    const isWaiting = () => place.instance === instance
    const bad = (fields: object, message: string) => {
      if (!isWaiting()) return
      place.instance = undefined
      this.#failed(place, fields, message)
      void this.#follow(this.#end(instance))
    }
    const load = async () => {
      const ready = await within('an app to load', READY_MS, runnerClient(instance.runner).ready(place.stop.signal), place.stop.signal)
      if (!ready.ok) bad({ reason: ready.reason }, 'an app in reserve did not load; its next run will tell why')
      else if (isWaiting()) place.retryMs = RETRY_FIRST_MS
    }
    load().catch((err: unknown) => bad({ err }, 'an app in reserve did not load'))
    void instance.exited.then(({ reason }) => bad({ reason }, 'a sandbox in reserve ended by itself'))
  }

  #failed(place: Place, fields: object, message: string): void {
    this.#settings.log.warn({ deployment: place.deployment, retryMs: place.retryMs, ...fields }, message)
    place.retryAt = performance.now() + place.retryMs
    place.retryMs = Math.min(RETRY_LAST_MS, place.retryMs * 2)
  }

  async #end(instance: AppSandbox | undefined): Promise<void> {
    if (instance) await letGo(instance, this.#settings.log)
  }

  #follow<T>(work: Promise<T>): Promise<T> {
    this.#work.add(work)
    void work.catch(() => {}).finally(() => this.#work.delete(work))
    return work
  }
}
