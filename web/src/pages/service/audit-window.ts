// The time range of the audit log's page: the last hours or days, or chosen days.

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The service searches at most this many days at once. */
const MAX_DAYS = 30

const LAST: Record<string, number> = { day: DAY_MS, hour: HOUR_MS, week: 7 * DAY_MS, month: MAX_DAYS * DAY_MS }

/** The choice that shows two fields for days. */
export const DAYS = 'days'

export interface Range {
  start: string
  end: string
}

/** The start of a typed day by this machine's clock, or undefined when it is not a day. */
function dayOf(text: string | undefined, add = 0): Date | undefined {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text ?? '') ?? []
  return year === undefined ? undefined : new Date(Number(year), Number(month) - 1, Number(day) + add)
}

const range = (start: number, end: number): Range => ({ start: new Date(start).toISOString(), end: new Date(end).toISOString() })

/** The range to search at the time `now`. Undefined when the service does not search the chosen days. Both days are included. */
export function rangeOf(window: string, { from, to }: { from?: string; to?: string }, now: number): Range | undefined {
  if (window !== DAYS) return range(now - LAST[window]!, now)
  const [start, end] = [dayOf(from)?.getTime(), dayOf(to, 1)?.getTime()]
  if (start === undefined) return range((end ?? now) - MAX_DAYS * DAY_MS, end ?? now)
  if (end === undefined) return range(start, Math.max(start + 1, Math.min(start + MAX_DAYS * DAY_MS, now)))
  // One more hour, for a month in which the clock is set back.
  if (end <= start || end - start > MAX_DAYS * DAY_MS + HOUR_MS) return undefined
  return range(Math.max(start, end - MAX_DAYS * DAY_MS), end)
}
