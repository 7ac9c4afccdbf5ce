// The action get_telemetry of manage_browsers: stored events of a session in a short form.
import * as z from 'zod'
import { CATEGORIES } from '../../../../agent/telemetry/contract.ts'
import { fault } from '../../../../http/fault.ts'
import { telemetryArchive } from '../../../sessions/telemetry/contract.ts'
import { act, itemsOf } from '../tool.ts'

/** Fields that compact events never have, and the length above which other fields are omitted. */
const LARGE_FIELDS = new Set(['body', 'headers', 'post_data', 'png'])
const LARGE = 8 * 1024
/** Most complete events in one answer. */
const MOST_WHOLE = 5

export const telemetryFields = {
  categories: 'Only events of these categories. A page may be empty while has_more is true.',
  since: 'Events at or after it: a time (RFC 3339), or how long ago ("30m"). Default: the start of the session. Not with order desc.',
  until: 'Events before it, in the same forms.',
  order: 'Oldest first, or newest first, which finds a recent failure without paging.',
  compact: `Default true: bodies, headers, pictures and fields above 8 KiB are left out, and omitted_fields names them. false needs categories and a limit of at most ${MOST_WHOLE}.`,
}

export const getTelemetry = act(telemetryArchive.listTelemetryEvents, {
  own: { categories: z.array(z.enum(CATEGORIES)).min(1).optional(), compact: z.boolean().optional() },
  edit({ query }, { categories, compact = true, limit, offset, since, until, order }) {
    if (since !== undefined && order === 'desc') throw fault.field('since', 'cannot be given together with order desc; use until')
    if (!compact && !(limit <= MOST_WHOLE)) throw fault.field('limit', `must be given with compact false, and at most ${MOST_WHOLE}`)
    const named = categories as string[] | undefined
    if (!compact && (!named || named.includes('screenshot'))) throw fault.field('categories', 'must be given with compact false, without screenshot')
    // The route's default is five minutes ago.
    if (offset === undefined && since === undefined && until === undefined && order !== 'desc') query.since = new Date(0).toISOString()
    if (named) query.category = named.join(',')
  },
  answer(found, { compact = true, order }) {
    const page = itemsOf(found)
    const oldest = page.has_more && !order ? 'Oldest events first. If the end matters, use order "desc".' : undefined
    const note = oldest ?? (page.items.length === 0 && !page.has_more ? 'No event matches.' : undefined)
    return { ...page, items: compact ? page.items.map(compacted) : page.items, ...(note !== undefined && { note }) }
  },
})

function compacted({ seq, event }: { seq: number; event: { ts: number; data?: unknown } & Record<string, unknown> }): object {
  const { ts, data, ...head } = event
  const fields = Object.entries((data ?? {}) as object)
  const isLarge = ([name, value]: [string, unknown]) => LARGE_FIELDS.has(name) || (JSON.stringify(value) ?? '').length > LARGE
  const omitted = fields.filter(isLarge).map(([name]) => name)
  return {
    seq,
    time: new Date(ts / 1000).toISOString(),
    ts,
    ...head,
    ...(fields.length > 0 && { data: Object.fromEntries(fields.filter((entry) => !isLarge(entry))) }),
    ...(omitted.length > 0 && { omitted_fields: omitted }),
  }
}
