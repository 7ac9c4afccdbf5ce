// A cache of rights, so that not every call needs a query. It is cleared as soon as somebody loses a right.
import type { Log } from '../../base/log.ts'
import type { Db } from '../../store/db.ts'
import { notify, type EventNotifier } from '../../store/events.ts'

/** How long an answer is cached. If another replica removes a right, its notice clears the cache; if the notice is lost, this time limits the error. */
const REMEMBER_MS = 2_000
const MOST = 1_000

/** Cached answers of one kind. */
export class Remembered<T> {
  readonly #known = new Map<string, { value: T; until: number }>()
  #forgotten = 0

  /** The cached answer for `name`, or the answer of `ask`, which is valid for `leftMs`. @throws errors of `ask`, which are not cached */
  async get(name: string, ask: () => Promise<{ value: T; leftMs?: number | null }>): Promise<T> {
    const known = this.#known.get(name)
    if (known && known.until > performance.now()) return known.value
    const [before, asked] = [this.#forgotten, performance.now()]
    const { value, leftMs } = await ask()
    // An answer from before a right was removed is used for this request only.
    if (before !== this.#forgotten) return value
    if (this.#known.size >= MOST) this.#known.clear()
    this.#known.set(name, { value, until: asked + Math.min(REMEMBER_MS, leftMs ?? Infinity) })
    return value
  }

  forget(): void {
    this.#forgotten++
    this.#known.clear()
  }
}

export class Rights implements Disposable {
  readonly #all: Remembered<unknown>[] = []
  readonly #db: Db
  readonly #log: Log
  readonly #leave: () => void

  /** `notifier` receives notices of other processes that remove rights. A command has none, because it has no cache. */
  constructor(db: Db, log: Log, notifier?: EventNotifier) {
    this.#db = db
    this.#log = log
    const forget = () => this.#forget()
    this.#leave = notifier ? notifier.on('rights', forget, forget) : () => {}
  }

  /** Makes a cache of one kind of answers. */
  remember<T>(): Remembered<T> {
    const made = new Remembered<T>()
    this.#all.push(made)
    return made
  }

  /** Call it after each change that removes a right and before its answer: it clears the cache here. Resolves when the notice is sent. */
  async taken(): Promise<void> {
    this.#forget()
    await notify(this.#db, 'rights', '').catch((err: unknown) =>
      this.#log.warn({ err }, 'other replicas could not be told of a right that ended; they notice within 2 s'),
    )
  }

  [Symbol.dispose](): void {
    this.#leave()
  }

  #forget(): void {
    for (const one of this.#all) one.forget()
  }
}
