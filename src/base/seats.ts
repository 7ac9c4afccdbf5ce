// Seats: reservations for things that are about to be made, so that concurrent makers together stay below a limit.

export class Seats {
  readonly #taken: () => number
  #reserved = 0

  /** `taken` returns the number of existing things. */
  constructor(taken: () => number) {
    this.#taken = taken
  }

  /**
   * Reserves `wanted` seats; undefined when fewer than that of all `of` are free. A seat is free when it is neither taken nor reserved. Call the returned
   * function when the things count as taken, or will not be made. Repeated calls are harmless.
   */
  reserve(of: number, wanted = 1): (() => void) | undefined {
    if (this.#taken() + this.#reserved + wanted > of) return undefined
    this.#reserved += wanted
    let held = true
    return () => {
      if (held) this.#reserved -= wanted
      held = false
    }
  }
}
