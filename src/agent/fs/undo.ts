// What takes back the steps of something that was not finished.

/** Steps that are taken back in reverse order when it is disposed, unless it was kept. Each is told which. */
export class Undo implements AsyncDisposable {
  readonly #steps: ((kept: boolean) => Promise<void>)[] = []
  #kept = false

  defer(step: (kept: boolean) => Promise<void>): void {
    this.#steps.push(step)
  }

  /** Everything has come to its good end. */
  keep(): void {
    this.#kept = true
  }

  /** Takes every step back, also when one cannot be. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = []
    for (const step of this.#steps.reverse()) await step(this.#kept).catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  }
}
