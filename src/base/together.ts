// Work of which one run serves all who have asked for it before it began.

/** Runs `work` one at a time. Who asks while it runs shares the next run, which sees what it has changed. */
export function together(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return () =>
    (next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined
        return (running = work())
      }))
}
