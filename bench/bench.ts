// The inputs of every measurement: counts, display, pages and a signal.
import type { Counts } from './counts.ts'
import type { Display } from './bare.ts'
import type { Pages } from './pages.ts'

export interface Bench {
  counts: Counts
  /** A bare display that is already running. */
  display: Display
  pages: Pages
  signal: AbortSignal
  /** Pauses between two measurements, so that the end of the last one, or another program, does not affect the next. */
  rest: () => Promise<void>
}
