// Warm sandboxes with a loaded app that wait for a run: for each deployment in use as many as its demand needs. They are in memory only: after a crash of the
// service they belong to no run and are ended.
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { letGo, type AppSandbox } from '../../../instances/driver.ts'
import { runner } from '../../../runner/contract.ts'

/** How long they are kept after the last use of their deployment. */
export const KEEP_MS = 10 * 60_000
/** Most warm sandboxes at the same time. Each takes about 60 MB. The least recently used deployment loses its own first. */
export const MAX_WARM = 8
/** Most for one deployment. A caller that never pauses uses them up faster than any number of processors starts new ones. */
export const MAX_EACH = 4
/** The demand of a deployment is the number of its runs that begin within this time. A sandbox starts in less on a machine that is not busy. */
const DEMAND_MS = 1_000
/** After this time without reaching the highest demand again, one fewer is kept. */
const QUIET_MS = 60_000
/** Delay of a refill after a run has started. A start takes 0.3 s of CPU time: short runs have ended by then, and others may follow at once. */
const REFILL_AFTER_MS = 50
/** Timeout for loading: an app that takes longer does not profit from a warm sandbox. */
const READY_MS = 60_000
/** Retries after a failed start: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 60_000

interface WarmSettings {
  /** Starts a sandbox for a run of a deployment, after the starts that callers wait for. Calls `onBegin` when the start begins. */
  start: (deployment: string, signal: AbortSignal, onBegin: () => void) => Promise<AppSandbox>
  /** Those of `deployments` that new runs use. */
  inUse: (deployments: readonly string[]) => Promise<Set<string>>
  /** Most runs at the same time: no more sandboxes are ever taken together. */
  maxRuns: number
  log: Log
  /** Replaces {@link QUIET_MS}. */
  quietMs?: number
}

interface Starting {
  /** Whether its start has begun: a run that needs a sandbox gets this one sooner than a new one. */
  isUnderWay: boolean
  isTaken: boolean
  instance: Promise<AppSandbox | undefined>
}

/** A deployment's entry. */
interface Place {
  deployment: string
  usedAt: number
  /** How many are kept, and when the demand was last as high. */
  wanted: number
  peakAt: number
  /** Times within the last {@link DEMAND_MS} at which runs asked for a sandbox. */
  asked: number[]
  /** Aborts when the entry is removed. */
  stop: AbortController
  waiting: AppSandbox[]
  starting: Set<Starting>
  refill: NodeJS.Timeout | undefined
  retryAt: number
  retryMs: number
}

const held = ({ waiting, starting }: Place): number => waiting.length + starting.size

export class WarmRunners {
  readonly #settings: WarmSettings
  readonly #places = new Map<string, Place>()
  /** Starts and ends in progress. */
  readonly #work = new Set<Promise<unknown>>()
  #isStopping = false

  constructor(settings: WarmSettings) {
    this.#settings = settings
  }

  /** Number of sandboxes that wait or are being started. */
  get count(): number {
    return [...this.#places.values()].reduce((sum, place) => sum + held(place), 0)
  }

  /** Takes a warm sandbox of a deployment, or one that is being started for it; undefined when there is none. After that, the caller owns it. */
  async take(deployment: string): Promise<AppSandbox | undefined> {
    const place = this.#places.get(deployment)
    if (!place) return undefined
    this.#count(place)
    const instance = place.waiting.shift()
    if (instance) return instance
    const starting = [...place.starting].find(({ isUnderWay }) => isUnderWay)
    if (!starting) return undefined
    starting.isTaken = true
    place.starting.delete(starting)
    return starting.instance
  }

  /** Keeps warm sandboxes for a deployment that is in use now, and starts missing ones. */
  fill(deployment: string): void {
    const place = this.#placeOf(deployment)
    if (!place) return
    place.usedAt = performance.now()
    this.#fill(place)
  }

  /** The same after a delay, for a run that has just started. Without a delay if none is left and more runs are likely. */
  refill(deployment: string): void {
    const place = this.#placeOf(deployment)
    if (!place) return
    place.usedAt = performance.now()
    clearTimeout(place.refill)
    if (place.wanted > 1 && held(place) === 0) this.#fill(place)
    else place.refill = setTimeout(() => this.#fill(place), REFILL_AFTER_MS)
  }

  /** Ends the warm sandboxes of a deployment. */
  async drop(deployment: string): Promise<void> {
    const place = this.#places.get(deployment)
    if (!place) return
    this.#places.delete(deployment)
    clearTimeout(place.refill)
    place.stop.abort(new Error('the warm sandbox is not needed any more'))
    const all = [...place.waiting.splice(0), ...[...place.starting].map(({ instance }) => instance)]
    await this.#follow(Promise.all(all.map(async (one) => this.#end(await one))))
  }

  /** Ends warm sandboxes that were not used for long, exceed the demand, or cannot be used again. Retries failed starts. */
  async sweep(): Promise<void> {
    const places = [...this.#places.values()]
    const inUse = await this.#settings.inUse(places.map(({ deployment }) => deployment))
    const now = performance.now()
    for (const place of places)
      if (now - place.usedAt > KEEP_MS || !inUse.has(place.deployment)) await this.drop(place.deployment)
      else if (place.wanted > 1 && now - place.peakAt > (this.#settings.quietMs ?? QUIET_MS)) this.#lower(place)
      else if (held(place) > place.wanted) this.#trim(place)
      else this.#fill(place)
  }

  /** Ends all of them. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all([...this.#places.keys()].map((deployment) => this.drop(deployment)))
    await Promise.all(this.#work)
  }

  /** The entry of a deployment, created if needed; undefined while the service stops. */
  #placeOf(deployment: string): Place | undefined {
    if (this.#isStopping) return undefined
    const known = this.#places.get(deployment)
    if (known) return known
    const now = performance.now()
    const place: Place = {
      deployment,
      usedAt: now,
      wanted: 1,
      peakAt: now,
      asked: [],
      stop: new AbortController(),
      waiting: [],
      starting: new Set(),
      refill: undefined,
      retryAt: 0,
      retryMs: RETRY_FIRST_MS,
    }
    if (this.#places.size >= MAX_WARM) {
      const idle = [...this.#places.values()].reduce((least, other) => (other.usedAt < least.usedAt ? other : least))
      void this.drop(idle.deployment)
    }
    this.#places.set(deployment, place)
    return place
  }

  /** Counts a run that asks for a sandbox. */
  #count(place: Place): void {
    const now = performance.now()
    place.usedAt = now
    const most = Math.min(MAX_EACH, this.#settings.maxRuns)
    place.asked = [...place.asked.filter((at) => now - at < DEMAND_MS), now].slice(-most)
    if (place.asked.length < place.wanted) return
    place.wanted = place.asked.length
    place.peakAt = now
  }

  /** Lowers the wanted number by one. */
  #lower(place: Place): void {
    place.wanted--
    place.peakAt = performance.now()
    this.#trim(place)
  }

  /** Ends waiting sandboxes above the wanted number. One that is still starting is checked later. */
  #trim(place: Place): void {
    while (held(place) > place.wanted && place.waiting.length > 0) this.#endOne(place)
  }

  #endOne(place: Place): void {
    const instance = place.waiting.pop()
    if (instance) void this.#follow(this.#end(instance))
  }

  #fill(place: Place): void {
    clearTimeout(place.refill)
    if (place.retryAt > performance.now() || place.stop.signal.aborted) return
    while (held(place) < place.wanted) {
      if (this.count >= MAX_WARM && !this.#makeRoom(place)) return
      this.#begin(place)
    }
  }

  /** Frees a place for a deployment without a sandbox, by ending one of a deployment that has several. */
  #makeRoom(place: Place): boolean {
    if (held(place) > 0) return false
    const spare = [...this.#places.values()].filter((other) => other.waiting.length > 0 && held(other) > 1)
    if (spare.length === 0) return false
    this.#endOne(spare.reduce((least, other) => (other.usedAt < least.usedAt ? other : least)))
    return true
  }

  #begin(place: Place): void {
    const starting: Starting = { isUnderWay: false, isTaken: false, instance: Promise.resolve(undefined) }
    place.starting.add(starting)
    starting.instance = this.#follow(
      this.#start(place, starting).then((instance) => {
        place.starting.delete(starting)
        if (!instance || starting.isTaken || place.stop.signal.aborted) return instance
        place.waiting.push(instance)
        this.#watch(place, instance)
        return instance
      }),
    )
  }

  async #start(place: Place, starting: Starting): Promise<AppSandbox | undefined> {
    const { deployment } = place
    try {
      // If another deployment has replaced this one during a run, it is not used again.
      if (!(await this.#settings.inUse([deployment])).has(deployment)) {
        if (this.#places.get(deployment) === place) void this.drop(deployment)
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
    const isWaiting = () => place.waiting.includes(instance)
    const bad = (fields: object, message: string) => {
      if (!isWaiting()) return
      place.waiting = place.waiting.filter((other) => other !== instance)
      this.#failed(place, fields, message)
      void this.#follow(this.#end(instance))
    }
    const load = async () => {
      const ready = await within('an app to load', READY_MS, call(instance.runner, runner.ready, {}, { signal: place.stop.signal }), place.stop.signal)
      if (!ready.ok) bad({ reason: ready.reason }, 'an app in reserve did not load; its next run will tell why')
      else if (isWaiting()) place.retryMs = RETRY_FIRST_MS
    }
    load().catch((err: unknown) => bad({ err }, 'an app in reserve did not load'))
    void instance.exited.then(({ reason }) => bad({ reason }, 'a sandbox in reserve ended by itself'))
  }

  #failed(place: Place, fields: object, message: string): void {
    const now = performance.now()
    this.#settings.log.warn({ deployment: place.deployment, retryMs: place.retryMs, ...fields }, message)
    // Several failures at the same time count as one.
    if (place.retryAt > now) return
    place.retryAt = now + place.retryMs
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
