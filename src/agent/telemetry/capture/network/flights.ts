// Requests of one target that have not ended, bounded, and when there have been none for a while.
import { FLIGHT_WEIGHT, IDLE_MS, MAX_FLIGHTS, MAX_HELD } from '../../limits.ts'

/** What was told of an answer's head, until its body is in. */
export interface Head {
  status: number
  status_text: string
  mime_type: string
  headers: Record<string, string>
  isCut: boolean
  length: number
}

/** A request, and what is known of its answer. */
export interface Flight {
  /** Without secrets, and cut. What is learned later is taken out when more is told of it. */
  url: string
  isUrlCut: boolean
  /** The version of the secrets that its texts are without. */
  version: number
  /** Undefined: it began before the capture. */
  method: string | undefined
  resourceType: string
  frameId: string | undefined
  loaderId: string | undefined
  /** Whether it loads the document of a page's top frame. */
  isMain: boolean
  head?: Head
  /** Bytes of its body, decoded, as far as they were seen. */
  bytes: number
  /** Chromium had its answer in memory; how long that is was not seen. */
  isFromMemory: boolean
  /** Its answer has been told already, because it has no end. */
  isEndless: boolean
}

/** Counts what requests of all targets take. */
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

  /** Remembers a request. False: there are too many. */
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

  /** Adds the head of its answer. False: there is no room. */
  answered(requestId: string, head: Head): boolean {
    const one = this.#all.get(requestId)
    if (!one || this.#held.length + head.length > MAX_HELD) return false
    one.flight.head = head
    one.weight += head.length
    this.#held.length += head.length
    return true
  }

  /** It has no end, so nothing waits for that. */
  endless(flight: Flight): void {
    if (flight.isEndless) return
    flight.isEndless = true
    this.#landed()
  }

  /** Forgets a request, which has ended. */
  take(requestId: string): Flight | undefined {
    const one = this.#all.get(requestId)
    if (!one) return undefined
    this.#all.delete(requestId)
    this.#held.length -= one.weight
    if (!one.flight.isEndless) this.#landed()
    return one.flight
  }

  /** Forgets what began before a document that has come: Chromium may never tell its end. */
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
