// The events in the page, newest first, and the number from which older ones continue.

/** The most events in the page. Older ones are fetched again on request. */
export const MAX_EVENTS = 2_000

interface Listed<E> {
  events: E[]
  /** The number before which the service has older events, or undefined when it has none. */
  older: number | undefined
}

/** Adds newer events at the front. Events that are cut off at the end are fetched again with the older ones. */
export function withNew<E extends { seq: number }>({ events, older }: Listed<E>, more: readonly E[]): Listed<E> {
  const all = [...more, ...events]
  if (all.length <= MAX_EVENTS) return { events: all, older }
  const kept = all.slice(0, MAX_EVENTS)
  return { events: kept, older: kept.at(-1)!.seq }
}
