// What every measurement gets: how often, where, and until when.
import type { Counts } from './counts.ts'
import type { Display } from './bare.ts'
import type { Pages } from './pages.ts'

export interface Bench {
  counts: Counts
  /** The bare display that is running already. */
  display: Display
  pages: Pages
  signal: AbortSignal
  /** Rests between two measurements, so that the end of one, or another program's work, is not the beginning of the next. */
  rest: () => Promise<void>
}
