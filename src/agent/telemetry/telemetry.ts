// The interface of telemetry for the agent's other tools: whether a category is captured, and adding an event.
import type { Category, EventType, Source, TelemetryFit } from './contract.ts'

/** An event from its source. Its category, number and time are added. */
export interface NewEvent {
  type: EventType
  source: Source
  data?: object
  truncated?: boolean
}

/** Takes events. */
export interface Teller {
  /** Whether events of this category are captured now. It is cheap: sources check it first, and do no work in vain. */
  captures(category: Category): boolean
  /** Adds an event. Without effect when its category is not captured. Does not wait, and does not throw. */
  emit(event: NewEvent): void
}

/** The telemetry of the session. */
export interface Telemetry extends Teller {
  /** The CDP commands that make no events. */
  readonly excluded: ReadonlySet<string>
  /** Changes when the browser gets another caller. Events about something that began before must not be added after it: the next caller would see them. */
  readonly floor: number
  /**
   * Calls `listener` after each change of the captured categories. The change waits for its result, which must not reject. The returned function removes it.
   */
  onChange(listener: (captured: TelemetryFit) => unknown): () => void
}
