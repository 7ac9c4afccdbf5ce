// How many requests of a target are told of in a second: a page can make any number, and reading one, with its headers and what it sends, takes the agent's time.

const REQUESTS = 1_000
const WINDOW_MS = 1_000

export class Budget {
  #window = { until: 0, requests: 0 }

  /** Counts one. Whether it may be told. */
  allows(): boolean {
    const now = performance.now()
    if (now >= this.#window.until) this.#window = { until: now + WINDOW_MS, requests: 0 }
    return this.#window.requests++ < REQUESTS
  }
}
