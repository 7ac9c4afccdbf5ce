// Seats: reservations for things that are about to be made, so that concurrent makers together stay below a limit.

export class Seats {
  readonly #taken: () => number
  #reserved = 0

  /** `taken` counts the things that exist already. */
  constructor(taken: () => number) {
    this.#taken = taken
  }

  /**
   * So many seats; undefined when fewer of all `of` are neither taken nor reserved. Call the returned function once the things count as taken, or will not be made. Repeated calls
   * are harmless.
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
