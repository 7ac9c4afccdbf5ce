// The lines of the audit log's buffer: an entry, or the result of an earlier one.
import { z } from 'zod'
import { isId } from '../../../base/ids.ts'

/** Lines that are stored together. */
const AT_ONCE = 500
/** Most numbers of broken lines that are named. */
const MOST_NAMED = 10

/** What a column of the database takes: a broken file may hold anything. */
const Text = z.string().refine((text) => text.isWellFormed() && !text.includes('\0'))

const AuditResult = z.strictObject({
  at: z.iso.datetime(),
  event_id: z.string().refine(isId),
  status: z.int().min(0).max(999),
  duration_ms: z
    .int()
    .min(0)
    .max(2 ** 31 - 1),
})
/** A row of the table. A later version reads the lines of this one: columns that are added must be optional here. */
const AuditRow = AuditResult.extend({
  project_id: Text.nullable(),
  method: Text,
  path: Text,
  route: Text,
  domain: Text,
  client_ip: Text,
  user_agent: Text,
  auth_strategy: Text,
  user_id: Text,
  email: Text.nullable().default(null),
})
export type AuditRow = z.output<typeof AuditRow>
/** What is known of a request when it is answered. */
export type AuditResult = z.output<typeof AuditResult>

export const resultOf = ({ at, event_id, status, duration_ms }: AuditRow): AuditResult => ({ at, event_id, status, duration_ms })

/** What some lines say. Results of rows among them are in the rows. */
export interface Batch {
  rows: AuditRow[]
  results: AuditResult[]
}

/** Lines that are left out because they are not whole: how many, and the numbers of the first ones. */
export interface Broken {
  count: number
  lines: number[]
}

/** The contents of lines, in batches. Tells `broken` which are not whole: the last one that a dying service or a full disk got. */
export async function* batchesOf(lines: AsyncIterable<string | undefined>, broken: Broken): AsyncGenerator<Batch> {
  let [number, rows, results] = [0, new Map<string, AuditRow>(), new Map<string, AuditResult>()]
  for await (const text of lines) {
    number++
    const { row, result } = parsed(text)
    if (row) rows.set(row.event_id, row)
    else if (result) {
      const known = rows.get(result.event_id)
      if (known) Object.assign(known, result)
      else results.set(result.event_id, result)
    } else if (++broken.count <= MOST_NAMED) broken.lines.push(number)
    if (rows.size + results.size < AT_ONCE) continue
    yield { rows: [...rows.values()], results: [...results.values()] }
    ;[rows, results] = [new Map(), new Map()]
  }
  if (rows.size + results.size > 0) yield { rows: [...rows.values()], results: [...results.values()] }
}

/** Neither: the line is not whole. */
function parsed(text: string | undefined): { row?: AuditRow; result?: AuditResult } {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return typeof value === 'object' && value !== null && 'method' in value ? { row: AuditRow.parse(value) } : { result: AuditResult.parse(value) }
  } catch {
    return {}
  }
}
