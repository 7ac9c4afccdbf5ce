// Times that callers write: how long ago ("5m", "1h30m", in Go's format) or when ("2026-01-02", RFC 3339).

const UNIT_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, μs: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }
const DURATION = /^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/
const TERM = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g
const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)(?:t(\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?(z|[+-]\d\d:\d\d)?)?$/i

/** The required form of such a text, for errors. */
export const TIME_FORM = 'must be a duration such as 5m or 1h30m, or a time such as 2026-01-02 or 2026-01-02T15:04:05Z'

/** The time of `text`, in milliseconds since 1970, not rounded; undefined when it is not a time. A time without a zone is UTC. */
export function timeOf(text: string, now: number): number | undefined {
  const ago = durationMs(text)
  return ago === undefined ? timestamp(text) : now - ago
}

function durationMs(text: string): number | undefined {
  if (text === '0') return 0
  if (!DURATION.test(text)) return undefined
  let ms = 0
  for (const [, amount, unit] of text.matchAll(TERM)) ms += Number(amount) * UNIT_MS[unit!]!
  return ms
}

function timestamp(text: string): number | undefined {
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '0', zone = 'Z'] = TIMESTAMP.exec(text) ?? []
  if (year === undefined) return undefined
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map(Number) as [number, number, number, number, number, number]
  const date = new Date(Date.UTC(y, mo - 1, d, h, mi, s))
  date.setUTCFullYear(y, mo - 1, d) // Date.UTC reads the years 0-99 as 1900-1999
  // Date.UTC turns a day or hour that does not exist into another one.
  if (date.getUTCMonth() !== mo - 1 || date.getUTCDate() !== d || h > 23 || mi > 59 || s > 59) return undefined
  const offset = /^([+-])(\d\d):(\d\d)$/.exec(zone)
  const minutes = offset ? Number(`${offset[1]}1`) * (Number(offset[2]) * 60 + Number(offset[3])) : 0
  if (offset && (Number(offset[2]) > 23 || Number(offset[3]) > 59)) return undefined
  return date.getTime() + Number(fraction) * 1_000 - minutes * 60_000
}
