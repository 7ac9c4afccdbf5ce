// Removes from a target's events every text that may contain a password, while passwords that are typed there may not be learned.
import type { NewEvent } from '../telemetry.ts'

/** Fields of events' data with texts of pages, of their requests and of the answers. */
const TEXTS = new Set(['post_data', 'body', 'headers', 'args', 'stack_trace', 'title', 'element_id'])
/** Fields that are always present, so they are emptied. */
const EMPTIED = new Set(['text'])
const URLS = new Set(['url', 'document_url', 'redirect_url', 'source_url'])

/** The event without such texts: addresses keep the part before their query. */
export function withhold(event: NewEvent): NewEvent {
  if (!event.data) return event
  const { data, isLess } = less(event.data)
  return isLess ? { ...event, data, truncated: true } : event
}

function less(given: object): { data: object; isLess: boolean } {
  const data: Record<string, unknown> = {}
  let isLess = false
  for (const [key, value] of Object.entries(given)) {
    let kept: unknown = value
    if (TEXTS.has(key)) kept = undefined
    else if (EMPTIED.has(key)) kept = value === undefined ? undefined : ''
    else if (URLS.has(key) && typeof value === 'string') kept = value.replace(/[?#].*$/s, '')
    else if (key.endsWith('_details') && typeof value === 'object' && value !== null) {
      const inner = less(value)
      kept = inner.data
      isLess ||= inner.isLess
      data[key] = kept
      continue
    }
    isLess ||= kept !== value
    if (kept !== undefined) data[key] = kept
  }
  return { data, isLess }
}
