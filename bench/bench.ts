// What every measurement gets: counts, display, pages and a signal.
import type { Counts } from './counts.ts'
import type { Display } from './bare.ts'
import type { Pages } from './pages.ts'

export interface Bench {
  counts: Counts
  /** The bare display that is running already. */
  display: Display
  pages: Pages
  signal: AbortSignal
  /** Pauses between two measurements, so that the end of one, or another program's work, does not affect the next. */
  rest: () => Promise<void>
}
