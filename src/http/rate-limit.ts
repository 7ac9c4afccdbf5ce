// The limit of requests per key within a minute. It is counted in the memory of this process; a limit of 0 means no limit.
import type { FastifyReply } from 'fastify'
import { fault } from './fault.ts'
import type { ByAccount } from './route.ts'

/** Requests are counted per second: a key needs memory for these numbers, and not for each of its requests. */
const SLOT_MS = 1000
/** The last minute, and the present second. So no minute, wherever it begins, has more requests than the limit. */
const SLOTS = 61
/** Most keys whose requests are counted. The least recently used ones are forgotten, and may then start a new minute. */
const MAX_KEYS = 10_000

/** The remaining requests of a key after a request. */
interface Allowance {
  remaining: number
  /** The request is refused: the wait, in seconds. */
  retryAfterSeconds: number | undefined
}

/** The requests of one key: the count of each second of the window, and the total. */
interface Window {
  counts: Uint32Array
  /** The second of the newest count. */
  slot: number
  sum: number
}

export class RateLimit {
  readonly perMinute: number
  readonly #now: () => number
  readonly #maxKeys: number
  /** By key, least recently used first. */
  readonly #windows = new Map<string, Window>()

  /** `now` tells the time in milliseconds, and never goes back. */
  constructor(perMinute: number, { now = () => performance.now(), maxKeys = MAX_KEYS }: { now?: () => number; maxKeys?: number } = {}) {
    this.perMinute = perMinute
    this.#now = now
    this.#maxKeys = maxKeys
  }

  /** Counts a request of a key, unless it is refused: a client that keeps requesting gets as many answers as one that waits. */
  take(key: string): Allowance {
    const now = this.#now() + SLOTS * SLOT_MS // so that no slot of the window is negative
    const slot = Math.floor(now / SLOT_MS)
    const window = this.#windowOf(key, slot)
    for (let left = Math.max(window.slot + 1, slot - SLOTS + 1); left <= slot; left++) {
      window.sum -= window.counts[left % SLOTS]!
      window.counts[left % SLOTS] = 0
    }
    window.slot = slot
    if (window.sum >= this.perMinute) {
      let oldest = slot - SLOTS + 1
      while (window.counts[oldest % SLOTS] === 0) oldest++
      return { remaining: 0, retryAfterSeconds: Math.ceil(((oldest + SLOTS) * SLOT_MS - now) / 1000) }
    }
    window.counts[slot % SLOTS]!++
    window.sum++
    return { remaining: this.perMinute - window.sum, retryAfterSeconds: undefined }
  }

  #windowOf(key: string, slot: number): Window {
    const found = this.#windows.get(key)
    if (found) this.#windows.delete(key)
    else if (this.#windows.size >= this.#maxKeys) this.#windows.delete(this.#windows.keys().next().value!)
    const window = found ?? { counts: new Uint32Array(SLOTS), slot, sum: 0 }
    this.#windows.set(key, window)
    return window
  }
}

/** Counts a request of a key, and sets the headers of the rest on its answer. @throws 429 */
export function countRequest(limit: RateLimit | undefined, { id }: ByAccount, reply: FastifyReply): void {
  if (!limit) return
  const { remaining, retryAfterSeconds } = limit.take(id)
  void reply.headers({ 'x-ratelimit-limit': String(limit.perMinute), 'x-ratelimit-remaining': String(remaining) })
  if (retryAfterSeconds !== undefined)
    throw fault.tooMany(`this API key may make ${limit.perMinute} requests within a minute, and has made them (COB_RATE_LIMIT_PER_MINUTE)`, retryAfterSeconds)
}
