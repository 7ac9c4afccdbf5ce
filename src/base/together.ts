// Work of which one run serves all callers that have requested it before its start.

/** Runs `work` one at a time. Callers that request it during a run share the next run, which sees their changes. */
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
