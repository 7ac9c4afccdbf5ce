// How fast the recordings of one session are fetched, all together. A real recorder stays far below; an agent that was taken over must not make the
// service busy or fill the disk.
import { Bucket } from '../../../base/bucket.ts'

/** Bytes per second on average, and at once. A moving screen at 1080p makes 0.5 MB a second; after a restart of the service there is more to fetch. */
const BYTES = { perSecond: 8 * 1024 * 1024, atOnce: 64 * 1024 * 1024 }
/** Answers and pieces of answers, which cost the same however small they are. A recorder sends a few each second. */
const TURNS = { perSecond: 200, atOnce: 200 }

export class Pace {
  readonly #bytes = new Bucket(BYTES)
  readonly #turns = new Bucket(TURNS)

  /** Counts what was fetched. Returns how long to wait before the next, in milliseconds; 0 as a rule. */
  spend(bytes: number, turns: number): number {
    return Math.max(this.#bytes.take(bytes), this.#turns.take(turns))
  }
}
