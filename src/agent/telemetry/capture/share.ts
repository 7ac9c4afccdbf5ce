// Limits how much one target reports in a second. The rest is counted, and the count is reported once a second.
import { WINDOW_MS } from '../limits.ts'
import type { Teller } from '../telemetry.ts'
import type { Context } from './collector.ts'

/** The owner of a share: a target, or all of Chromium, which has no context. */
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

  /** `reason`: the kind of lost events. The last count is reported when the owner's signal aborts. */
  constructor(reason: string, owner: Owner, telemetry: Teller, limits?: Record<Kind, number>) {
    this.#reason = reason
    this.#owner = owner
    this.#telemetry = telemetry
    this.#window = new Window(limits ?? ({} as Record<Kind, number>))
    owner.signal.addEventListener('abort', () => this.tell(), { once: true })
  }

  /** Counts `amount` of a kind. Returns whether it may be reported in this second. */
  fits(kind: Kind, amount = 1): boolean {
    return this.#window.fits(kind, amount)
  }

  /** Time left in this second, in milliseconds. */
  get leftMs(): number {
    return this.#window.leftMs
  }

  /** Counts events that are not reported. */
  lose(count = 1): void {
    this.#lost += count
    if (!this.#owner.signal.aborted) this.#timer ??= setTimeout(() => this.tell(), WINDOW_MS).unref()
  }

  /** Reports the lost events now. */
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

/** Counts of this second, with their limits. */
export class Window<Kind extends string> {
  readonly #limits: Readonly<Record<Kind, number>>
  #used = new Map<Kind, number>()
  #until = 0

  constructor(limits: Readonly<Record<Kind, number>>) {
    this.#limits = limits
  }

  /** Counts `amount` of a kind. Returns whether it is within its limit; a single one always is. */
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
