// How single values are shown: times, ids, states, tags, links, bytes. What a session says is text, and becomes nothing else.
import { useEffect, useState, type ReactNode } from 'react'
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

/** "14:03:27.123", by the clock of this machine; empty when it is no time. */
export const timeOfDay = (date: Date): string => (Number.isNaN(date.getTime()) ? '' : ofDay.format(date))

/** The clock of the page, one for all, so that a list of a hundred times has one timer. */
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

/** "3 min. ago", with the exact time on hover. */
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

/** "1 h 5 min" */
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

/** An id, or other text for machines. */
export const Mono = ({ children }: { children: ReactNode }) => <span className="mono">{children}</span>

/** A state: its colour says the same as its word. */
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

/** A link to where a session says it is: only to pages of the web, in a tab that knows nothing of this one. Anything else is text. */
export function Outside({ url, children = url }: { url: string; children?: ReactNode }) {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isWeb) return <span className="outside">{children}</span>
  return (
    <a className="outside" href={url} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  )
}

/** Names and values, two columns. What has no value is left out. */
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
