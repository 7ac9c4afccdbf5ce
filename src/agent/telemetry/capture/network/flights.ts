// The unfinished requests of one target, bounded, and a callback when there have been none for a while.
import { FLIGHT_WEIGHT, IDLE_MS, MAX_FLIGHTS, MAX_HELD } from '../../limits.ts'

/** The reported head of an answer, until its body has arrived. */
export interface Head {
  status: number
  status_text: string
  mime_type: string
  headers: Record<string, string>
  isCut: boolean
  length: number
}

/** A request, and the known parts of its answer. */
export interface Flight {
  /** Without secrets, and cut. Secrets that are learned later are masked before the next event. */
  url: string
  isUrlCut: boolean
  /** The version of the secrets that are masked in its texts. */
  version: number
  /** Undefined when it began before the capture. */
  method: string | undefined
  resourceType: string
  frameId: string | undefined
  loaderId: string | undefined
  /** Whether it loads the document of a page's top frame. */
  isMain: boolean
  head?: Head
  /** Bytes of its decoded body that have arrived so far. */
  bytes: number
  /** Chromium had its answer in memory; its length was not captured. */
  isFromMemory: boolean
  /** Its answer was already reported, because it has no end. */
  isEndless: boolean
}

/** The memory that requests of all targets take. */
export interface Held {
  length: number
}

export class Flights {
  readonly #all = new Map<string, { flight: Flight; weight: number }>()
  readonly #held: Held
  readonly #onIdle: () => void
  #busy = 0
  #idle: NodeJS.Timeout | undefined

  /** `onIdle` is called when all have ended, and none has begun for {@link IDLE_MS}. */
  constructor(held: Held, onIdle: () => void) {
    this.#held = held
    this.#onIdle = onIdle
  }

  get(requestId: string): Flight | undefined {
    return this.#all.get(requestId)?.flight
  }

  /** Remembers a request. False when there are too many. */
  add(requestId: string, flight: Flight): boolean {
    this.take(requestId)
    const weight = FLIGHT_WEIGHT + flight.url.length
    if (this.#all.size >= MAX_FLIGHTS || this.#held.length + weight > MAX_HELD) return false
    this.#held.length += weight
    this.#all.set(requestId, { flight, weight })
    clearTimeout(this.#idle)
    this.#busy++
    return true
  }

  /** Adds the head of its answer. False when there is no room. */
  answered(requestId: string, head: Head): boolean {
    const one = this.#all.get(requestId)
    if (!one || this.#held.length + head.length > MAX_HELD) return false
    one.flight.head = head
    one.weight += head.length
    this.#held.length += head.length
    return true
  }

  /** Marks it as endless: nothing waits for its end. */
  endless(flight: Flight): void {
    if (flight.isEndless) return
    flight.isEndless = true
    this.#landed()
  }

  /** Removes a request that has ended. */
  take(requestId: string): Flight | undefined {
    const one = this.#all.get(requestId)
    if (!one) return undefined
    this.#all.delete(requestId)
    this.#held.length -= one.weight
    if (!one.flight.isEndless) this.#landed()
    return one.flight
  }

  /** Removes requests from before a new document: Chromium may never report their end. */
  dropBefore(document: Flight): void {
    for (const [requestId, { flight }] of this.#all) {
      if (flight === document) return
      this.take(requestId)
    }
  }

  clear(): void {
    for (const requestId of this.#all.keys()) this.take(requestId)
    clearTimeout(this.#idle)
  }

  #landed(): void {
    if (--this.#busy > 0) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(this.#onIdle, IDLE_MS).unref()
  }
}
