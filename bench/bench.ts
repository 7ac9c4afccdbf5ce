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
}

/** Between two measurements, so that the end of one is not the beginning of the other. */
export const REST_MS = 300
