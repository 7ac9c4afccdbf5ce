// How many of a thing should be ready: as many as callers ask for within the time that it takes to make one. Old demand is forgotten slowly.

/** The peak of demand counts in full for this time. Callers that come in bursts, such as a test suite that runs again and again, pause for minutes. */
const REMEMBERED_MS = 180_000
/** After that, the peak falls by one after each interval of this length. */
const STEP_MS = 30_000
/** The assumed length of a boot before the first one, and the limits of what a boot adds to the average. */
const FIRST_BOOT_MS = 1_000
const SHORTEST_MS = 250
const LONGEST_MS = 4_000
/** The weight of a new boot in the average. */
const SHARE = 0.2
/** Limit on the arrivals that are kept: no machine keeps more instances ready. */
const MOST = 200

/** All times are in milliseconds of one monotonic clock. */
export class Demand {
  /** The latest arrivals, oldest first. */
  #arrivals: number[] = []
  #peak = 0
  #peakAt = 0
  #bootMs = FIRST_BOOT_MS

  /** Records a caller who asked at `now`, whether or not an instance was ready. */
  asked(now: number): void {
    this.#arrivals = [...this.#arrivals.filter((at) => at > now - this.#bootMs), now].slice(-MOST)
    if (this.#arrivals.length < this.level(now)) return
    this.#peak = this.#arrivals.length
    this.#peakAt = now
  }

  /** Records a boot that took `ms`. */
  booted(ms: number): void {
    this.#bootMs += SHARE * (Math.min(LONGEST_MS, Math.max(SHORTEST_MS, ms)) - this.#bootMs)
  }

  /** The peak at `now`: the largest number of callers who asked within the length of one boot, reduced with time. */
  level(now: number): number {
    return Math.max(0, this.#peak - Math.max(0, Math.ceil((now - this.#peakAt - REMEMBERED_MS) / STEP_MS)))
  }
}
