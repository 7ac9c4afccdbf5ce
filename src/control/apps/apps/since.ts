// `since` of log readers: an age or a time (base/times.ts).
import { TIME_FORM, timeOf } from '../../../base/times.ts'
import { fault } from '../../../http/fault.ts'

/** The furthest that a reader can look back. An earlier time is raised to this: older lines may be removed. */
export const MAX_LOOKBACK_MS = 167 * 3_600_000

/**
 * The time that `text` means; undefined when it is absent or empty, which asks for all kept lines. A future time means now, a time too far back means
 * {@link MAX_LOOKBACK_MS} ago. @throws 400 naming `since`
 */
export function parseSince(text: string | undefined, now: Date = new Date()): Date | undefined {
  const at = parseBeginning(text, now)
  return at && new Date(Math.max(now.getTime() - MAX_LOOKBACK_MS, at.getTime()))
}

/** The same without that limit, for lists: rows are stored for longer than lines. @throws 400 naming `since` */
export function parseBeginning(text: string | undefined, now: Date = new Date()): Date | undefined {
  if (text === undefined || text === '') return undefined
  const at = timeOf(text, now.getTime())
  if (at === undefined) throw fault.field('since', TIME_FORM)
  return new Date(Math.min(now.getTime(), at))
}
