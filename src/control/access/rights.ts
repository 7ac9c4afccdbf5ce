// Whom the service has let in: remembered for a moment, so that not each call asks the database, and forgotten as soon as somebody loses a right.
import type { Log } from '../../base/log.ts'
import type { Db } from '../../store/db.ts'
import { notify, type EventNotifier } from '../../store/events.ts'

/** How long an answer counts without another query. Another replica takes a right away at once, by a notice; while notices do not come, after so long. */
const REMEMBER_MS = 2_000
const MOST = 1_000

/** Answers of one kind. */
export class Remembered<T> {
  readonly #known = new Map<string, { value: T; until: number }>()
  #forgotten = 0

  /** What is known of `name`, or what `ask` answers. `leftMs`: so long it is true. @throws what `ask` throws; that is not remembered */
  async get(name: string, ask: () => Promise<{ value: T; leftMs?: number | null }>): Promise<T> {
    const known = this.#known.get(name)
    if (known && known.until > performance.now()) return known.value
    const [before, asked] = [this.#forgotten, performance.now()]
    const { value, leftMs } = await ask()
    // What was read before a right was taken away is true for this one request at most.
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

  /** `notifier`: where other processes tell of the rights that they take away. A command remembers nothing, and gets no notices. */
  constructor(db: Db, log: Log, notifier?: EventNotifier) {
    this.#db = db
    this.#log = log
    this.#leave = notifier ? notifier.on('rights', () => this.#forget()) : () => {}
  }

  /** Answers about who may do what, of one kind. */
  remember<T>(): Remembered<T> {
    const made = new Remembered<T>()
    this.#all.push(made)
    return made
  }

  /** Call it after each change that takes a right away, before the caller gets the answer: from then on nobody has it here. Resolves when the others were told. */
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
