// One line of text for an event. Its data come from a session, so their form is not trusted.
import type { EventOf } from '../../api/contracts.ts'
import { printable } from '../../ui/text.ts'

export type Event = EventOf<'streamTelemetry'>

const MAX_TEXT = 300
const text = (value: unknown): string => (typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : '')
const cut = (whole: string): string => (whole.length <= MAX_TEXT ? whole : `${whole.slice(0, MAX_TEXT - 1)}…`)

/** The most informative fields per event type, in order; the first that exist form the line. */
const SAYS: Record<string, readonly string[]> = {
  console: ['level', 'text'],
  network: ['status', 'method', 'url', 'error_text'],
  page: ['url', 'title'],
  interaction: ['tag', 'text', 'key', 'selector'],
  control: ['method', 'operation', 'path', 'status', 'duration_ms'],
  platform: ['method', 'path', 'status'],
  connection: ['client', 'user_agent', 'reason'],
  system: ['process', 'service', 'reason', 'message'],
}

export function lineOf({ event: { category, type, data = {} } }: Event): string {
  const parts = (SAYS[category] ?? []).map((field) => text(data[field])).filter(Boolean)
  const rest =
    parts.length > 0
      ? parts
      : Object.entries(data)
          .map(([field, value]) => (/(^|_)id$/.test(field) ? '' : text(value)))
          .filter(Boolean)
  return (
    cut(
      printable(
        rest
          .join(' ')
          .slice(0, 4 * MAX_TEXT)
          .replaceAll(/\s+/g, ' '),
      ),
    ) || type.replaceAll('_', ' ')
  )
}

export const titleOf = ({ event: { type } }: Event): string => type.replaceAll('_', ' ')

export function toneOf({ event: { type, data = {} } }: Event): 'bad' | 'warn' | undefined {
  if (/error|crashed|failed|oom|lost/.test(type)) return 'bad'
  const { status } = data
  return typeof status === 'number' && status >= 400 ? (status >= 500 ? 'bad' : 'warn') : undefined
}
