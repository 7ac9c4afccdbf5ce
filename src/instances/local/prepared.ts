// Sandboxes that are kept prepared: all of an instance but its browser. A start that gets one waits for the browser only.
import { Demand } from '../../base/demand.ts'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { FOR_SESSIONS, memoryNow, type Memory } from '../../base/memory.ts'
import { letGo, type Instance, type InstanceForm, type Reserved } from '../driver.ts'

/** Forms of which sandboxes are kept: those of the latest starts. Full and lean sessions of a usual size have one each. */
const MOST_FORMS = 2

/** How often the number that is kept is compared with the demand while nothing is started. */
const LOOK_MS = 30_000

interface PreparedSettings<T> {
  /** Most sandboxes of each form. */
  most: number
  /**
   * Starts a sandbox whose agent waits. It may be started at once; `loaded` resolves when its agent has nothing more to do before that. On failure, nothing is
   * left.
   */
  make: (id: string, form: InstanceForm, signal: AbortSignal) => Promise<{ instance: T; loaded: Promise<unknown> }>
  /** Replaces the query of the machine's memory. */
  memory?: () => Memory
  log: Log
}

interface Shelf<T> {
  form: InstanceForm
  demand: Demand
  ready: T[]
}

const nameOf = ({ viewport, maxScreen, lean = false, apiPorts }: InstanceForm): string => JSON.stringify([viewport, maxScreen, lean, apiPorts])

export class PreparedSandboxes<T extends Instance> implements AsyncDisposable {
  readonly #settings: PreparedSettings<T>
  /** By the name of their form; the form of the latest start is the last one. */
  readonly #shelves = new Map<string, Shelf<T>>()
  readonly #reserved = new Map<string, T>()
  readonly #stop = new AbortController()
  #starting = 0
  #isFilling = false
  #filled: Promise<void> = Promise.resolve()
  readonly #timer: NodeJS.Timeout

  constructor(settings: PreparedSettings<T>) {
    this.#settings = settings
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  /** Reserves a sandbox of this form for one start; undefined when none is prepared. */
  reserve(form: InstanceForm): Reserved | undefined {
    if (this.#settings.most === 0) return undefined
    const shelf = this.#shelfFor(form)
    shelf.demand.asked(performance.now())
    const instance = shelf.ready.shift()
    if (!instance) return undefined
    const { id } = instance
    this.#reserved.set(id, instance)
    return { id, [Symbol.dispose]: () => this.#putBack(shelf, id) }
  }

  /** Takes the sandbox that was reserved with this id; undefined when there was none. The caller owns it. */
  take(id: string): T | undefined {
    const instance = this.#reserved.get(id)
    this.#reserved.delete(id)
    return instance
  }

  /** Runs a start. Sandboxes are prepared when no start is under way, so that they take no CPU from it. */
  async aside<R>(start: () => Promise<R>): Promise<R> {
    this.#starting++
    try {
      return await start()
    } finally {
      this.#starting--
      this.#fill()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#stop.abort(new Error('the service stops'))
    await this.#filled
    await Promise.all([...this.#reserved.keys()].map((id) => this.#end(this.take(id)!)))
    await Promise.all([...this.#shelves.values()].flatMap(({ ready }) => ready.splice(0)).map((instance) => this.#end(instance)))
  }

  #shelfFor(form: InstanceForm): Shelf<T> {
    const name = nameOf(form)
    const shelf: Shelf<T> = this.#shelves.get(name) ?? { form, demand: new Demand(), ready: [] }
    this.#shelves.delete(name)
    this.#shelves.set(name, shelf)
    if (this.#shelves.size > MOST_FORMS) {
      const [oldest] = this.#shelves.keys()
      for (const instance of this.#shelves.get(oldest!)!.ready) void this.#end(instance)
      this.#shelves.delete(oldest!)
    }
    return shelf
  }

  #putBack(shelf: Shelf<T>, id: string): void {
    const instance = this.take(id)
    if (instance) this.#add(shelf, instance)
  }

  #end(instance: T): Promise<void> {
    return letGo(instance, this.#settings.log)
  }

  /** One of a form that was asked for, and as many more as its demand says; none while memory is short. */
  #wanted({ demand }: Shelf<T>): number {
    const { freeBytes, totalBytes } = (this.#settings.memory ?? memoryNow)()
    if (freeBytes < totalBytes * FOR_SESSIONS) return 0
    return Math.min(this.#settings.most, Math.max(1, demand.level(performance.now())))
  }

  /** Ends what is not wanted any more: one of each form at a time. */
  #look(): void {
    for (const shelf of this.#shelves.values()) {
      const surplus = shelf.ready.length > this.#wanted(shelf) ? shelf.ready.pop() : undefined
      if (surplus) void this.#end(surplus)
    }
    this.#fill()
  }

  #fill(): void {
    if (this.#isFilling) return
    this.#isFilling = true
    // After a failure, the next start or the next look tries again.
    this.#filled = this.#fillAll().catch((err: unknown) => {
      if (!this.#stop.signal.aborted) this.#settings.log.warn({ err }, 'a sandbox could not be prepared')
    })
  }

  async #fillAll(): Promise<void> {
    try {
      while (this.#starting === 0 && !this.#stop.signal.aborted) {
        const shelf = [...this.#shelves.values()].findLast((one) => one.ready.length < this.#wanted(one))
        if (!shelf) return
        const began = performance.now()
        const { instance, loaded } = await this.#settings.make(newId(), shelf.form, this.#stop.signal)
        this.#add(shelf, instance)
        await loaded
        shelf.demand.booted(performance.now() - began)
      }
    } finally {
      this.#isFilling = false
    }
  }

  #add(shelf: Shelf<T>, instance: T): void {
    const isKept = this.#shelves.get(nameOf(shelf.form)) === shelf
    if (!isKept || this.#stop.signal.aborted) return void this.#end(instance)
    shelf.ready.push(instance)
    void instance.exited.then(() => {
      const at = shelf.ready.indexOf(instance)
      if (at === -1) return // it was started, or is being ended
      shelf.ready.splice(at, 1)
      void this.#end(instance)
    })
  }
}
