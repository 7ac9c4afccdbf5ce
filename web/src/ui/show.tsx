// Shows single values: times, ids, states, tags, links, bytes. A session's content is shown as text only.
import { useEffect, useState, type ReactNode } from 'react'
import { Link } from 'react-router'
import { printable } from './text.ts'

const SECOND = 1_000
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', SECOND],
]
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' })
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

const ofDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' })

/** "14:03:27.123" by this machine's clock, or empty when the time is invalid. */
export const timeOfDay = (date: Date): string => (Number.isNaN(date.getTime()) ? '' : ofDay.format(date))

/** One clock for the whole page, so that a list with a hundred times needs one timer. */
const clock = {
  listeners: new Set<(now: number) => void>(),
  timer: undefined as ReturnType<typeof setInterval> | undefined,
}
const CLOCK_MS = 10_000

function useNow(): number {
  const [now, tick] = useState(Date.now)
  useEffect(() => {
    clock.listeners.add(tick)
    clock.timer ??= setInterval(() => clock.listeners.forEach((listener) => listener(Date.now())), CLOCK_MS)
    return () => {
      clock.listeners.delete(tick)
      if (clock.listeners.size > 0) return
      clearInterval(clock.timer)
      clock.timer = undefined
    }
  }, [])
  return now
}

/** Shows "3 min. ago", with the exact time on hover. */
export function Ago({ at }: { at: string | undefined | null }) {
  const now = useNow()
  if (!at) return <span className="muted">never</span>
  const date = new Date(at)
  const ms = date.getTime() - now
  const [unit, size] = STEPS.find(([, each]) => Math.abs(ms) >= each) ?? ['second', SECOND]
  return (
    <time dateTime={at} title={absolute.format(date)}>
      {Math.abs(ms) < 5 * SECOND ? 'now' : relative.format(Math.round(ms / size), unit)}
    </time>
  )
}

/** Formats a duration as "1 h 5 min". */
export function duration(ms: number): string {
  const seconds = Math.round(ms / SECOND)
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ]
  const from = parts.findIndex(([count]) => count > 0)
  if (from === -1) return '0 s'
  return parts
    .slice(from, from + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ')
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  const power = Math.min(4, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(bytes < 10 * 1024 ** power ? 1 : 0)} ${'KMGT'[power - 1]}iB`
}

/** The main cell of a row: the thing, and in small letters below it what distinguishes it from others. */
export const Two = ({ children, below }: { children: ReactNode; below: ReactNode }) => (
  <span className="main-cell">
    {children}
    {below && <small>{below}</small>}
  </span>
)

/** An id, or other text for machines. */
export const Mono = ({ children }: { children: ReactNode }) => <span className="mono">{children}</span>

/** A named thing in a list: its name above its id, with a link to its page if it has one. */
export const Named = ({ id, name, to, children }: { id: string; name: string | undefined | null; to?: string; children?: ReactNode }) => {
  const called = name == null ? id : printable(name)
  return (
    <span className="main-cell">
      {to === undefined ? called : <Link to={to}>{called}</Link>}
      {called !== id && (
        <small>
          <Mono>{id}</Mono>
        </small>
      )}
      {children}
    </span>
  )
}

/** A state. Its colour and its word say the same. */
export const State = ({ kind, children }: { kind: 'good' | 'busy' | 'bad' | 'off'; children: ReactNode }) => <span className={`state ${kind}`}>{children}</span>

export const Tags = ({ tags }: { tags: Record<string, string> | undefined }) =>
  tags && Object.keys(tags).length > 0 ? (
    <ul className="tags">
      {Object.entries(tags).map(([key, value]) => (
        <li key={key} className="tag">
          <span>{printable(key)}</span>
          {value !== '' && <b>{printable(value)}</b>}
        </li>
      ))}
    </ul>
  ) : null

/** A link to an address that a session gives. Only web addresses become links, in a tab without access to this one; others are text. */
export function Outside({ url, children = url }: { url: string; children?: ReactNode }) {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isWeb) return <span className="outside">{children}</span>
  return (
    <a className="outside" href={url} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  )
}

/** Names and values in two columns. A name without a value is left out. */
export const Facts = ({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) => (
  <dl className="facts">
    {facts
      .filter(([, value]) => value !== undefined && value !== null && value !== '')
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)
