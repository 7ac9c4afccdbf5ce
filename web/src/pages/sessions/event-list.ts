// The events that the page has, newest first, and where older ones begin.

/** In the page at most; older ones are fetched again when somebody asks for them. */
export const MAX_EVENTS = 2_000

interface Listed<E> {
  events: E[]
  /** The number before which the service is asked for older ones; undefined: there are none. */
  older: number | undefined
}

/** With what has come since, newest first. What is cut off at the end comes again with the older ones. */
export function withNew<E extends { seq: number }>({ events, older }: Listed<E>, more: readonly E[]): Listed<E> {
  const all = [...more, ...events]
  if (all.length <= MAX_EVENTS) return { events: all, older }
  const kept = all.slice(0, MAX_EVENTS)
  return { events: kept, older: kept.at(-1)!.seq }
}
