// What the agent's other tools know of telemetry: whether something is captured, and telling of an event.
import type { Category, EventType, Source, TelemetryFit } from './contract.ts'

/** An event as its maker tells of it. Its category, number and time are added. */
export interface NewEvent {
  type: EventType
  source: Source
  data?: object
  truncated?: boolean
}

/** Takes events. */
export interface Teller {
  /** Whether events of this category are captured now. Cheap: makers of events ask first, and do no work for nothing. */
  captures(category: Category): boolean
  /** Adds an event. Without effect when its category is not captured. Does not wait, and does not throw. */
  emit(event: NewEvent): void
}

/** The telemetry of the session. */
export interface Telemetry extends Teller {
  /** The CDP commands that make no events. */
  readonly excluded: ReadonlySet<string>
  /**
   * Changes when the browser goes to another caller. What belongs to something that began before that is not told after it: it would be seen by the next one.
   */
  readonly floor: number
  /** The session's clock: microseconds since 1970, never running backwards. */
  now(): number
  /** Calls `listener` after each change of what is captured. Who has changed it waits for what it returns, which does not reject. The returned function ends that. */
  onChange(listener: (captured: TelemetryFit) => unknown): () => void
}
