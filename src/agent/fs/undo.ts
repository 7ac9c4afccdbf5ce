// Undoes the steps of an operation that did not finish.

/** On dispose, runs the steps in reverse order. Each step gets whether `keep` was called. */
export class Undo implements AsyncDisposable {
  readonly #steps: ((kept: boolean) => Promise<void>)[] = []
  #kept = false

  defer(step: (kept: boolean) => Promise<void>): void {
    this.#steps.push(step)
  }

  /** The operation has succeeded: keep its results. */
  keep(): void {
    this.#kept = true
  }

  /** Runs every step, even when one of them fails. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = []
    for (const step of this.#steps.reverse()) await step(this.#kept).catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  }
}
