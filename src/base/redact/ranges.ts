// Parts of a text that are redacted.

export const REDACTED = '[redacted]'

/** A part: where it begins, and where it ends (exclusive). */
export type Range = readonly [from: number, to: number]

/** The text with {@link REDACTED} in place of each part; parts that overlap are joined. */
export function without(text: string, ranges: Range[]): string {
  if (ranges.length === 0) return text
  const sorted = ranges.toSorted((a, b) => a[0] - b[0])
  let out = ''
  let [from, to] = sorted[0]!
  let copied = 0
  for (const [nextFrom, nextTo] of sorted) {
    if (nextFrom <= to) {
      to = Math.max(to, nextTo)
      continue
    }
    out += text.slice(copied, from) + REDACTED
    copied = to
    ;[from, to] = [nextFrom, nextTo]
  }
  return out + text.slice(copied, from) + REDACTED + text.slice(to)
}
