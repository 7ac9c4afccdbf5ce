// The contract of the Audit logs group.
import * as z from 'zod'
import { bytes, route, tokenPage } from '../../../http/route.ts'

const group = 'Audit logs'

/** Longest window of a search, in days. */
const MAX_WINDOW_DAYS = 30
const DAY_MS = 86_400_000

/** Most rows of one chunk. Download helpers refuse more. */
const MAX_CHUNK_ROWS = 50_000
/** Rows of a chunk if the caller gives no limit. */
const CHUNK_ROWS = 10_000

const Instant = z.iso.datetime({ offset: true }).transform((text) => new Date(text))
const Word = z.string().max(255)
/** Sent as one text with commas, as several parameters of the same name, or both. */
const Words = z
  .union([z.string().max(10_000), z.array(z.string().max(10_000)).max(100)])
  .transform((given) => [given].flat().flatMap((text) => text.split(',')))
  .pipe(z.array(Word).max(100))

const Filter = z.strictObject({
  /** Inclusive start of the window. */
  start: Instant,
  /** Exclusive end of the window, at most 30 days after `start`. */
  end: Instant,
  auth_strategy: Word.optional(),
  /** The first part of the route's path: `browsers`, `org`. */
  service: Word.optional(),
  method: Word.optional(),
  exclude_method: Words.optional(),
  /** Part of the path, the user's id or email, the client's address or the status. */
  search: z.string().max(1024).optional(),
  /** Users whose entries are found in addition to the matches of `search`. */
  search_user_id: Words.optional(),
})

/** A window in the right order and not too long. */
function inOrder({ start, end }: Partial<Record<'start' | 'end', unknown>>, context: z.RefinementCtx): void {
  // An invalid one already has its own error.
  if (!(start instanceof Date && end instanceof Date)) return
  if (end <= start) context.addIssue({ code: 'custom', path: ['end'], message: 'must be after start' })
  else if (end.getTime() - start.getTime() > MAX_WINDOW_DAYS * DAY_MS)
    context.addIssue({ code: 'custom', path: ['end'], message: `must be at most ${MAX_WINDOW_DAYS} days after start` })
}

/** The end of the year 9999: later times have another text form. */
const LAST_MS = 253_402_300_799_999

const position = (name: string) =>
  z
    .string()
    .regex(/^\d{1,15}\.[a-z0-9]{24}$/, `expected the ${name} of an earlier answer`)
    .transform((text) => {
      const [at, eventId] = text.split('.') as [string, string]
      return { at: new Date(Number(at)), eventId }
    })
    .refine(({ at }) => at.getTime() <= LAST_MS, `expected the ${name} of an earlier answer`)
    .optional()

/** The end of a page or chunk: older entries come after it. */
export type Position = NonNullable<z.output<ReturnType<typeof position>>>

export const positionOf = ({ timestamp, event_id: eventId }: Pick<AuditLogEntry, 'timestamp' | 'event_id'>): string => `${Date.parse(timestamp)}.${eventId}`

export const AuditLogEntry = z.object({
  event_id: z.string(),
  /** When the request arrived. */
  timestamp: z.iso.datetime(),
  method: z.string(),
  /** Without its query; tokens and keys in it are removed. */
  path: z.string(),
  route: z.string(),
  /** 101 for a WebSocket. */
  status: z.number().int(),
  /** Time until the answer began. */
  duration_ms: z.number().int(),
  /** The host by which the service was called. */
  domain: z.string(),
  client_ip: z.string(),
  user_agent: z.string(),
  /**
   * `api_key`; `app`: the code of a deployment; `session`: the token of a session; `link`: the address of a live view or a replay; `login`: the token of a
   * login.
   */
  auth_strategy: z.string(),
  /** The id of the key, the deployment, the session, the login, or the object that the link shows. */
  user_id: z.string(),
  /** A placeholder for keys, as in `created_by` of a key; else empty. */
  email: z.string(),
  /** The effective project; null: the request was refused before it was known, or concerns the organization. */
  project_id: z.string().nullable(),
})
export type AuditLogEntry = z.output<typeof AuditLogEntry>

const List = Filter.extend({
  page_token: position('X-Next-Page-Token'),
  /** More than 100 counts as 100. */
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000_000_000)
    .default(100)
    .transform((limit) => Math.min(limit, 100)),
}).superRefine(inOrder)
export type Search = z.output<typeof List>

const Chunk = Filter.extend({
  cursor: position('X-Next-Cursor'),
  format: z.enum(['jsonl', 'jsonl.gz']).default('jsonl.gz'),
  limit: z.coerce.number().int().min(1).max(MAX_CHUNK_ROWS).default(CHUNK_ROWS),
}).superRefine(inOrder)
export type Export = z.output<typeof Chunk>

export type Filter = z.output<typeof Filter>

export const auditLogs = {
  listAuditLogs: route({
    method: 'GET',
    path: '/audit-logs',
    id: 'listAuditLogs',
    right: 'own',
    group,
    summary: 'Search the audit log, newest entries first',
    query: List,
    reply: tokenPage(AuditLogEntry),
    faults: ['forbidden', 'too_many_requests'],
  }),
  exportAuditLogs: route({
    method: 'GET',
    path: '/audit-logs/export/chunk',
    id: 'exportAuditLogs',
    right: 'own',
    group,
    summary: 'Download a part of the audit log as JSON lines, newest entries first',
    query: Chunk,
    reply: bytes('application/octet-stream'),
    faults: ['forbidden', 'too_many_requests'],
  }),
}
