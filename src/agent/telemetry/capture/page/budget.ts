// How much of the life of a page is told in a second: a page may have its frames load again, and its layout shift, without end.

/** Of the document of the target itself. Frames do not hide it. */
const OF_DOCUMENT = 100
/** Navigations of the frames inside it, of which 500 are watched, and entries of its timeline. */
const OF_FRAMES = 500
const WINDOW_MS = 1_000

export class Budget {
  #window = { until: 0, ofDocument: 0, ofFrames: 0 }

  /** Counts one. Whether it may be told. */
  allows(isOfFrame: boolean): boolean {
    const now = performance.now()
    if (now >= this.#window.until) this.#window = { until: now + WINDOW_MS, ofDocument: 0, ofFrames: 0 }
    return isOfFrame ? this.#window.ofFrames++ < OF_FRAMES : this.#window.ofDocument++ < OF_DOCUMENT
  }
}
