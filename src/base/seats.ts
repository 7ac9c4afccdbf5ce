// Seats: reservations for things that are about to be made, so that concurrent makers together stay below a limit.

export class Seats {
  readonly #taken: () => number
  #reserved = 0

  /** `taken` counts the things that exist already. */
  constructor(taken: () => number) {
    this.#taken = taken
  }

  /** A seat; undefined when all `of` are taken or reserved. Call the returned function once the thing counts as taken, or will not be made. Repeated calls are harmless. */
  reserve(of: number): (() => void) | undefined {
    if (this.#taken() + this.#reserved >= of) return undefined
    this.#reserved++
    let held = true
    return () => {
      if (held) this.#reserved--
      held = false
    }
  }
}
