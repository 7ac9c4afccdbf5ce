// How much one target tells of in a second. What is above that is counted, and the count is told once a second.
import { WINDOW_MS } from '../limits.ts'
import type { Teller } from '../telemetry.ts'
import type { Context } from './collector.ts'

/** Whose share it is: of a target, or of all of Chromium, which has no context. */
interface Owner {
  signal: AbortSignal
  context?: () => Context
}

export class Share<Kind extends string = never> {
  readonly #reason: string
  readonly #owner: Owner
  readonly #telemetry: Teller
  readonly #window: Window<Kind>
  #lost = 0
  #timer: NodeJS.Timeout | undefined

  /** `reason`: what is lost. What was counted last is told when the owner's signal aborts. */
  constructor(reason: string, owner: Owner, telemetry: Teller, limits?: Record<Kind, number>) {
    this.#reason = reason
    this.#owner = owner
    this.#telemetry = telemetry
    this.#window = new Window(limits ?? ({} as Record<Kind, number>))
    owner.signal.addEventListener('abort', () => this.tell(), { once: true })
  }

  /** Counts so much of a kind. Whether it may be told in this second. */
  fits(kind: Kind, amount = 1): boolean {
    return this.#window.fits(kind, amount)
  }

  /** How long this second lasts, in milliseconds. */
  get leftMs(): number {
    return this.#window.leftMs
  }

  /** Counts what is not told. */
  lose(count = 1): void {
    this.#lost += count
    if (!this.#owner.signal.aborted) this.#timer ??= setTimeout(() => this.tell(), WINDOW_MS).unref()
  }

  /** Tells now what was lost. */
  tell(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const count = this.#lost
    if (count === 0) return
    this.#lost = 0
    const { target_id, target_type } = this.#owner.context?.() ?? {}
    this.#telemetry.emit({
      type: 'monitor_events_lost',
      source: { kind: 'local_process', ...(target_id !== undefined && { metadata: { target_id } }) },
      data: { reason: this.#reason, count, target_id, target_type },
    })
  }
}

/** What was counted in this second, beside its limits. */
export class Window<Kind extends string> {
  readonly #limits: Readonly<Record<Kind, number>>
  #used = new Map<Kind, number>()
  #until = 0

  constructor(limits: Readonly<Record<Kind, number>>) {
    this.#limits = limits
  }

  /** Counts so much of a kind. Whether it is within its limit; one alone always is. */
  fits(kind: Kind, amount = 1): boolean {
    const now = performance.now()
    if (now >= this.#until) {
      this.#until = now + WINDOW_MS
      this.#used.clear()
    }
    const before = this.#used.get(kind) ?? 0
    this.#used.set(kind, before + amount)
    return before === 0 || before + amount <= this.#limits[kind]
  }

  get leftMs(): number {
    return Math.max(0, this.#until - performance.now())
  }
}
