// How many instances of one kind have to be ready: as many as callers ask for at about the same time, and as memory allows. Learns from each create and forgets by and by.
import type { Config } from '../../../../base/config.ts'
import { memoryNow, type Memory } from '../../../../base/memory.ts'

/** How long a demand is remembered in full. Callers who come in bursts, such as a test suite that runs again and again, pause for minutes. */
const REMEMBERED_MS = 180_000
/** After that, it falls by one in each of these. */
const STEP_MS = 30_000
/** The length of a boot, in milliseconds, until one has been seen; and the shortest and the longest that count as usual. */
const FIRST_BOOT_MS = 1_000
const SHORTEST_MS = 250
const LONGEST_MS = 4_000
/** The part of a new boot in the average. */
const SHARE = 0.2
/** More arrivals than this within one boot are not told apart: no machine keeps so many ready. */
const MOST = 200

/** All times are in milliseconds of one clock that never goes back. */
export class Demand {
  /** The latest arrivals, oldest first. */
  #arrivals: number[] = []
  #peak = 0
  #peakAt = 0
  #bootMs = FIRST_BOOT_MS

  /** A caller has asked at `now`, whether or not one was ready. */
  asked(now: number): void {
    this.#arrivals = [...this.#arrivals.filter((at) => at > now - this.#bootMs), now].slice(-MOST)
    if (this.#arrivals.length < this.level(now)) return
    this.#peak = this.#arrivals.length
    this.#peakAt = now
  }

  /** A boot has taken `ms`. */
  booted(ms: number): void {
    this.#bootMs += SHARE * (Math.min(LONGEST_MS, Math.max(SHORTEST_MS, ms)) - this.#bootMs)
  }

  /** The largest number of callers who asked within the length of one boot, as far as that is remembered at `now`. */
  level(now: number): number {
    return Math.max(0, this.#peak - Math.max(0, Math.ceil((now - this.#peakAt - REMEMBERED_MS) / STEP_MS)))
  }
}

/**
 * Memory of a ready browser with an empty page, its agent and its display: 160 to 200 MiB measured, and what it takes when its first page is opened.
 */
const READY_BYTES = 256 * 1024 * 1024
/** The part of the memory that ready browsers may take, unless the settings say how many there may be. */
const SHARE_OF_MEMORY = 1 / 4
/** The part of the memory that is left free for sessions: beyond the least number, ready browsers are not kept in it. */
const LEFT_FREE = 1 / 8

/** How many ready browsers fit their share of the memory. */
export const fitsMemory = ({ totalBytes }: Memory): number => Math.floor((totalBytes * SHARE_OF_MEMORY) / READY_BYTES)

/** How many more ready browsers fit the memory that is free now. Negative when there are too many. */
export const fitting = ({ totalBytes, freeBytes }: Memory): number => Math.floor((freeBytes - totalBytes * LEFT_FREE) / READY_BYTES)

/** The most warm browsers. Those that are ready must not keep out sessions by their number, either. */
export function mostWarm({ warmBrowsers: least, warmBrowsersMax, maxBrowsers }: Config): number {
  return warmBrowsersMax ?? Math.max(least, Math.min(maxBrowsers, fitsMemory(memoryNow())))
}
