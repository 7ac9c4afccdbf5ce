// Fetches bodies of answers of one target from Chromium: a few at a time; a bounded number waits.
import { Slots } from '../../../../base/slots.ts'
import { BODIES_AT_ONCE, BODIES_OF_ALL_AT_ONCE, BODIES_WAITING, BODY_ANSWER_MS, BODY_BYTES_A_SECOND } from '../../limits.ts'
import type { WatchedTarget } from '../collector.ts'
import { Window } from '../share.ts'

/** State that all targets share. */
export class BodyGate {
  readonly slots = new Slots(BODIES_OF_ALL_AT_ONCE)
  readonly window = new Window({ bytes: BODY_BYTES_A_SECOND })
}

export class Bodies {
  readonly #target: WatchedTarget
  readonly #gate: BodyGate
  readonly #slots = new Slots(BODIES_AT_ONCE)
  #asked = 0

  constructor(target: WatchedTarget, gate: BodyGate) {
    this.#target = target
    this.#gate = gate
  }

  /** The body of a complete answer with `bytes` bytes; undefined when it cannot be fetched. Does not throw. */
  async fetch(requestId: string, bytes: number): Promise<string | undefined> {
    const { session, signal } = this.#target
    if (this.#asked === BODIES_AT_ONCE + BODIES_WAITING) return undefined
    this.#asked++
    try {
      using _mine = await this.#slots.enter(signal)
      using _ofAll = await this.#gate.slots.enter(signal)
      if (!this.#gate.window.fits('bytes', bytes)) return undefined
      const { body, base64Encoded } = await session.send('Network.getResponseBody', { requestId }, { limitMs: BODY_ANSWER_MS, signal })
      return base64Encoded ? Buffer.from(body, 'base64').toString() : body
    } catch {
      // It is not available: the page was left, its buffer is full, or it hangs.
      return undefined
    } finally {
      this.#asked--
    }
  }
}
