// Sandboxes that are kept prepared: all of an instance but its browser. A start that gets one waits for the browser only.
import { Demand } from '../../base/demand.ts'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { memoryNow } from '../../base/memory.ts'
import { letGo, type InstanceForm, type Reserved } from '../driver.ts'
import type { LocalInstance } from './instance.ts'

/** Forms of which sandboxes are kept: those of the latest starts. Full and lean sessions of a usual size have one each. */
const MOST_FORMS = 2

/** How often the number that is kept is compared with the demand while nothing is started. */
const LOOK_MS = 30_000

/** No sandbox is prepared unless this share of the memory is free. */
const LEFT_FREE = 1 / 8

interface PreparedSettings {
  /** Most sandboxes of each form. */
  most: number
  /** Starts a sandbox whose agent waits, and resolves when the agent can start a browser. On failure, nothing is left. */
  make: (id: string, form: InstanceForm, signal: AbortSignal) => Promise<LocalInstance>
  log: Log
}

interface Shelf {
  form: InstanceForm
  demand: Demand
  ready: LocalInstance[]
}

const nameOf = ({ viewport, maxScreen, lean = false, apiPorts }: InstanceForm): string => JSON.stringify([viewport, maxScreen, lean, apiPorts])

export class PreparedSandboxes implements AsyncDisposable {
  readonly #settings: PreparedSettings
  /** By the name of their form; the form of the latest start is the last one. */
  readonly #shelves = new Map<string, Shelf>()
  readonly #reserved = new Map<string, LocalInstance>()
  readonly #stop = new AbortController()
  #starting = 0
  #filling: Promise<void> | undefined
  readonly #timer: NodeJS.Timeout

  constructor(settings: PreparedSettings) {
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
  take(id: string): LocalInstance | undefined {
    const instance = this.#reserved.get(id)
    this.#reserved.delete(id)
    return instance
  }

  /** Runs a start. Sandboxes are prepared when no start is under way, so that they take no CPU from it. */
  async aside<T>(start: () => Promise<T>): Promise<T> {
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
    await this.#filling
    await Promise.all([...this.#reserved.keys()].map((id) => this.#end(this.take(id)!)))
    await Promise.all([...this.#shelves.values()].flatMap(({ ready }) => ready.splice(0)).map((instance) => this.#end(instance)))
  }

  #shelfFor(form: InstanceForm): Shelf {
    const name = nameOf(form)
    const shelf = this.#shelves.get(name) ?? { form, demand: new Demand(), ready: [] }
    this.#shelves.delete(name)
    this.#shelves.set(name, shelf)
    if (this.#shelves.size > MOST_FORMS) {
      const [[oldest, { ready }]] = this.#shelves as unknown as [[string, Shelf]]
      this.#shelves.delete(oldest)
      for (const instance of ready.splice(0)) void this.#end(instance)
    }
    return shelf
  }

  #putBack({ ready }: Shelf, id: string): void {
    const instance = this.take(id)
    if (instance) ready.unshift(instance)
  }

  #end(instance: LocalInstance): Promise<void> {
    return letGo(instance, this.#settings.log)
  }

  /** One of a form that was asked for, and as many more as its demand says. */
  #wanted({ demand }: Shelf): number {
    return Math.min(this.#settings.most, Math.max(1, demand.level(performance.now())))
  }

  /** Ends what the demand does not need any more: one of each form at a time. */
  #look(): void {
    for (const shelf of this.#shelves.values()) {
      const surplus = shelf.ready.length > this.#wanted(shelf) ? shelf.ready.pop() : undefined
      if (surplus) void this.#end(surplus)
    }
    this.#fill()
  }

  #fill(): void {
    this.#filling ??= this.#fillAll()
      // The next start, or the next look, tries again.
      .catch((err: unknown) => {
        if (!this.#stop.signal.aborted) this.#settings.log.warn({ err }, 'a sandbox could not be prepared')
      })
      .finally(() => (this.#filling = undefined))
  }

  async #fillAll(): Promise<void> {
    while (this.#starting === 0 && !this.#stop.signal.aborted) {
      const { freeBytes, totalBytes } = memoryNow()
      const shelf = [...this.#shelves.values()].findLast((one) => one.ready.length < this.#wanted(one))
      if (!shelf || freeBytes < totalBytes * LEFT_FREE) return
      const began = performance.now()
      const instance = await this.#settings.make(newId(), shelf.form, this.#stop.signal)
      shelf.demand.booted(performance.now() - began)
      this.#add(shelf, instance)
    }
  }

  #add(shelf: Shelf, instance: LocalInstance): void {
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
