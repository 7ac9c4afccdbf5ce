// Counts what a target would have told, but for its limits, and tells that number once a second.
import type { Telemetry } from '../telemetry.ts'
import type { Context } from './collector.ts'

const TOLD_EVERY_MS = 1_000

/** What loses something: a target, or all of Chromium, which has no context. */
interface Loser {
  signal: AbortSignal
  context?: () => Context
}

export class Losses {
  readonly #reason: string
  readonly #target: Loser
  readonly #telemetry: Telemetry
  #count = 0
  #timer: NodeJS.Timeout | undefined

  /** `reason`: what is lost. What was counted last is told when the target's signal aborts. */
  constructor(reason: string, target: Loser, telemetry: Telemetry) {
    this.#reason = reason
    this.#target = target
    this.#telemetry = telemetry
    target.signal.addEventListener('abort', () => this.tell(), { once: true })
  }

  add(count = 1): void {
    this.#count += count
    if (!this.#target.signal.aborted) this.#timer ??= setTimeout(() => this.tell(), TOLD_EVERY_MS).unref()
  }

  tell(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const count = this.#count
    if (count === 0) return
    this.#count = 0
    const { target_id, target_type } = this.#target.context?.() ?? {}
    this.#telemetry.emit({
      type: 'monitor_events_lost',
      source: { kind: 'local_process', ...(target_id !== undefined && { metadata: { target_id } }) },
      data: { reason: this.#reason, count, target_id, target_type },
    })
  }
}
